//! The tags of contacts, with the number of contacts that have each.
//!
//! They are counted in the index for segments, which has tags as hashes. The text of a hash is read
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

/// The maximum number of different tags that are counted; further ones are left out.
const COUNTED_MAX: usize = 100_000;

/// A tag and its number of contacts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagCount {
    /// The tag.
    pub tag: String,
    /// The number of contacts that have it.
    pub contacts: usize,
}

impl Workspace {
    /// Returns the tags with the most contacts, at most `limit` of them, the most frequent first.
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
    // For each tag: its number of contacts, and the place of one of them.
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
        // The contact may have lost the tag by a concurrent change.
        let tag = contact.and_then(|contact| {
            contact.tags.iter().find(|tag| tag_hash(tag) == hash).map(str::to_owned)
        });
        found.extend(tag.map(|tag| TagCount { tag, contacts }));
    }
    found.sort_by(|a, b| b.contacts.cmp(&a.contacts).then_with(|| a.tag.cmp(&b.tag)));
    Ok(found)
}
