//! Making the index of contacts anew where an earlier version has written it in another format.
//!
//! [`Table::Meta`] has the format's number. It is written when every index is whole, so what a
//! crash interrupts is done again.

use postrider_store::view::codec;
use std::ops::ControlFlow;
use std::sync::Arc;

use postrider_domain::WorkspaceId;
use postrider_store::{Change, Direction, StoreError, Table, View, Writer};

use crate::contacts::chunk::{chunk_of, slot_of};
use crate::contacts::record;
use crate::contacts::record::Contact;
use crate::contacts::{occupancy, search_index, segment_index};

/// The number of what `index`, `live`, `texts` and `facets` write; another one with each change of
/// it. Up to 1 no number was kept.
const FORMAT: u64 = 3;
const FORMAT_KEY: &[u8] = b"contact_index_format";
/// Bytes of new records after which a commit is full.
const COMMIT_BYTES: usize = 256 * 1024;
/// Records that one commit deletes at the most.
const DELETE_MAX: usize = 1000;
/// Contacts between two lines of the log.
const REPORTED_EVERY: u64 = 100_000;

/// Why the index of contacts could not be made usable.
#[derive(Debug, thiserror::Error)]
pub enum RebuildError {
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A newer version has written the index in a format that this one does not know.
    #[error("the contacts' index has format {found}, and this version knows formats up to {known}")]
    NewerData {
        /// Its format.
        found: u64,
        /// The newest format that this version knows.
        known: u64,
    },
    /// It was not finished; the next start goes on.
    #[error("the contacts' index could not be made anew: {0}")]
    Interrupted(String),
}

/// Sees to it that the index is one that this version reads.
///
/// # Errors
/// [`RebuildError::NewerData`]: a newer version has written it; or the store cannot be used.
pub async fn see_to_index(
    store: &Arc<dyn View>,
    writer: &Writer,
    workspaces: &[WorkspaceId],
) -> Result<(), RebuildError> {
    let found = store.get(Table::Meta, FORMAT_KEY)?;
    let found = found.map(|bytes| bytes.try_into().map(u64::from_be_bytes)).transpose();
    let found = found.map_err(|_| StoreError::Damaged("the format of an index".into()))?;
    match found {
        Some(FORMAT) => return Ok(()),
        Some(found) if found > FORMAT => {
            return Err(RebuildError::NewerData { found, known: FORMAT });
        }
        _ => {}
    }
    for workspace in workspaces {
        let mut rebuild = Rebuild::new(Arc::clone(store), workspace.clone());
        loop {
            let next = tokio::task::spawn_blocking(move || {
                let part = rebuild.part();
                (part, rebuild)
            });
            let (part, rest) = next.await.map_err(failed)?;
            rebuild = rest;
            let Some(changes) = part? else { break };
            writer.commit(changes).await.map_err(failed)?;
        }
        if rebuild.contacts > 0 {
            let contacts = rebuild.contacts;
            tracing::info!(%workspace, contacts, "the index of the contacts was made anew");
        }
    }
    let format = Change::put(Table::Meta, FORMAT_KEY, FORMAT.to_be_bytes());
    writer.commit(vec![format]).await.map_err(failed)
}

fn failed(error: impl std::fmt::Display) -> RebuildError {
    RebuildError::Interrupted(error.to_string())
}

/// What of a chunk is written so far.
#[derive(Default)]
struct Chunk {
    texts: Option<Vec<u8>>,
    facets: Option<Vec<u8>>,
}

/// How far it is in one workspace: first the old index goes, then the new one comes.
struct Rebuild {
    store: Arc<dyn View>,
    workspace: WorkspaceId,
    is_deleted: bool,
    /// The place to go on at.
    next: u64,
    /// The last bitmap that is not whole, and its number.
    bitmap: (u64, Option<Vec<u8>>),
    contacts: u64,
    is_done: bool,
}

impl Rebuild {
    fn new(store: Arc<dyn View>, workspace: WorkspaceId) -> Self {
        let bitmap = (0, None);
        Self { store, workspace, is_deleted: false, next: 0, bitmap, contacts: 0, is_done: false }
    }

