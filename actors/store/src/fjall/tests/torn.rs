//! Tests of what a crash may leave of the last batch, which was never acknowledged.

use std::fs;
use std::path::Path;

use super::*;
use crate::fjall::log::{Behind, End};

/// A closed store with three frames, and the log's bytes with and without the last batch.
struct Closed {
    dir: TempDir,
    log: PathBuf,
    bytes: Vec<u8>,
    /// Where the batch of frame 3 ends.
    acknowledged: usize,
}

impl Closed {
    /// The batch of frame 4 carries these events.
    fn with_last(events: &[u8]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fill(&dir.open(), 1..=3, b"acknowledged");
        let [log] = logs(&dir).try_into().unwrap();
        let acknowledged = whole(&log);
        fill(&dir.open(), 4..=4, events);
        let bytes = fs::read(&log).unwrap()[..whole(&log)].to_vec();
        Self { dir, log, bytes, acknowledged }
    }

    fn end_with(&self, log: &[u8]) -> Result<End, StoreError> {
        fs::write(&self.log, log).unwrap();
        end_of(&self.log)
    }

    /// Opens the store with such a log. It must have these frames and continue from there.
    fn goes_on_with(&self, log: &[u8], frames: u64) {
        fs::write(&self.log, log).unwrap();
        let store = self.dir.open();
        assert_eq!(numbers(&store, 0), (1..=frames).collect::<Vec<_>>());
        let last = frames.to_be_bytes().to_vec();
        assert_eq!(store.get(Table::Keys, b"k"), Ok(Some(last)));
        fill(&store, frames + 1..=frames + 2, b"after it");
        drop(store);
        assert_eq!(numbers(&self.dir.open(), 0), (1..=frames + 2).collect::<Vec<_>>());
    }

    fn is_refused(&self, log: &[u8]) {
        let ends = self.end_with(log);
        assert!(matches!(ends, Err(StoreError::Damaged(_))), "{ends:?}");
        let opened = FjallStore::open(self.dir.path(), FjallOptions::default());
        assert!(matches!(opened.err(), Some(StoreError::Damaged(_))));
        assert!(fs::read(&self.log).unwrap() == log, "a log that is not understood was changed");
    }
}

fn end_of(log: &Path) -> Result<End, StoreError> {
    crate::fjall::log::end_of(log, Behind::AnyBatch)
}

fn whole(log: &Path) -> usize {
    let End { whole, torn } = end_of(log).unwrap();
    assert_eq!(torn, 0);
    whole.try_into().unwrap()
}

/// Bytes that look like the beginnings of entries.
fn tags(length: usize) -> Vec<u8> {
    (0..length).map(|at| [1, 1, 0, 0, 0, 2, 3, 4][at % 8]).collect()
}

#[test]
fn a_log_that_was_closed_is_whole() {
    let closed = Closed::with_last(&tags(8_000));
    assert!(closed.acknowledged > 100 && closed.bytes.len() > closed.acknowledged + 16_000);
    closed.goes_on_with(&closed.bytes, 4);
}

#[test]
fn a_last_batch_that_ends_anywhere_is_cut_off() {
    let closed = Closed::with_last(b"unfinished");
    for end in closed.acknowledged..closed.bytes.len() {
        let cut = &closed.bytes[..end];
        let found = closed.end_with(cut).unwrap();
        assert_eq!(found.whole, closed.acknowledged as u64, "{end}");
        // With the zeros that fjall puts behind it.
        assert_eq!(closed.end_with(&[cut, &[0; 10_000]].concat()), Ok(found), "{end}");
        if end % 61 == 0 {
            closed.goes_on_with(cut, 3);
        }
    }
}

#[test]
fn a_last_batch_that_lacks_a_page_is_cut_off() {
    let closed = Closed::with_last(&tags(8_000));
    let pages = closed.acknowledged / 4096..closed.bytes.len().div_ceil(4096);
    for page in pages {
        let mut torn = closed.bytes.clone();
        let from = (page * 4096).max(closed.acknowledged);
        let to = (page * 4096 + 4096).min(torn.len());
        torn[from..to].fill(0);
        closed.goes_on_with(&torn, 3);
    }
}

#[test]
fn a_last_batch_with_any_other_byte_is_cut_off() {
    let closed = Closed::with_last(b"unfinished");
    for at in closed.acknowledged..closed.bytes.len() {
        let mut torn = closed.bytes.clone();
        torn[at] ^= 0x81;
        let found = closed.end_with(&torn).unwrap();
        // The number of a batch is under no checksum.
        let unnoticed = found.whole == closed.bytes.len() as u64;
        assert!(unnoticed || found.whole == closed.acknowledged as u64, "{at}: {found:?}");
        assert!(!unnoticed || (5..13).contains(&(at - closed.acknowledged)), "{at}");
        if !unnoticed && at % 61 == 0 {
            closed.goes_on_with(&torn, 3);
        }
    }
}

#[test]
fn nonsense_behind_the_end_is_cut_off() {
    let closed = Closed::with_last(b"finished");
    for nonsense in [vec![0xff; 5000], tags(5000), b"\x03nonsenseFJL\x03".to_vec()] {
        closed.goes_on_with(&[closed.bytes.as_slice(), &nonsense].concat(), 4);
    }
}

#[test]
fn damage_before_a_whole_batch_is_an_error() {
    let closed = Closed::with_last(b"acknowledged too");
    for at in [0, 1, 13, 20, 60, closed.acknowledged - 10, closed.acknowledged - 1] {
        let mut damaged = closed.bytes.clone();
        damaged[at] ^= 0x81;
        closed.is_refused(&damaged);
    }
    let mut damaged = closed.bytes.clone();
    damaged[..closed.acknowledged].fill(0);
    closed.is_refused(&damaged);
}
