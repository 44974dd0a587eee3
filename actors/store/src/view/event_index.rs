//! Pure: the index of the workspaces' event logs by the subjects of events.
//!
//! [`Table::EventIndex`] has blocks of 8,192 sequences, each in 128 parts by the hash of an event's
//! subjects. The key of a part is the workspace's id, a zero byte, the part (u8) and the block
//! (u64, big endian); so the parts that a search reads are adjacent. The value is a version byte
//! and the entries in order: 16 further bits of the hash and the event's place in the block (u16,
//! big endian, both). A subject of very many events of a block has one entry for the whole block.
//! An event with more than 256 texts has one entry, in a separate part that every search reads. So
//! the events of strangers cannot make a block large.
//!
//! One commit writes a block once the log has passed it, and its first part even if that is empty.
//! So all sequences up to the end of the newest block are indexed, and later ones are not. The
//! commit of an event does no work for the index. Several texts may have the same hash.

use std::ops::ControlFlow;

use postrider_domain::{PublicEvent, WorkspaceId};

use super::log_chunk::event_log_prefix;
use super::{Change, Direction, Table, View, event_log};
use crate::error::StoreError;

/// The sequences of a block.
pub const BLOCK_EVENTS: u64 = 8_192;
/// The number of parts by hash. The part after them is for the events with too many texts.
const PARTS: u8 = 128;
/// The most hashes of an event that have entries.
const HASHES_MAX: usize = 256;
/// From this number of events on, a subject has one entry for the block. Its search reads them all.
const MANY: usize = 1_024;
/// The place that means all events of the block.
const ALL: u16 = u16::MAX;
const VERSION: u8 = 1;
const _: () = assert!(BLOCK_EVENTS < ALL as u64);

/// Returns the block of a sequence.
const fn block_of(sequence: u64) -> u64 {
    sequence.saturating_sub(1) / BLOCK_EVENTS
}

/// The subject that a search looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sought {
    /// The hash of a text.
    Hash(u32),
    /// The events with too many texts, which may be about anything.
    Crowded,
}

impl Sought {
    const fn part(self) -> u8 {
        match self {
            Self::Hash(hash) => (hash >> 25) as u8,
            Self::Crowded => PARTS,
        }
    }

    /// The bits of a hash that are in an entry.
    const fn hash_bits(self) -> u16 {
        match self {
            Self::Hash(hash) => (hash >> 9) as u16,
            Self::Crowded => 0,
        }
    }

    fn entry(self, place: u64) -> u64 {
        u64::from(self.part()) << 32 | u64::from(self.hash_bits()) << 16 | place
    }
}

fn part_prefix(workspace: &WorkspaceId, part: u8) -> Vec<u8> {
    let mut prefix = event_log_prefix(workspace);
    prefix.push(part);
    prefix
}

fn key(workspace: &WorkspaceId, part: u8, block: u64) -> Vec<u8> {
    let mut key = part_prefix(workspace, part);
    key.extend_from_slice(&block.to_be_bytes());
    key
}

fn damaged() -> StoreError {
    StoreError::Damaged("a part of an index of events is not what was written".into())
}

fn block_of_key(prefix: &[u8], key: &[u8]) -> Result<u64, StoreError> {
    let block = key.get(prefix.len()..).and_then(|rest| rest.try_into().ok());
    block.map(u64::from_be_bytes).ok_or_else(damaged)
}

/// The entries of a block.
struct Block {
    number: u64,
    /// In each the part and the rest of the hash, and the place: 8, 16 and 16 bits.
    entries: Vec<u64>,
}

impl Block {
    fn add(&mut self, sequence: u64, event: &PublicEvent) {
        let place = sequence - 1 - self.number * BLOCK_EVENTS;
        let begin = self.entries.len();
        event.about(&mut |hash| {
            // A text may occur more than once. A crowded event needs no more of its hashes.
            if self.entries.len() - begin <= 2 * HASHES_MAX {
                self.entries.push(Sought::Hash(hash).entry(place));
            }
        });
        self.entries[begin..].sort_unstable();
        let hashes = self.entries[begin..].chunk_by(|one, other| one == other).count();
        if hashes > HASHES_MAX || self.entries.len() - begin > 2 * HASHES_MAX {
            self.entries.truncate(begin);
            self.entries.push(Sought::Crowded.entry(place));
        }
    }

