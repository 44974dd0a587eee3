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
use crate::contacts::sort::{self, ContactSort, SORTED_MAX, Wanted};
use crate::core::command::{Command, Context};

/// A page of contacts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContactsPage {
    /// The contacts of the page, newest first.
    pub contacts: Vec<Contact>,
    /// The number of contacts on all pages.
    pub total: usize,
}

/// The reason why a contact cannot be shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadContactError {
    /// The workspace has no such contact.
    #[error("no such contact")]
    NotFound,
    /// The workspace cannot answer now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl Workspace {
    /// Returns one contact.
    ///
    /// # Errors
    /// [`ReadContactError`]: there is no such contact, or the workspace is unavailable.
    pub async fn contact(&self, id: ContactId) -> Result<Contact, ReadContactError> {
        let found = self.read(move |store, workspace| merge::read(store, workspace, id)).await?;
        found.ok_or(ReadContactError::NotFound)
    }

    /// Returns the contact with this phone.
    ///
    /// # Errors
    /// [`Unavailable`] when the workspace does not answer.
    pub async fn contact_with_phone(&self, phone: Phone) -> Result<Option<Contact>, Unavailable> {
        self.perform(WithPhone(phone)).await
    }

    /// Returns the matching contacts, newest first: `limit` of them after the first `skip`.
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

    /// Returns the matching contacts in this order: `limit` of them after the first `skip`.
    ///
    /// # Errors
    /// [`SortContactsError`]: there are too many for this order, or the workspace is unavailable.
    pub async fn sorted_contacts(
        &self,
        filter: ContactFilter,
        sort: ContactSort,
        skip: usize,
        limit: usize,
    ) -> Result<ContactsPage, SortContactsError> {
        if sort == ContactSort::default() {
            return Ok(self.contacts(filter, skip, limit).await?);
        }
        let wanted = Wanted { sort, skip, limit };
        let read = move |store: &dyn View, workspace: &WorkspaceId| {
            sort::page(store, workspace, &Matcher::new(&filter), wanted)?
                .map(|(places, total)| read_page(store, workspace, places, total))
                .transpose()
        };
        self.scan(read).await?.ok_or(SortContactsError::TooMany)
    }
}

/// The reason why no page of a sorted list is returned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SortContactsError {
    /// Too many contacts lie before the end of the page, or match.
    #[error("at most {SORTED_MAX} contacts are sorted so; ask for fewer by a filter")]
    TooMany,
    /// The workspace cannot answer now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

struct WithPhone(Phone);

impl Command for WithPhone {
    type Answer = Option<Contact>;
    type Error = Unavailable;

    fn carry_out(self, context: &mut Context<'_>) -> Result<Self::Answer, Unavailable> {
        party_holder(context, &PartyId::from(self.0))
    }
}

/// Finds a page. A concurrent change may be on it or not.
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
    read_page(store, workspace, found, total)
}

fn read_page(
    store: &dyn View,
    workspace: &WorkspaceId,
    places: Vec<u64>,
    total: usize,
) -> Result<ContactsPage, StoreError> {
    let contacts = places.into_iter().map(|place| record::read_at(store, workspace, place));
    // A contact that was deleted meanwhile is left out.
    let contacts = contacts.filter_map(Result::transpose).collect::<Result<_, _>>()?;
    Ok(ContactsPage { contacts, total })
}

/// Visits the phones of the matching contacts, newest contacts first, until `visit` breaks.
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
