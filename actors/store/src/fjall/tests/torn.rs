//! Tests of what a crash may leave of the last batch, which was never synced.

use std::fs;
use std::path::Path;

use super::*;
use crate::fjall::log::{LogEnd, end_of};

/// A closed view with four commits, and the log's bytes with and without the last one.
struct Closed {
    dir: TempDir,
    log: PathBuf,
    bytes: Vec<u8>,
    /// The end of the bytes that were synced with commit 3.
    synced: usize,
}

impl Closed {
    /// Commit 4 carries these bytes.
    fn with_last(last: &[u8]) -> Self {
        Self::of(last, false)
    }

    fn of(last: &[u8], last_is_synced: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let view = open(&dir);
        view.begin(LOG, &mark(0)).unwrap();
        fill(&view, 1..=3, b"synced");
        view.sync().unwrap();
        drop(view);
        let [log] = logs(&dir).try_into().unwrap();
        let synced = whole(&log);
        let view = open(&dir);
        fill(&view, 4..=4, last);
        if last_is_synced {
            view.sync().unwrap();
        }
        drop(view);
        let bytes = fs::read(&log).unwrap()[..whole(&log)].to_vec();
        Self { dir, log, bytes, synced }
    }

    fn end_with(&self, log: &[u8]) -> Result<LogEnd, StoreError> {
        fs::write(&self.log, log).unwrap();
        end_of(&self.log)
    }

    /// Opens the view with such a log. It must have these commits and continue from there.
    fn goes_on_with(&self, log: &[u8], commits: u64) {
        fs::write(&self.log, log).unwrap();
        let view = open(&self.dir);
        assert_eq!(view.applied(), Ok(mark(commits)));
        assert_eq!(view.get(Table::Keys, b"k"), Ok(Some(commits.to_be_bytes().to_vec())));
        fill(&view, commits + 1..=commits + 2, b"after it");
        drop(view);
        assert_eq!(open(&self.dir).applied(), Ok(mark(commits + 2)));
    }

    fn is_refused(&self, log: &[u8]) {
        let ends = self.end_with(log);
        assert!(matches!(ends, Err(StoreError::Damaged(_))), "{ends:?}");
        let opened = FjallView::open(self.dir.path(), FjallOptions::default());
        assert!(matches!(opened.err(), Some(StoreError::Damaged(_))));
        assert!(fs::read(&self.log).unwrap() == log, "a log that is not understood was changed");
    }
}

fn whole(log: &Path) -> usize {
    let LogEnd { whole, torn } = end_of(log).unwrap();
    assert_eq!(torn, 0);
    whole.try_into().unwrap()
}

/// Bytes that look like the beginnings of entries.
fn tags(length: usize) -> Vec<u8> {
    (0..length).map(|at| [1, 1, 0, 0, 0, 2, 3, 4][at % 8]).collect()
}

#[test]
fn a_log_that_was_closed_is_whole() {
    let closed = Closed::with_last(&tags(16_000));
    assert!(closed.synced > 100 && closed.bytes.len() > closed.synced + 16_000);
    closed.goes_on_with(&closed.bytes, 4);
}

#[test]
fn a_last_batch_that_ends_anywhere_is_cut_off() {
    let closed = Closed::with_last(b"unfinished");
    for end in closed.synced..closed.bytes.len() {
        let cut = &closed.bytes[..end];
        let found = closed.end_with(cut).unwrap();
        assert_eq!(found.whole, closed.synced as u64, "{end}");
        // With the zeros that fjall puts behind it.
        assert_eq!(closed.end_with(&[cut, &[0; 10_000]].concat()), Ok(found), "{end}");
        if end % 61 == 0 {
            closed.goes_on_with(cut, 3);
        }
    }
}

#[test]
fn a_last_batch_that_lacks_a_page_is_cut_off() {
    let closed = Closed::with_last(&tags(16_000));
    let pages = closed.synced / 4096..closed.bytes.len().div_ceil(4096);
    for page in pages {
        let mut torn = closed.bytes.clone();
        let from = (page * 4096).max(closed.synced);
        let to = (page * 4096 + 4096).min(torn.len());
        torn[from..to].fill(0);
        closed.goes_on_with(&torn, 3);
    }
}

#[test]
fn a_last_batch_with_any_other_byte_is_cut_off() {
    let closed = Closed::with_last(b"unfinished");
    for at in closed.synced..closed.bytes.len() {
        let mut torn = closed.bytes.clone();
        torn[at] ^= 0x81;
        let found = closed.end_with(&torn).unwrap();
        // The number of a batch is under no checksum.
        let unnoticed = found.whole == closed.bytes.len() as u64;
        assert!(unnoticed || found.whole == closed.synced as u64, "{at}: {found:?}");
        assert!(!unnoticed || (5..13).contains(&(at - closed.synced)), "{at}");
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
fn damage_before_what_proves_a_sync_is_an_error() {
    let closed = Closed::of(b"synced too", true);
    for at in [0, 1, 13, 20, 60, closed.synced - 10, closed.synced - 1] {
        let mut damaged = closed.bytes.clone();
        damaged[at] ^= 0x81;
        closed.is_refused(&damaged);
    }
    let mut damaged = closed.bytes.clone();
    damaged[..closed.synced].fill(0);
    closed.is_refused(&damaged);
}
