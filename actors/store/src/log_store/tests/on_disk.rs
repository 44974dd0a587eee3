//! The store in files, and the contract that it shares with other stores.

use postrider_log::FileLog;
use tempfile::TempDir;

use super::*;
use crate::conformance::Subject;
use crate::{FjallOptions, FjallView, view};

struct Dir(TempDir);

impl Dir {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }
}

impl Subject for Dir {
    type Store = LogStore;

    fn open(&self) -> LogStore {
        let view = FjallView::open(&self.0.path().join("view"), FjallOptions::default()).unwrap();
        let acknowledged = view.applied().unwrap().position;
        let files = FileOptions { acknowledged, segment_bytes: 1 << 20, ..FileOptions::default() };
        let log = FileLog::open(&self.0.path().join("log"), files, Start::new(ID)).unwrap();
        let store = LogStore::open(Arc::new(log), Arc::new(view), Writes::default());
        let store = store.unwrap().syncing().unwrap();
        store.begin_epoch().unwrap();
        store
    }
}

#[test]
fn its_view_keeps_the_contract() {
    view::conformance::scans_go_both_ways(&Dir::new());
    view::conformance::scans_of_awkward_keys(&Dir::new());
    view::conformance::a_scan_can_stop_and_may_use_the_store(&Dir::new());
    view::conformance::empty_and_large_values(&Dir::new());
}

#[test]
fn it_goes_on_after_each_opening() {
    let dir = Dir::new();
    let mut last = Position::START;
    for round in 0..5 {
        let store = dir.open();
        assert_eq!(store.last_position(), Ok(last.next()), "the claim");
        (1..=10).for_each(|at| last = commit(&store, round * 10 + at).unwrap());
        let all: Vec<_> = (1..=round * 10 + 10).collect();
        assert_eq!((frames(&store), records(&store)), (all.clone(), folded(&all)));
        if round % 2 == 0 {
            store.close().unwrap();
        }
    }
}

/// Nothing fails while the present file has room, but the problem is reported.
#[test]
fn a_next_file_that_cannot_be_made_is_said() {
    let dir = Dir::new();
    let log = dir.0.path().join("log");
    let files = FileOptions { segment_bytes: 1 << 20, ..FileOptions::default() };
    let file_log = FileLog::open(&log, files, Start::new(ID)).unwrap();
    let view = Arc::new(crate::MemoryView::new());
    let store = LogStore::open(Arc::new(file_log), view, Writes::default()).unwrap();
    std::fs::create_dir(log.join("next.tmp")).unwrap();
    store.begin_epoch().unwrap();
    let problem = || {
        store.inner.sync_or_reopen_view();
        std::thread::yield_now();
        store.figures().unwrap().problem
    };
    while problem().is_none() {}
    commit(&store, 1).unwrap();
    std::fs::remove_dir(log.join("next.tmp")).unwrap();
    while problem().is_some() {}
    let figures = store.figures().unwrap();
    assert_eq!((figures.last, figures.applied, figures.segments), (Position(2), Position(2), 1));
    assert!(figures.synced == Position(2) && (200..2000).contains(&figures.bytes), "{figures:?}");
}

/// The commit is larger than an entry may be.
#[test]
fn a_large_commit_takes_several_positions() {
    let dir = Dir::new();
    let store = dir.open();
    let value = vec![7; 40 << 20];
    let change = Change::put(Table::Keys, *b"large", value.clone());
    assert_eq!(store.commit(Group::new(None, &[change])), Ok(Position(4)));
    drop(store);
    let store = dir.open();
    assert_eq!(store.get(Table::Keys, b"large"), Ok(Some(value)));
    assert_eq!(store.last_position(), Ok(Position(5)));
}
