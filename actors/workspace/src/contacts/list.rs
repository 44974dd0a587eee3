//! Reading contacts: one, or a page of those that a filter matches.

use std::ops::ControlFlow;

use crate::Workspace;
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{ContactId, PartyId, Phone, WorkspaceId};
use postrider_store::{StoreError, Table, View};

use crate::contacts::chunk::{CHUNK, places};
use crate::contacts::create::party_holder;
use crate::contacts::filter::{ContactFilter, Matcher};
use crate::contacts::merge;
use crate::contacts::record::{self, Contact};
use crate::contacts::search_index;
use crate::core::command::{Command, Context};

/// A page of contacts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContactsPage {
    /// Those of the page, newest first.
    pub contacts: Vec<Contact>,
    /// How many there are on all pages.
    pub total: usize,
}

/// Why a contact cannot be told of.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadContactError {
    /// The workspace has no such contact.
    #[error("no such contact")]
    NotFound,
    /// It cannot be told now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl Workspace {
    /// One contact.
    ///
    /// # Errors
    /// [`ReadContactError`]: there is none, or not now.
    pub async fn contact(&self, id: ContactId) -> Result<Contact, ReadContactError> {
        let found = self.read(move |store, workspace| merge::read(store, workspace, id)).await?;
        found.ok_or(ReadContactError::NotFound)
    }

    /// The contact with this phone.
    ///
    /// # Errors
    /// [`Unavailable`] when the workspace does not answer.
    pub async fn contact_with_phone(&self, phone: Phone) -> Result<Option<Contact>, Unavailable> {
        self.perform(WithPhone(phone)).await
    }

    /// The contacts that match, newest first: `limit` of them after the first `skip`.
    ///
    /// # Errors
    /// [`Unavailable`] when the store cannot be read.
    pub async fn contacts(
        &self,
        filter: ContactFilter,
        skip: usize,
        limit: usize,
    ) -> Result<ContactsPage, Unavailable> {
        self.scan(move |store, workspace| page(store, workspace, &filter, skip, limit)).await
    }
}

struct WithPhone(Phone);

impl Command for WithPhone {
    type Answer = Option<Contact>;
    type Error = Unavailable;

    fn carry_out(self, context: &mut Context<'_>) -> Result<Self::Answer, Unavailable> {
        party_holder(context, &PartyId::from(self.0))
    }
}

/// Finds a page. What is changed meanwhile may be on it or not.
pub(crate) fn page(
    store: &dyn View,
    workspace: &WorkspaceId,
    filter: &ContactFilter,
    skip: usize,
    limit: usize,
) -> Result<ContactsPage, StoreError> {
    let (mut total, mut found) = (0_usize, Vec::new());
    Matcher::new(filter).scan(store, workspace, &mut |chunk, mask| {
        let before = total;
        total += mask.count_ones() as usize;
        if total > skip && found.len() < limit {
            let skipped = skip.saturating_sub(before);
            found.extend(places(chunk, mask).skip(skipped).take(limit - found.len()));
        }
        ControlFlow::Continue(())
    })?;
    let contacts = found.into_iter().map(|place| record::read_at(store, workspace, place));
    // One that was deleted meanwhile is left out.
    let contacts = contacts.filter_map(Result::transpose).collect::<Result<_, _>>()?;
    Ok(ContactsPage { contacts, total })
}

/// Visits the phones of the contacts that match, those of the newest first, until `visit` says no.
pub(crate) fn phones(
    store: &dyn View,
    workspace: &WorkspaceId,
    filter: &ContactFilter,
    visit: &mut dyn FnMut(Phone) -> ControlFlow<()>,
) -> Result<(), StoreError> {
    let mut outcome = Ok(());
    Matcher::new(filter).scan(store, workspace, &mut |chunk, mask| {
        let key = record::key(workspace, b't', chunk);
        let found = match store.get(Table::ContactIndex, &key) {
            Ok(found) => found.unwrap_or_default(),
            Err(error) => {
                outcome = Err(error);
                return ControlFlow::Break(());
            }
        };
        debug_assert!(found.is_empty() || mask.count_ones() <= CHUNK as u32);
        search_index::phones(&found)
            .filter(|(slot, _)| mask.checked_shr(*slot).is_some_and(|rest| rest & 1 == 1))
            .try_for_each(|(_, phone)| visit(phone))
    })?;
    outcome
}