    fn into_changes(mut self, workspace: &WorkspaceId) -> Vec<Change> {
        self.entries.sort_unstable();
        self.entries.dedup();
        let (mut changes, mut left) = (Vec::new(), self.entries.as_slice());
        for part in 0..=PARTS {
            let end = left.partition_point(|entry| entry >> 32 <= u64::from(part));
            let (own, others) = left.split_at(end);
            left = others;
            if own.is_empty() && part > 0 {
                continue;
            }
            let mut value = vec![VERSION];
            for same in own.chunk_by(|one, other| one >> 16 == other >> 16) {
                if same.len() >= MANY {
                    let all = same[0] as u32 | u32::from(ALL);
                    value.extend_from_slice(&all.to_be_bytes());
                } else {
                    value.extend(same.iter().flat_map(|entry| (*entry as u32).to_be_bytes()));
                }
            }
            changes.push(Change::put(Table::EventIndex, key(workspace, part, self.number), value));
        }
        changes
    }
}

/// Returns the places in the value of a part that match the search, in order.
fn places(value: &[u8], sought: Sought) -> Result<Vec<u16>, StoreError> {
    let Some((&VERSION, entries)) = value.split_first() else { return Err(damaged()) };
    let (entries, []) = entries.as_chunks::<4>() else { return Err(damaged()) };
    let rest = sought.hash_bits();
    let rest_at = |entry: &[u8; 4]| u16::from_be_bytes([entry[0], entry[1]]);
    let own = &entries[entries.partition_point(|entry| rest_at(entry) < rest)..];
    let own = own.iter().take_while(|entry| rest_at(entry) == rest);
    let places: Vec<_> = own.map(|entry| u16::from_be_bytes([entry[2], entry[3]])).collect();
    match places[..] {
        [ALL] => Ok((0..BLOCK_EVENTS as u16).collect()),
        _ => Ok(places),
    }
}

/// Returns the last sequence of the indexed part of the log; 0 if none is indexed.
///
/// # Errors
/// Those of [`View::scan`]; [`StoreError::Damaged`] when a record is no part of an index.
pub fn indexed_through(store: &dyn View, workspace: &WorkspaceId) -> Result<u64, StoreError> {
    let prefix = part_prefix(workspace, 0);
    let mut through = Ok(0);
    store.scan(Table::EventIndex, &prefix, None, Direction::Backward, &mut |key, _| {
        through = block_of_key(&prefix, key).map(|block| (block + 1) * BLOCK_EVENTS);
        ControlFlow::Break(())
    })?;
    through
}

