//! Phones that have opted out of messages, in [`Table::Suppressions`] under `workspace ‖ 0 ‖ phone`.

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use crate::domain::opt_out::OptOut;
use crate::domain::{Phone, Timestamp, WorkspaceId};
use crate::store::{Direction, StoreError, Table};

use super::command::{Command, Context};
use super::messages::Unavailable;
use super::{Workspace, records};

/// Why a phone that opted out with a message is there.
pub(super) const BY_MESSAGE: &str = "opted out by message";

/// A phone that has opted out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suppression {
    /// The phone.
    pub phone: Phone,
    /// Why, if somebody said so.
    pub reason: Option<String>,
    /// Since when.
    pub created_at: Timestamp,
}

/// What is kept of it.
#[derive(Serialize, Deserialize)]
struct Record {
    reason: Option<String>,
    created_at: Timestamp,
}

/// A page of phones that have opted out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SuppressionsPage {
    /// Those of the page, by phone.
    pub suppressions: Vec<Suppression>,
    /// How many there are on all pages.
    pub total: usize,
}

/// Why an opt-out was not taken back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnsuppressError {
    /// The phone has not opted out.
    #[error("the phone has not opted out")]
    NotFound,
    /// It cannot be taken now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl Workspace {
    /// Notes that a phone has opted out. One that has already keeps its moment, and its reason if
    /// none is given.
    ///
    /// # Errors
    /// [`Unavailable`] when it cannot be taken now.
    pub async fn suppress(
        &self,
        phone: Phone,
        reason: Option<String>,
    ) -> Result<Suppression, Unavailable> {
        self.perform(Suppress { phone, reason }).await
    }

    /// Takes an opt-out back.
    ///
    /// # Errors
    /// [`UnsuppressError`]: there is none, or not now.
    pub async fn unsuppress(&self, phone: Phone) -> Result<(), UnsuppressError> {
        self.perform(Unsuppress { phone }).await
    }

    /// The phones that have opted out, by phone: `limit` of them after the first `skip`.
    ///
    /// # Errors
    /// [`Unavailable`] when the store cannot be read.
    pub async fn suppressions(
        &self,
        skip: usize,
        limit: usize,
    ) -> Result<SuppressionsPage, Unavailable> {
        self.read(move |store, workspace| {
            let mut page = SuppressionsPage { suppressions: Vec::new(), total: 0 };
            let prefix = prefix(workspace);
            let mut outcome = Ok(());
            let table = Table::Suppressions;
            store.scan(table, &prefix, None, Direction::Forward, &mut |key, value| {
                page.total += 1;
                if page.total > skip && page.suppressions.len() < limit {
                    match suppression(&key[prefix.len()..], value) {
                        Ok(suppression) => page.suppressions.push(suppression),
                        Err(error) => {
                            outcome = Err(error);
                            return ControlFlow::Break(());
                        }
                    }
                }
                ControlFlow::Continue(())
            })?;
            outcome.map(|()| page)
        })
        .await
    }
}

struct Suppress {
    phone: Phone,
    reason: Option<String>,
}

impl Command for Suppress {
    type Answer = Suppression;
    type Error = Unavailable;

    fn carry_out(self, context: &mut Context<'_>) -> Result<Suppression, Unavailable> {
        let Self { phone, reason } = self;
        let key = key(&context.core.id, phone);
        let old: Option<Record> = context.get_json(Table::Suppressions, &key)?;
        let (created_at, old_reason) = match old {
            Some(old) => (old.created_at, old.reason),
            None => (context.now(), None),
        };
        let reason = reason.or(old_reason);
        context.put_json(Table::Suppressions, key, &Record { reason: reason.clone(), created_at });
        Ok(Suppression { phone, reason, created_at })
    }
}

struct Unsuppress {
    phone: Phone,
}

impl Command for Unsuppress {
    type Answer = ();
    type Error = UnsuppressError;

    fn carry_out(self, context: &mut Context<'_>) -> Result<(), UnsuppressError> {
        let key = key(&context.core.id, self.phone);
        context.get(Table::Suppressions, &key)?.ok_or(UnsuppressError::NotFound)?;
        context.delete(Table::Suppressions, key);
        Ok(())
    }
}

/// Whether a phone has opted out.
pub(super) fn has_opted_out(context: &Context<'_>, phone: Phone) -> Result<bool, Unavailable> {
    Ok(context.get(Table::Suppressions, &key(&context.core.id, phone))?.is_some())
}

/// Notes that a phone has opted out, for a reason that the workspace did not give.
pub(super) fn suppress(
    context: &mut Context<'_>,
    phone: Phone,
    reason: &str,
) -> Result<(), Unavailable> {
    let reason = Some(reason.to_owned());
    Suppress { phone, reason }.carry_out(context).map(drop)
}

/// Sees to what an inbound message of this text means: out, in again, or neither.
pub(super) fn apply_opt_out(
    context: &mut Context<'_>,
    phone: Phone,
    text: &str,
) -> Result<(), Unavailable> {
    match context.core.opt_out.read(text) {
        Some(OptOut::Out) => suppress(context, phone, BY_MESSAGE),
        Some(OptOut::Back) => {
            context.delete(Table::Suppressions, key(&context.core.id, phone));
            Ok(())
        }
        None => Ok(()),
    }
}

fn prefix(workspace: &WorkspaceId) -> Vec<u8> {
    [workspace.as_str().as_bytes(), &[0]].concat()
}

/// The key of a phone's record.
fn key(workspace: &WorkspaceId, phone: Phone) -> Vec<u8> {
    [prefix(workspace).as_slice(), phone.to_string().as_bytes()].concat()
}

fn suppression(phone: &[u8], value: &[u8]) -> Result<Suppression, StoreError> {
    let phone = std::str::from_utf8(phone).ok().and_then(|phone| phone.parse().ok());
    let phone = phone.ok_or_else(|| StoreError::Damaged("the key of an opt-out".into()))?;
    let Record { reason, created_at } = records::decode(value)?;
    Ok(Suppression { phone, reason, created_at })
}
