//! Pages of contacts in another order than that in which they were made.
//!
//! What is sorted by is read of every contact that matches, and no more of it is kept than the
//! pages up to the wanted one have. So how deep a page may be is bounded, and where a contact
//! itself has to be read for it, how many may match.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::ControlFlow;

use postrider_domain::WorkspaceId;
use postrider_store::{StoreError, Table, View};

use crate::contacts::chunk::places;
use crate::contacts::filter::Matcher;
use crate::contacts::record;
use crate::contacts::search_index;

/// Most contacts that are sorted, or lie before the end of a sorted page.
pub const SORTED_MAX: usize = 100_000;

/// What a list of contacts is sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContactOrder {
    /// When they were made.
    Created,
    /// Their names, without regard to case.
    Name,
    /// When they were last changed.
    Updated,
}

/// The order of a list of contacts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContactSort {
    /// What it is sorted by.
    pub by: ContactOrder,
    /// Whether the last one comes first.
    pub descending: bool,
}

impl Default for ContactSort {
    /// The newest first.
    fn default() -> Self {
        Self { by: ContactOrder::Created, descending: true }
    }
}

/// What is wanted of a sorted list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) sort: ContactSort,
    pub(crate) skip: usize,
    pub(crate) limit: usize,
}

/// The places of a page's contacts, in order, and how many match; `None`: they are too many.
pub(crate) type Sorted = Option<(Vec<u64>, usize)>;

/// Finds a page in this order.
pub(crate) fn page(
    store: &dyn View,
    workspace: &WorkspaceId,
    matcher: &Matcher,
    wanted: Wanted,
) -> Result<Sorted, StoreError> {
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

/// The other way around than contacts are found: they are counted first.
fn oldest_first(
    store: &dyn View,
    workspace: &WorkspaceId,
    matcher: &Matcher,
    wanted: Wanted,
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

/// What a contact is sorted by, then its place: so no two are alike.
type Key = (Box<[u8]>, u64);

/// The first of them up to the end of the page, however they come.
enum First {
    Smallest(BinaryHeap<Key>),
    Largest(BinaryHeap<Reverse<Key>>),
}

impl First {
    fn add(&mut self, key: Key, most: usize) {
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
    wanted: Wanted,
) -> Result<Sorted, StoreError> {
    let Wanted { sort, skip, limit } = wanted;
    let mut first = match sort.descending {
        false => First::Smallest(BinaryHeap::new()),
        true => First::Largest(BinaryHeap::new()),
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
                        add(place, search_index::name(&texts, place % 64));
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
        // One that was deleted meanwhile is left out.
        if let Some(contact) = record::read_at(store, workspace, place)? {
            add(place, &contact.updated_at.as_millis().to_be_bytes());
        }
    }
    Ok(())
}
