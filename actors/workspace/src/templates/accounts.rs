//! The versions of a template in the accounts of a workspace's numbers.
//!
//! Numbers of two accounts may be in one workspace, and each account has templates of its own. A
//! row is that of one account, and has beside it what the others have under the same name and
//! language. A row that names no account, such as one that was made by hand, is that of the account
//! of the workspace's first number.

use std::borrow::Cow;

use postrider_domain::template::{TemplateCategory, TemplateStatus};
use postrider_domain::{NumberId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ChannelFacts, Template, UseTemplateError};
use crate::core::command::Context;
use crate::core::senders::pool::Pool;

/// The version of a template in one more account, with the same name and language.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OfAccount {
    /// The account.
    pub account: Box<str>,
    /// The category.
    pub category: TemplateCategory,
    /// The status, by which it may be sent or not.
    pub status: TemplateStatus,
    /// The components, in the channel's JSON.
    pub components: Vec<Value>,
    /// Other facts that the channel reports.
    #[serde(flatten)]
    pub facts: ChannelFacts,
}

/// A [`TemplateOwner`] in its borrowed form: the account, and that of the workspace's first number.
pub(crate) type TemplateOwnerRef<'a> = (Option<&'a str>, Option<&'a str>);

impl Template {
    /// Returns whether the row itself is that of an account; it is that of numbers without one.
    fn is_of(&self, (account, home): TemplateOwnerRef<'_>) -> bool {
        let owner = self.account.as_deref().or(home);
        account.is_none() || owner.is_none() || owner == account
    }

    /// Returns the template of an account, without those of others.
    pub(crate) fn of_account(&self, account: TemplateOwnerRef<'_>) -> Option<Self> {
        let Self { name, language, updated_at, .. } = self;
        let (category, status, components, facts) = match self.is_of(account) {
            true => (self.category, self.status, &self.components, &self.facts),
            false => {
                let it = self.others.iter().find(|it| Some(&*it.account) == account.0)?;
                (it.category, it.status, &it.components, &it.facts)
            }
        };
        Some(Self {
            name: name.clone(),
            language: language.clone(),
            category,
            status,
            components: components.clone(),
            updated_at: *updated_at,
            facts: facts.clone(),
            account: account.0.map(Into::into),
            others: Vec::new(),
        })
    }

    /// Returns its status in an account; `None` if the account does not have it.
    pub(crate) fn status_of(&self, account: TemplateOwnerRef<'_>) -> Option<TemplateStatus> {
        if self.is_of(account) {
            return Some(self.status);
        }
        let other = self.others.iter().find(|it| Some(&*it.account) == account.0);
        other.map(|it| it.status)
    }

    /// Returns the row with this version for an account.
    pub(super) fn with(&self, account: TemplateOwnerRef<'_>, new: Self) -> Self {
        let (own, name) = (self.is_of(account), account.0.map(Box::<str>::from));
        let mut row = self.clone();
        row.others.retain(|it| Some(&it.account) != name.as_ref());
        row.updated_at = new.updated_at;
        let Self { category, status, components, facts, .. } = new;
        match name {
            Some(account) if !own => {
                row.others.push(OfAccount { account, category, status, components, facts });
                row
            }
            name => {
                Self { category, status, components, facts, account: name.or(row.account), ..row }
            }
        }
    }

    /// Returns the row with an account's version in the place of its own; `None` if there is none.
    pub(super) fn without_own(&self, account: Option<&str>) -> Option<Self> {
        let mut row = self.clone();
        let at = row.others.iter().position(|it| Some(&*it.account) == account)?;
        let OfAccount { account, category, status, components, facts } = row.others.remove(at);
        Some(Self { account: Some(account), category, status, components, facts, ..row })
    }

    /// Returns the row after an account has listed it.
    ///
    /// If that account is not the row's own, the row names its own account from then on.
    pub(super) fn named(self, (account, home): TemplateOwnerRef<'_>) -> Self {
        let is_own = self.is_of((account, home));
        match self.account {
            None if !is_own => Self { account: home.map(Into::into), ..self },
            _ => self,
        }
    }

    /// Returns whether it has changed since a moment of the provider, which counts in seconds.
    pub(crate) const fn is_newer_than(&self, at: Timestamp) -> bool {
        at.as_secs() < self.updated_at.as_secs()
    }

    /// Returns the accounts that have it, with the status in each; the first is the row's own.
    pub fn accounts(&self) -> impl Iterator<Item = (&str, TemplateCategory, TemplateStatus)> {
        let own = self.account.as_deref().map(|it| (it, self.category, self.status));
        let others = self.others.iter().map(|it| (&*it.account, it.category, it.status));
        own.into_iter().chain(others)
    }

    /// Returns whether a number can send it: its account has it approved.
    pub(crate) fn can_leave(&self, pool: &Pool, number: NumberId) -> bool {
        pool.account(number).is_some_and(|account| self.is_approved(pool, account))
    }

    /// Returns whether an account has it approved.
    pub(crate) fn is_approved(&self, pool: &Pool, account: Option<&str>) -> bool {
        self.status_of((account, pool.home())) == Some(TemplateStatus::Approved)
    }

    /// Checks that the row's own account has it approved.
    ///
    /// # Errors
    /// [`UseTemplateError`]: it is not approved.
    pub(crate) const fn check_approved(&self) -> Result<(), UseTemplateError> {
        match self.status {
            TemplateStatus::Approved => Ok(()),
            status => Err(UseTemplateError::NotApproved(status)),
        }
    }

    /// Returns the template of a number's account, if it may be sent from there.
    ///
    /// # Errors
    /// [`UseTemplateError`]: the account does not have it, or it is not approved there.
    pub(crate) fn for_number(
        &self,
        pool: &Pool,
        number: NumberId,
    ) -> Result<Cow<'_, Self>, UseTemplateError> {
        let account = (pool.account(number).flatten(), pool.home());
        match self.status_of(account) {
            Some(TemplateStatus::Approved) if self.is_of(account) => Ok(Cow::Borrowed(self)),
            Some(TemplateStatus::Approved) => {
                let found = self.of_account(account).map(Cow::Owned);
                found.ok_or(UseTemplateError::NoSuchTemplate)
            }
            Some(status) => Err(UseTemplateError::NotApproved(status)),
            None => Err(UseTemplateError::NoSuchTemplate),
        }
    }

    /// Returns the reason why no number of a pool can send it: its status in the account that has
    /// it.
    pub(crate) fn refusal(&self, pool: &Pool) -> UseTemplateError {
        let status = |number| self.status_of((pool.account(number).flatten(), pool.home()));
        let found = pool.numbers().find_map(status).filter(|it| *it != TemplateStatus::Approved);
        match found.or(Some(self.status).filter(|it| *it != TemplateStatus::Approved)) {
            Some(status) => UseTemplateError::NotApproved(status),
            None => UseTemplateError::NoSuchTemplate,
        }
    }
}

/// The owner of a template: the account, if there is one, and that of the workspace's first number.
pub(super) struct TemplateOwner {
    pub(super) account: Option<Box<str>>,
    pub(super) home: Option<Box<str>>,
}

impl TemplateOwner {
    /// Returns the owner for a number's account.
    pub(super) fn of(context: &Context<'_>, number: NumberId) -> Self {
        let pool = &context.core.pool;
        let account = pool.account(number).flatten().map(Into::into);
        Self { account, home: pool.home().map(Into::into) }
    }

    /// Returns the owner in its borrowed form.
    pub(super) fn borrowed(&self) -> TemplateOwnerRef<'_> {
        (self.account.as_deref(), self.home.as_deref())
    }
}
