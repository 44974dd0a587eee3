//! Contacts that are chosen for one change, as the places that they have at that moment.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use postrider_domain::{ContactId, WorkspaceId};
use postrider_store::{StoreError, View};

use crate::contacts::chunk::{Mask, chunk_of, places, slot_of};
use crate::contacts::filter::{ContactFilter, Matcher};
use crate::contacts::merge;

/// The contacts that a change applies to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChosenContacts {
    /// The contacts with these ids; unknown ids are ignored.
    Ids(Vec<ContactId>),
    /// The contacts that match the filter.
    Filter(ContactFilter),
}

/// Chunks, each with a mask of its chosen contacts.
pub(crate) type Chosen = Vec<(u64, Mask)>;

pub(crate) fn chosen(
    store: &dyn View,
    workspace: &WorkspaceId,
    whom: &ChosenContacts,
) -> Result<Chosen, StoreError> {
    match whom {
        ChosenContacts::Filter(filter) => {
            let mut found = Vec::new();
            Matcher::new(filter).scan(store, workspace, &mut |chunk, mask| {
                found.push((chunk, mask));
                ControlFlow::Continue(())
            })?;
            Ok(found)
        }
        ChosenContacts::Ids(ids) => {
            let mut found = BTreeMap::new();
            for id in ids {
                if let Some(contact) = merge::read(store, workspace, *id)? {
                    let place = contact.place();
                    *found.entry(chunk_of(place)).or_default() |= 1 << slot_of(place);
                }
            }
            Ok(found.into_iter().collect())
        }
    }
}

/// Returns the number of chosen contacts.
pub(crate) fn count(chosen: &Chosen) -> usize {
    chosen.iter().map(|(_, mask)| mask.count_ones() as usize).sum()
}

/// Returns the places of the chosen contacts.
pub(crate) fn places_of(chosen: &Chosen) -> impl Iterator<Item = u64> {
    chosen.iter().flat_map(|(chunk, mask)| places(*chunk, *mask))
}
