//! Tests of the view on disk that need its insides: its version, its writes and its failures.

use super::*;
use crate::view::conformance::{LOG, mark};

/// Gives the marks of a closed view the version of another program.
fn with_version(dir: &Path, version: u8) {
    let open = OpenView::database(dir, FjallOptions::default(), Attempts::Many).unwrap();
    let mut batch = open.base.batch(&[], PersistMode::SyncData).unwrap();
    for key in [LOG_KEY, APPLIED_KEY, SYNCED_KEY] {
        let mut value = open.state.get(key).unwrap().unwrap().to_vec();
        value[0] = version;
        batch.insert(&open.state, key, value);
    }
    batch.commit().unwrap();
}

#[test]
fn a_view_of_a_newer_version_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let view = FjallView::open(dir.path(), FjallOptions::default()).unwrap();
    view.begin(LOG, &mark(1)).unwrap();
    drop(view);
    with_version(dir.path(), 2);
    let opened = FjallView::open_again(dir.path(), FjallOptions::default());
    let refused = opened.err().unwrap().to_string();
    let expected = "it was written by a newer version: the log of the view has version 2";
    assert_eq!(refused, expected);
}

#[test]
fn much_that_was_applied_is_written_before_the_sync() {
    let dir = tempfile::tempdir().unwrap();
    let view = FjallView::open(dir.path(), FjallOptions::default()).unwrap();
    view.begin(LOG, &Mark::default()).unwrap();
    let unwritten = || view.handle().unwrap().unwritten.load(Ordering::Relaxed);
    let half = Change::put(Table::Keys, [1], vec![7; WRITE_OUT_BYTES / 2]);
    view.apply(&mark(1), std::slice::from_ref(&half)).unwrap();
    view.write_out().unwrap();
    assert!(unwritten() > 0, "that little waits for the sync");
    view.apply(&mark(2), &[half]).unwrap();
    view.write_out().unwrap();
    assert_eq!(unwritten(), 0);
    assert_eq!(view.synced(), Ok(Position::START), "only a sync says what is durable");
    view.apply(&mark(3), &[Change::put(Table::Keys, [1], [7])]).unwrap();
    view.sync().unwrap();
    assert_eq!((unwritten(), view.synced()), (0, Ok(Position(3))));
}

#[test]
fn after_a_failure_all_fails_until_it_is_open_again_on_a_fresh_log() {
    use std::os::unix::fs::MetadataExt;
    let dir = tempfile::tempdir().unwrap();
    let view = FjallView::open(dir.path(), FjallOptions::default()).unwrap();
    let put = |at: u64| Change::put(Table::Keys, *b"k", at.to_be_bytes());
    view.apply(&mark(3), &[put(3)]).unwrap();
    let log = dir.path().join("0.jnl");
    // Held open, so that its number is not given to the new one.
    let held = std::fs::File::open(&log).unwrap();
    let failed = view.slot.fail(StoreError::Failed("injected".into()));
    assert_eq!(view.apply(&mark(4), &[put(4)]), Err(failed.clone()));
    assert_eq!(view.get(Table::Keys, b"k"), Err(failed.clone()));
    assert_eq!(view.sync(), Err(failed));
    std::fs::write(dir.path().join("7.jnl.copy"), b"left by a crash").unwrap();
    view.reopen().unwrap();
    assert_ne!(log.metadata().unwrap().ino(), held.metadata().unwrap().ino());
    assert!(!dir.path().join("7.jnl.copy").exists());
    assert_eq!(view.get(Table::Keys, b"k"), Ok(Some(3_u64.to_be_bytes().to_vec())));
    view.apply(&mark(4), &[put(4)]).unwrap();
    drop(view);
    let view = FjallView::open_again(dir.path(), FjallOptions::default()).unwrap();
    assert_eq!(view.applied(), Ok(mark(4)));
}

#[test]
fn a_reader_in_the_way_only_delays_opening_again() {
    let dir = tempfile::tempdir().unwrap();
    let view = FjallView::open(dir.path(), FjallOptions::default()).unwrap();
    view.apply(&mark(3), &[]).unwrap();
    let reader = view.handle().unwrap();
    view.slot.fail(StoreError::Failed("injected".into()));
    std::thread::scope(|scope| {
        let reopened = scope.spawn(|| view.reopen());
        drop(reader);
        reopened.join().unwrap().unwrap();
    });
    assert_eq!(view.applied(), Ok(mark(3)));
}
