//! Reads contacts: one, a page of those that a filter matches, all part by part, and their tags.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::ops::ControlFlow;

use postrider_domain::unavailable::Unavailable;
use postrider_domain::{ContactId, PartyId, Phone, WorkspaceId};
use postrider_store::view::codec;
use postrider_store::{Direction, StoreError, Table, View};

use crate::Workspace;
use crate::contacts::create::party_holder;
use crate::contacts::filter::{ContactFilter, Matcher};
use crate::contacts::index::{Facet, FacetHash, tag_hash};
use crate::contacts::occupancy::{CHUNK, places};
use crate::contacts::record::Contact;
use crate::contacts::sort::{ContactSort, PageRequest, SORTED_MAX};
use crate::contacts::{index, merge, record, sort};
use crate::core::command::{Command, Context};

/// The maximum number of different tags that are counted; further ones are left out.
const COUNTED_TAGS_MAX: usize = 100_000;

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

/// The position of a walk through a workspace's contacts, oldest first.
///
/// Contacts that are created meanwhile are not visited, so the walk ends. It visits each of the
/// others once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContactsWalk {
    /// The place at which the walk continues.
    next: u64,
    /// The place that was free when the walk started.
    end: u64,
}

/// A tag and its number of contacts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagCount {
    /// The tag.
    pub tag: String,
    /// The number of contacts that have it.
    pub contacts: usize,
}

impl Workspace {
    /// Returns one contact.
    ///
    /// # Errors
    /// [`ReadContactError`]: there is no such contact, or the workspace is unavailable.
    pub async fn contact(&self, id: ContactId) -> Result<Contact, ReadContactError> {
        let found =
            self.read(move |store, workspace| merge::read_contact(store, workspace, id)).await?;
        found.ok_or(ReadContactError::NotFound)
    }

    /// Returns the contact with this phone.
    ///
    /// # Errors
    /// [`Unavailable`] when the workspace does not answer.
    pub async fn contact_with_phone(&self, phone: Phone) -> Result<Option<Contact>, Unavailable> {
        self.perform(WithPhone(phone)).await
    }

    /// Returns the contacts of these people in their order, `None` for people without one.
    ///
    /// # Errors
    /// [`Unavailable`] when the store cannot be read.
    pub async fn contacts_of(
        &self,
        people: Vec<PartyId>,
    ) -> Result<Vec<Option<Contact>>, Unavailable> {
        self.read(move |store, workspace| {
            people.iter().map(|party| record::read_holder(store, workspace, party)).collect()
        })
        .await
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
        let wanted = PageRequest { sort, skip, limit };
        let read = move |store: &dyn View, workspace: &WorkspaceId| {
            sort::page(store, workspace, &Matcher::new(&filter), wanted)?
                .map(|(places, total)| read_page(store, workspace, places, total))
                .transpose()
        };
        self.scan(read).await?.ok_or(SortContactsError::TooMany)
    }

    /// Starts a walk through the contacts after this one, or through all.
    ///
    /// # Errors
    /// [`Unavailable`] when the store cannot be read.
    pub async fn walk_contacts(
        &self,
        after: Option<ContactId>,
    ) -> Result<ContactsWalk, Unavailable> {
        self.read(move |store, workspace| {
            let end = store.get(Table::Contacts, &record::next_key(workspace))?;
            let end = end.map_or(Ok(0), |end| record::number_of(&end))?;
            let next = after.map_or(0, |after| record::place_of(after) + 1);
            Ok(ContactsWalk { next, end })
        })
        .await
    }

    /// Returns the next contacts, at most `limit` (which is above zero); none at the end.
    ///
    /// # Errors
    /// [`Unavailable`] when the store cannot be read.
    pub async fn next_contacts(
        &self,
        walk: &mut ContactsWalk,
        limit: usize,
    ) -> Result<Vec<Contact>, Unavailable> {
        let ContactsWalk { next, end } = *walk;
        let found: Vec<Contact> = self
            .scan(move |store, workspace| {
                let mut found = Vec::new();
                let prefix = record::prefix(workspace, b'c');
                let from = record::contact_key(workspace, next);
                let (table, way) = (Table::Contacts, Direction::Forward);
                store.scan(table, &prefix, Some(&from), way, &mut |key, json| {
                    if found.len() == limit || record::number_of(key).is_ok_and(|at| at >= end) {
                        return ControlFlow::Break(());
                    }
                    found.push(codec::decode(json));
                    ControlFlow::Continue(())
                })?;
                found.into_iter().collect()
            })
            .await?;
        walk.next = found.last().map_or(end, |last| last.place() + 1);
        Ok(found)
    }

    /// Returns the tags with the most contacts, at most `limit` of them, the most frequent first.
    ///
    /// # Errors
    /// [`Unavailable`] when the store cannot be read.
    pub async fn contact_tags(&self, limit: usize) -> Result<Vec<TagCount>, Unavailable> {
        self.scan(move |store, workspace| tags(store, workspace, limit)).await
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
        index::phones_in(&found)
            .filter(|(slot, _)| mask.checked_shr(*slot).is_some_and(|rest| rest & 1 == 1))
            .try_for_each(|(_, phone)| visit(phone))
    })?;
    outcome
}

/// Counts the tags in the index for segments, which has them as hashes.
///
/// The text of a hash is read from one contact that has it.
fn tags(
    store: &dyn View,
    workspace: &WorkspaceId,
    limit: usize,
) -> Result<Vec<TagCount>, StoreError> {
    // For each tag: its number of contacts, and the place of one of them.
    let mut counts: HashMap<FacetHash, (usize, u64)> = HashMap::new();
    let (prefix, table) = (record::prefix(workspace, b'f'), Table::ContactIndex);
    let mut outcome = Ok(());
    store.scan(table, &prefix, None, Direction::Backward, &mut |key, facets| {
        let chunk = match record::number_of(key) {
            Ok(chunk) => chunk,
            Err(error) => {
                outcome = Err(error);
                return ControlFlow::Break(());
            }
        };
        for facet in Facet::all(facets) {
            let place = chunk * CHUNK + u64::from(facet.slot);
            for tag in facet.tags() {
                if let Some((count, _)) = counts.get_mut(&tag) {
                    *count += 1;
                } else if counts.len() < COUNTED_TAGS_MAX {
                    counts.insert(tag, (1, place));
                }
            }
        }
        ControlFlow::Continue(())
    })?;
    outcome?;
    let mut most: Vec<_> = counts.into_iter().collect();
    most.sort_unstable_by_key(|(hash, (count, _))| (Reverse(*count), *hash));
    most.truncate(limit);
    let mut found = Vec::new();
    for (hash, (contacts, place)) in most {
        let contact = record::read_at(store, workspace, place)?;
        // The contact may have lost the tag by a concurrent change.
        let tag = contact.and_then(|contact| {
            contact.tags.iter().find(|tag| tag_hash(tag) == hash).map(str::to_owned)
        });
        found.extend(tag.map(|tag| TagCount { tag, contacts }));
    }
    found.sort_by(|a, b| b.contacts.cmp(&a.contacts).then_with(|| a.tag.cmp(&b.tag)));
    Ok(found)
}
