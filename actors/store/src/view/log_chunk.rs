//! Pure: the layout of the workspaces' event logs in [`Table::Events`].
//!
//! One record is a chunk: the entries that one workspace appended in one group commit. Its key is
//! the workspace's id, a zero byte and the sequence of the first entry (u64, big endian). Its value
//! is a head and the bytes of the entries. The head holds how many bytes of entries came before in
//! this log, so that the size of the log follows from its first and last chunk.

use std::ops::ControlFlow;

use postrider_domain::WorkspaceId;

use super::{Direction, Table, View};
use crate::error::StoreError;

/// Entries of a workspace's event log that were committed together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogChunk {
    /// The sequence of the first entry. The others follow without gaps.
    pub first: u64,
    /// The number of entries.
    pub count: u32,
    /// The concatenated entries, as they were submitted.
    pub entries: Vec<u8>,
}

/// Returns the prefix of the keys of a workspace's chunks.
///
/// It ends with a zero byte, which no id contains, so no other workspace's keys match.
#[must_use]
pub fn event_log_prefix(workspace: &WorkspaceId) -> Vec<u8> {
    let mut prefix = Vec::with_capacity(workspace.as_str().len() + 9);
    prefix.extend_from_slice(workspace.as_str().as_bytes());
    prefix.push(0);
    prefix
}

/// Returns the key of the chunk whose first entry has this sequence.
#[must_use]
pub fn event_log_key(workspace: &WorkspaceId, first: u64) -> Vec<u8> {
    let mut key = event_log_prefix(workspace);
    key.extend_from_slice(&first.to_be_bytes());
    key
}

/// Writes the same key into a reused buffer.
pub(crate) fn event_log_key_into(workspace: &WorkspaceId, first: u64, key: &mut Vec<u8>) {
    key.clear();
    key.extend_from_slice(workspace.as_str().as_bytes());
    key.push(0);
    key.extend_from_slice(&first.to_be_bytes());
}

/// Visits the chunks of a workspace, oldest first.
///
/// It starts with the chunk that contains `from`, or else the first one after it.
///
/// # Errors
/// Those of [`View::scan`]; [`StoreError::Damaged`] when a record is no chunk.
pub fn scan_event_log(
    store: &dyn View,
    workspace: &WorkspaceId,
    from: u64,
    visit: &mut dyn FnMut(LogChunk) -> ControlFlow<()>,
) -> Result<(), StoreError> {
    let prefix = event_log_prefix(workspace);
    // The chunk that contains `from` is the last one that begins at or before it.
    let mut start = None;
    let at = event_log_key(workspace, from);
    store.scan(Table::Events, &prefix, Some(&at), Direction::Backward, &mut |key, value| {
        start = Some(decode_chunk(&prefix, key, value).map(|it| (key.to_vec(), it)));
        ControlFlow::Break(())
    })?;
    let start = match start.transpose()? {
        Some((key, it)) if it.first + u64::from(it.count) > from => key,
        _ => at,
    };
    visit_chunks(store, &prefix, &start, Direction::Forward, visit)
}

/// Visits the chunks of a workspace, newest first.
///
/// It starts with the last chunk that starts at or before the sequence `from`.
///
/// # Errors
/// Those of [`scan_event_log`].
pub fn scan_event_log_back(
    store: &dyn View,
    workspace: &WorkspaceId,
    from: u64,
    visit: &mut dyn FnMut(LogChunk) -> ControlFlow<()>,
) -> Result<(), StoreError> {
    let prefix = event_log_prefix(workspace);
    let start = event_log_key(workspace, from);
    visit_chunks(store, &prefix, &start, Direction::Backward, visit)
}

/// Visits the chunks of a workspace from `start` on.
fn visit_chunks(
    store: &dyn View,
    prefix: &[u8],
    start: &[u8],
    direction: Direction,
    visit: &mut dyn FnMut(LogChunk) -> ControlFlow<()>,
) -> Result<(), StoreError> {
    let mut outcome = Ok(());
    store.scan(
        Table::Events,
        prefix,
        Some(start),
        direction,
        &mut |key, value| match decode_chunk(prefix, key, value) {
            Ok(chunk) => visit(chunk),
            Err(error) => {
                outcome = Err(error);
                ControlFlow::Break(())
            }
        },
    )?;
    outcome
}

/// The head of a chunk: the count of entries (u32, big endian), and the bytes of the entries before
/// them (u64, big endian).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The number of entries.
    pub count: u32,
    /// Bytes of all entries that were ever appended to the log before these.
    pub before: u64,
}

impl Head {
    /// Bytes of an encoded head.
    pub(crate) const BYTES: usize = 12;

    pub(crate) fn encode(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.count.to_be_bytes());
        bytes[4..].copy_from_slice(&self.before.to_be_bytes());
        bytes
    }

    /// Decodes a chunk's head. Returns it with the bytes of the entries; `None` if there are too
    /// few bytes.
    pub fn decode(value: &[u8]) -> Option<(Self, &[u8])> {
        let (count, rest) = value.split_first_chunk()?;
        let (before, entries) = rest.split_first_chunk()?;
        let (count, before) = (u32::from_be_bytes(*count), u64::from_be_bytes(*before));
        Some((Self { count, before }, entries))
    }
}

fn decode_chunk(prefix: &[u8], key: &[u8], value: &[u8]) -> Result<LogChunk, StoreError> {
    let damaged = || StoreError::Damaged("a chunk of an event log is not what was written".into());
    let first =
        key.get(prefix.len()..).and_then(|rest| rest.try_into().ok()).ok_or_else(damaged)?;
    let (head, entries) = Head::decode(value).ok_or_else(damaged)?;
    let first = u64::from_be_bytes(first);
    Ok(LogChunk { first, count: head.count, entries: entries.to_vec() })
}

#[cfg(test)]
mod tests {
    use postrider_domain::fuzz::edited;

    use super::*;

    #[test]
    fn fuzz_chunks_of_the_event_log() {
        let head = Head { count: 2, before: 99 };
        let new = [&head.encode()[..], b"entries"].concat();
        let examples: [&[u8]; 1] = [&new];
        let workspace: WorkspaceId = "acme".parse().unwrap();
        let prefix = event_log_prefix(&workspace);
        let key = event_log_key(&workspace, 7);
        let fuzzer = bolero::check!().with_iterations(20_000);
        fuzzer.for_each(|script: &[u8]| {
            let value = edited(&examples, script);
            if let Ok(chunk) = decode_chunk(&prefix, &key, &value) {
                assert_eq!(chunk.first, 7);
                assert!(chunk.entries.capacity() <= value.len());
            }
            // A key of any other length is not one of this log.
            let key = [&prefix[..], &value].concat();
            assert_eq!(chunk_of(&prefix, &key).is_ok(), value.len() == 8);
        });
    }

    fn chunk_of(prefix: &[u8], key: &[u8]) -> Result<LogChunk, StoreError> {
        decode_chunk(prefix, key, &Head { count: 0, before: 0 }.encode())
    }
}