/// Visits the indexed sequences whose events may be about what is sought, from the sequence `from`
/// on.
///
/// # Errors
/// Those of [`indexed_through`].
pub fn find(
    store: &dyn View,
    (workspace, sought): (&WorkspaceId, Sought),
    (from, direction): (u64, Direction),
    visit: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<(), StoreError> {
    let prefix = part_prefix(workspace, sought.part());
    let begin = key(workspace, sought.part(), block_of(from));
    let mut outcome = Ok(());
    store.scan(Table::EventIndex, &prefix, Some(&begin), direction, &mut |key, value| {
        let read = block_of_key(&prefix, key).and_then(|block| Ok((block, places(value, sought)?)));
        let (block, places) = match read {
            Ok(read) => read,
            Err(error) => {
                outcome = Err(error);
                return ControlFlow::Break(());
            }
        };
        let mut sequences = places.iter().map(|place| block * BLOCK_EVENTS + 1 + u64::from(*place));
        match direction {
            Direction::Forward => sequences.filter(|it| *it >= from).try_for_each(&mut *visit),
            Direction::Backward => {
                sequences.rfind(|it| *it <= from).map_or(ControlFlow::Continue(()), &mut *visit)?;
                sequences.rev().try_for_each(&mut *visit)
            }
        }
    })?;
    outcome
}

/// Returns the end of the next block, and the changes that index it.
///
/// `None` while the log has not reached that end.
///
/// # Errors
/// Those of [`event_log::read`] and of [`indexed_through`].
pub fn next_block(
    store: &dyn View,
    workspace: &WorkspaceId,
) -> Result<(u64, Option<Vec<Change>>), StoreError> {
    let indexed = indexed_through(store, workspace)?;
    // The trimmed part has no block.
    let mut first = indexed + 1;
    event_log::read(store, workspace, indexed, &mut |sequence, _| {
        first = sequence;
        false
    })?;
    let mut block = Block { number: block_of(first), entries: Vec::new() };
    let (before, end) = (block.number * BLOCK_EVENTS, (block.number + 1) * BLOCK_EVENTS);
    if event_log::last_sequence(store, workspace)? < end {
        return Ok((end, None));
    }
    event_log::read(store, workspace, before, &mut |sequence, entry| {
        if sequence <= end {
            block.add(sequence, &entry.event);
        }
        sequence < end
    })?;
    Ok((end, Some(block.into_changes(workspace))))
}

/// Returns the oldest blocks from `from` on whose events are all before the sequence `oldest`.
///
/// They are at most `max`.
///
/// # Errors
/// Those of [`indexed_through`].
pub fn blocks_before(
    store: &dyn View,
    workspace: &WorkspaceId,
    (from, oldest): (u64, u64),
    max: usize,
) -> Result<Vec<u64>, StoreError> {
    let prefix = part_prefix(workspace, 0);
    let begin = key(workspace, 0, from);
    let mut blocks = Ok(Vec::new());
    if block_of(oldest) <= from {
        return blocks;
    }
    store.scan(Table::EventIndex, &prefix, Some(&begin), Direction::Forward, &mut |key, _| {
        match (&mut blocks, block_of_key(&prefix, key)) {
            (Ok(found), Ok(block)) if block < block_of(oldest) && found.len() < max => {
                found.push(block);
                return ControlFlow::Continue(());
            }
            (_, Ok(_)) => {}
            (blocks, Err(error)) => *blocks = Err(error),
        }
        ControlFlow::Break(())
    })?;
    blocks
}

/// Returns the changes that delete a block.
pub fn without_block(workspace: &WorkspaceId, block: u64) -> impl Iterator<Item = Change> {
    (0..=PARTS).map(move |part| Change::delete(Table::EventIndex, key(workspace, part, block)))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use postrider_domain::fuzz::edited;
    use postrider_domain::{EventKind, Phone, RequestId, Timestamp};

    use super::*;

    #[test]
    fn a_block_is_written_as_ever() {
        let workspace: WorkspaceId = "acme".parse().unwrap();
        let mut block = Block { number: 7, entries: Vec::new() };
        for sequence in 7 * BLOCK_EVENTS + 1..=8 * BLOCK_EVENTS {
            // Every fourth is about one phone, and the others are about nothing.
            if sequence % 4 == 0 {
                let request_id = RequestId::from_parts(Timestamp::from_millis(1), 5);
                let phone = Phone::from_digits(15_550_100_000 + sequence / 4096).unwrap();
                block.add(sequence, &PublicEvent::OtpVerified { request_id, phone });
            }
        }
        let changes = block.into_changes(&workspace);
        let shown = changes.iter().map(|change| {
            let value = change.value.as_ref().unwrap();
            format!(
                "{}: {:02x?} of {}\n",
                change.key.escape_ascii(),
                &value[..5.min(value.len())],
                value.len()
            )
        });
        expect![[r"
            acme\x00\x00\x00\x00\x00\x00\x00\x00\x00\x07: [01] of 1
            acme\x00\x0e\x00\x00\x00\x00\x00\x00\x00\x07: [01, a8, 86, 00, 03] of 4093
            acme\x00/\x00\x00\x00\x00\x00\x00\x00\x07: [01, 10, 77, ff, ff] of 5
            acme\x00_\x00\x00\x00\x00\x00\x00\x00\x07: [01, 85, d2, 1f, ff] of 5
            acme\x00n\x00\x00\x00\x00\x00\x00\x00\x07: [01, 35, 39, ff, ff] of 5
        "]]
        .assert_eq(&shown.collect::<String>());
    }

    #[test]
    fn an_event_with_too_many_texts_has_one_entry() {
        let event = |texts: usize| {
            let texts: Vec<_> = (0..texts).map(|number| format!("\"text-{number}\"")).collect();
            let data = format!("{{\"tags\":[{}]}}", texts.join(",")).into();
            PublicEvent::Other { kind: EventKind::ContactUpdated, data }
        };
        let mut block = Block { number: 0, entries: Vec::new() };
        block.add(1, &event(HASHES_MAX));
        assert_eq!(block.entries.len(), HASHES_MAX);
        block.add(2, &event(HASHES_MAX + 1));
        block.add(3, &event(100_000));
        assert_eq!(block.entries[HASHES_MAX..], [1, 2].map(|at| Sought::Crowded.entry(at)));
    }

    #[test]
    fn fuzz_parts_of_the_index() {
        let examples: [&[u8]; 2] = [&[1], &[1, 0, 7, 0, 1, 0, 7, 1, 2, 0, 8, 255, 255]];
        bolero::check!().with_iterations(20_000).for_each(|script: &[u8]| {
            let value = edited(&examples, script);
            if let Ok(found) = places(&value, Sought::Hash(7 << 9)) {
                assert!(found.len() <= BLOCK_EVENTS as usize + value.len());
            }
        });
        let ([_, example], seven) = (examples, Sought::Hash(7 << 9));
        assert_eq!(places(example, Sought::Hash(7 << 9)), Ok(vec![1, 0x102]));
        assert_eq!(places(example, Sought::Hash(8 << 9)).unwrap().len(), BLOCK_EVENTS as usize);
        assert_eq!(places(example, Sought::Hash(9 << 9)), Ok(vec![]));
        assert!(places(&example[..6], seven).is_err() && places(&[], seven).is_err());
    }
}
