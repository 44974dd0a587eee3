//! Writes the index that lists and searches contacts, in the commit of the contact itself.
//!
//! All is in [`Table::ContactIndex`]: `workspace ‖ 0 ‖ l ‖ number` are bitmaps of the places that
//! have a contact. `t ‖ chunk` are the texts of the search, `f ‖ chunk` the facets that segments
//! need.

use crate::core::command::Context;
use crate::core::read_ahead::Reader;
use postrider_domain::WorkspaceId;
use postrider_domain::unavailable::Unavailable;
use postrider_store::{StoreError, Table};

use crate::contacts::chunk::{chunk_of, slot_of};
use crate::contacts::record;
use crate::contacts::record::Contact;
use crate::contacts::{occupancy, search_index, segment_index};

const INDEX: Table = Table::ContactIndex;

/// Reads the index entries of the contact at a place, for a command.
///
/// # Errors
/// [`StoreError`]: the store cannot be read.
pub(crate) fn read_ahead(
    reader: &mut Reader<'_>,
    workspace: &WorkspaceId,
    place: u64,
) -> Result<(), StoreError> {
    let chunk = chunk_of(place);
    for (kind, number) in [(b'l', occupancy::bitmap_of(chunk)), (b't', chunk), (b'f', chunk)] {
        reader.get(INDEX, record::key(workspace, kind, number))?;
    }
    Ok(())
}

/// Makes the index show the contact at `place` as it is now: `None` when it is removed.
///
/// Changes nothing if it fails.
pub(crate) fn update(
    context: &mut Context<'_>,
    place: u64,
    contact: Option<&Contact>,
) -> Result<(), Unavailable> {
    let (chunk, slot) = (chunk_of(place), slot_of(place));
    let key = |kind, number| record::key(&context.core.id, kind, number);
    let keys = [key(b'l', occupancy::bitmap_of(chunk)), key(b't', chunk), key(b'f', chunk)];
    let text = contact.map(search_index::text_of);
    let entry = contact.map(segment_index::entry_of);
    let mut old = Vec::with_capacity(keys.len());
    for key in &keys {
        old.push(context.get(INDEX, key)?);
    }
    let new = [
        occupancy::with(old[0].clone(), place, contact.is_some()),
        search_index::with(old[1].as_deref(), slot, text.as_deref()),
        segment_index::with(old[2].as_deref(), slot, entry.as_deref()),
    ];
    for ((key, old), new) in keys.into_iter().zip(old).zip(new) {
        match new {
            new if new == old => {}
            Some(value) => context.put(INDEX, key, value),
            None => context.delete(INDEX, key),
        }
    }
    Ok(())
}
