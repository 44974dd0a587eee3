//! Which tags contacts have, and how many have each.
//!
//! They are counted by what segments ask for, which has tags as hashes; the text of a hash is read
//! from one contact that has it.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::ops::ControlFlow;

use postrider_domain::WorkspaceId;
use postrider_domain::unavailable::Unavailable;
use postrider_store::{Direction, StoreError, Table, View};

use crate::Workspace;
use crate::contacts::chunk::CHUNK;
use crate::contacts::record;
use crate::contacts::segment_index::{Facet, Hash, tag_hash};

/// Different tags that are counted; what is beyond is left out.
const COUNTED_MAX: usize = 100_000;

/// A tag, and how many contacts have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagCount {
    /// The tag.
    pub tag: String,
    /// Contacts that have it.
    pub contacts: usize,
}

impl Workspace {
    /// The tags that the most contacts have, at most `limit` of them, by the number of contacts.
    ///
    /// # Errors
    /// [`Unavailable`] when the store cannot be read.
    pub async fn contact_tags(&self, limit: usize) -> Result<Vec<TagCount>, Unavailable> {
        self.scan(move |store, workspace| tags(store, workspace, limit)).await
    }
}

fn tags(
    store: &dyn View,
    workspace: &WorkspaceId,
    limit: usize,
) -> Result<Vec<TagCount>, StoreError> {
    // Of each, how many have it, and the place of one of them.
    let mut counts: HashMap<Hash, (usize, u64)> = HashMap::new();
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
                } else if counts.len() < COUNTED_MAX {
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
        // One that was changed meanwhile may not have it any more.
        let tag = contact.and_then(|contact| {
            contact.tags.iter().find(|tag| tag_hash(tag) == hash).map(str::to_owned)
        });
        found.extend(tag.map(|tag| TagCount { tag, contacts }));
    }
    found.sort_by(|a, b| b.contacts.cmp(&a.contacts).then_with(|| a.tag.cmp(&b.tag)));
    Ok(found)
}
