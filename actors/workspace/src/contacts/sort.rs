//! Pages of contacts in another order than that of their creation.
//!
//! The sort key of every matching contact is read. No more keys are kept than the pages up to the
//! wanted one have. So the depth of a page is bounded. Where the contact itself has to be read for
//! its key, the number of matches is bounded too.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::ControlFlow;

use postrider_domain::WorkspaceId;
use postrider_store::{StoreError, Table, View};

use crate::contacts::filter::Matcher;
use crate::contacts::occupancy::places;
use crate::contacts::{index, record};

/// The maximum number of contacts that are sorted, or lie before the end of a sorted page.
pub const SORTED_MAX: usize = 100_000;

/// The key that sorts a list of contacts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContactOrder {
    /// The time of creation.
    Created,
    /// Their names, without regard to case.
    Name,
    /// The time of the last change.
    Updated,
}

/// The order of a list of contacts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContactSort {
    /// The sort key.
    pub by: ContactOrder,
    /// Set if the last one comes first.
    pub descending: bool,
}

impl Default for ContactSort {
    /// Returns the order with the newest first.
    fn default() -> Self {
        Self { by: ContactOrder::Created, descending: true }
    }
}

/// The wanted part of a sorted list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageRequest {
    pub(crate) sort: ContactSort,
    pub(crate) skip: usize,
    pub(crate) limit: usize,
}

/// The places of a page's contacts, in order, and the number of matches.
///
/// `None`: there are too many matches.
pub(crate) type SortedPage = Option<(Vec<u64>, usize)>;

/// Finds a page in this order.
pub(crate) fn page(
    store: &dyn View,
    workspace: &WorkspaceId,
    matcher: &Matcher,
    wanted: PageRequest,
) -> Result<SortedPage, StoreError> {
    match wanted.sort.by {
        ContactOrder::Created => oldest_first(store, workspace, matcher, wanted).map(Some),
        ContactOrder::Name | ContactOrder::Updated => {
            let end = wanted.skip.saturating_add(wanted.limit);
            if end > SORTED_MAX {
                return Ok(None);
            }
            by_key(store, workspace, matcher, wanted)
        }
    }
}

/// Returns the reverse of the scan's order: the matches are counted first.
fn oldest_first(
    store: &dyn View,
    workspace: &WorkspaceId,
    matcher: &Matcher,
    wanted: PageRequest,
) -> Result<(Vec<u64>, usize), StoreError> {
    let mut total = 0_usize;
    matcher.scan(store, workspace, &mut |_, mask| {
        total += mask.count_ones() as usize;
        ControlFlow::Continue(())
    })?;
    let last = total.saturating_sub(wanted.skip);
    let first = last.saturating_sub(wanted.limit);
    let (mut seen, mut found) = (0_usize, Vec::new());
    matcher.scan(store, workspace, &mut |chunk, mask| {
        let before = seen;
        seen += mask.count_ones() as usize;
        if seen > first {
            let skipped = first.saturating_sub(before);
            let room = (last - first) - found.len();
            found.extend(places(chunk, mask).skip(skipped).take(room));
        }
        if found.len() < last - first { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    found.reverse();
    Ok((found, total))
}

/// A contact's sort key and its place, so that no two are equal.
type SortKey = (Box<[u8]>, u64);

/// The first contacts up to the end of the page, in whatever order they are added.
enum FirstContacts {
    Smallest(BinaryHeap<SortKey>),
    Largest(BinaryHeap<Reverse<SortKey>>),
}

impl FirstContacts {
    fn add(&mut self, key: SortKey, most: usize) {
        match self {
            Self::Smallest(heap) => {
                heap.push(key);
                if heap.len() > most {
                    heap.pop();
                }
            }
            Self::Largest(heap) => {
                heap.push(Reverse(key));
                if heap.len() > most {
                    heap.pop();
                }
            }
        }
    }

    fn places(self) -> Vec<u64> {
        match self {
            Self::Smallest(heap) => heap.into_sorted_vec().into_iter().map(|key| key.1).collect(),
            Self::Largest(heap) => {
                heap.into_sorted_vec().into_iter().map(|Reverse(key)| key.1).collect()
            }
        }
    }
}

fn by_key(
    store: &dyn View,
    workspace: &WorkspaceId,
    matcher: &Matcher,
    wanted: PageRequest,
) -> Result<SortedPage, StoreError> {
    let PageRequest { sort, skip, limit } = wanted;
    let mut first = match sort.descending {
        false => FirstContacts::Smallest(BinaryHeap::new()),
        true => FirstContacts::Largest(BinaryHeap::new()),
    };
    let (mut total, mut outcome) = (0_usize, Ok(()));
    let end = skip.saturating_add(limit);
    matcher.scan(store, workspace, &mut |chunk, mask| {
        total += mask.count_ones() as usize;
        if sort.by == ContactOrder::Updated && total > SORTED_MAX {
            return ControlFlow::Break(());
        }
        let mut add = |place: u64, key: &[u8]| first.add((key.into(), place), end);
        let added = match sort.by {
            ContactOrder::Updated => by_update(store, workspace, places(chunk, mask), &mut add),
            ContactOrder::Name | ContactOrder::Created => {
                let key = record::key(workspace, b't', chunk);
                store.get(Table::ContactIndex, &key).map(|texts| {
                    let texts = texts.unwrap_or_default();
                    for place in places(chunk, mask) {
                        add(place, index::name_in(&texts, place % 64));
                    }
                })
            }
        };
        match added {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                outcome = Err(error);
                ControlFlow::Break(())
            }
        }
    })?;
    outcome?;
    if sort.by == ContactOrder::Updated && total > SORTED_MAX {
        return Ok(None);
    }
    let places = first.places().into_iter().skip(skip).take(limit).collect();
    Ok(Some((places, total)))
}

fn by_update(
    store: &dyn View,
    workspace: &WorkspaceId,
    places: impl Iterator<Item = u64>,
    add: &mut dyn FnMut(u64, &[u8]),
) -> Result<(), StoreError> {
    for place in places {
        // A contact that was deleted meanwhile is left out.
        if let Some(contact) = record::read_at(store, workspace, place)? {
            add(place, &contact.updated_at.as_millis().to_be_bytes());
        }
    }
    Ok(())
}