    /// The changes of the next commit; nothing at the end.
    fn part(&mut self) -> Result<Option<Vec<Change>>, StoreError> {
        if !self.is_deleted {
            let changes = self.deletions()?;
            self.is_deleted = changes.len() < DELETE_MAX;
            return Ok(Some(changes));
        }
        if self.is_done { Ok(None) } else { self.chunks().map(Some) }
    }

    fn deletions(&self) -> Result<Vec<Change>, StoreError> {
        let mut changes = Vec::new();
        let prefix = [self.workspace.as_str().as_bytes(), &[0]].concat();
        let (table, way) = (Table::ContactIndex, Direction::Forward);
        self.store.scan(table, &prefix, None, way, &mut |key, _| {
            changes.push(Change::delete(table, key));
            if changes.len() < DELETE_MAX {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })?;
        Ok(changes)
    }

    /// The next chunks, as many as fit in a commit.
    fn chunks(&mut self) -> Result<Vec<Change>, StoreError> {
        let (store, workspace) = (Arc::clone(&self.store), self.workspace.clone());
        let (mut changes, mut bytes) = (Vec::new(), 0);
        let (mut chunk, mut unread) = ((chunk_of(self.next), Chunk::default()), None);
        let (prefix, from) =
            (record::prefix(&workspace, b'c'), record::contact_key(&workspace, self.next));
        self.is_done = true;
        store.scan(
            Table::Contacts,
            &prefix,
            Some(&from),
            Direction::Forward,
            &mut |key, json| {
                let read = record::number_of(key)
                    .and_then(|place| Ok((place, codec::decode::<Contact>(json)?)));
                let (place, contact) = match read {
                    Ok(read) => read,
                    Err(error) => {
                        unread = Some(error);
                        return ControlFlow::Break(());
                    }
                };
                if chunk_of(place) != chunk.0 {
                    let whole = std::mem::replace(&mut chunk, (chunk_of(place), Chunk::default()));
                    bytes += self.write(whole, &mut changes);
                    if bytes > COMMIT_BYTES {
                        (self.next, self.is_done) = (place, false);
                        return ControlFlow::Break(());
                    }
                }
                self.add(place, &contact, &mut chunk.1, &mut changes);
                ControlFlow::Continue(())
            },
        )?;
        self.write(chunk, &mut changes);
        let (number, bitmap) = self.bitmap.clone();
        changes.extend(self.bitmap_change(number, bitmap));
        unread.map_or(Ok(changes), Err)
    }

    /// Adds a contact to its chunk and its bitmap.
    fn add(&mut self, place: u64, contact: &Contact, chunk: &mut Chunk, changes: &mut Vec<Change>) {
        let number = occupancy::bitmap_of(chunk_of(place));
        if number != self.bitmap.0 {
            let (number, whole) = std::mem::replace(&mut self.bitmap, (number, None));
            changes.extend(self.bitmap_change(number, whole));
        }
        self.bitmap.1 = occupancy::with(self.bitmap.1.take(), place, true);
        let (slot, text) = (slot_of(place), search_index::text_of(contact));
        chunk.texts = search_index::with(chunk.texts.as_deref(), slot, Some(&text));
        let entry = segment_index::entry_of(contact);
        chunk.facets = segment_index::with(chunk.facets.as_deref(), slot, Some(&entry));
        self.contacts += 1;
        if self.contacts.is_multiple_of(REPORTED_EVERY) {
            let (workspace, contacts) = (&self.workspace, self.contacts);
            tracing::info!(%workspace, contacts, "the index of the contacts is made anew");
        }
    }

    /// Writes a chunk; gives its bytes.
    fn write(&self, (number, chunk): (u64, Chunk), changes: &mut Vec<Change>) -> usize {
        let mut bytes = 0;
        for (kind, value) in [(b't', chunk.texts), (b'f', chunk.facets)] {
            let Some(value) = value else { continue };
            bytes += value.len();
            let key = record::key(&self.workspace, kind, number);
            changes.push(Change::put(Table::ContactIndex, key, value));
        }
        bytes
    }

    fn bitmap_change(&self, number: u64, bitmap: Option<Vec<u8>>) -> Option<Change> {
        let key = record::key(&self.workspace, b'l', number);
        bitmap.map(|bitmap| Change::put(Table::ContactIndex, key, bitmap))
    }
}
