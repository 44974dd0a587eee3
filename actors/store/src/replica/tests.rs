//! A replica begins wherever it can, and never over a gap.

use postrider_log::{Claim, CrashingLog, FileOptions, LogId, Start};
use tempfile::TempDir;

use super::*;
use crate::checkpoints::tests::write_of;
use crate::{Change, Group, Store, Table, View};

/// The checkpoints of a shard as files of another node, the newest one first.
struct Made(Vec<(Position, Vec<u8>)>);

impl Bases for Made {
    fn fetch(&self, number: usize, into: &CheckpointDir) -> Result<Option<Checkpoint>, StoreError> {
        let Some((position, bytes)) = self.0.get(number) else { return Ok(None) };
        let checkpoint = into.place_for(*position);
        fs::write(&checkpoint.path, bytes).map_err(failed)?;
        Ok(Some(checkpoint))
    }
}

struct Rig {
    dir: TempDir,
    log: Arc<CrashingLog>,
    made: Made,
}

fn put(store: &LogStore, number: u8) {
    let changes = [Change::put(Table::Meta, [number], vec![number; 3_000])];
    store.commit(Group::new(None, &changes)).unwrap();
}

/// What a store has of the numbers that were put.
fn numbers(store: &LogStore) -> Vec<u8> {
    let has = |number: &u8| store.get(Table::Meta, &[*number]).unwrap().is_some();
    (0..20).filter(has).collect()
}

impl Rig {
    /// A log with a checkpoint after 5 and after 10 of 15 commits, trimmed to the older.
    fn new() -> Self {
        let files = FileOptions { segment_bytes: 8 * 1024, ..FileOptions::default() };
        let log = Arc::new(CrashingLog::with_options(Start::new(LogId([3; 16])), files).unwrap());
        let mut rig = Self { dir: tempfile::tempdir().unwrap(), log, made: Made(Vec::new()) };
        let (store, ..) = rig.open("first").unwrap();
        store.begin_epoch().unwrap();
        for number in 0..15 {
            if number == 5 || number == 10 {
                let mut bytes = Vec::new();
                write_of(&store, &mut bytes).unwrap();
                let position = store.snapshot().unwrap().mark().position;
                rig.made.0.insert(0, (position, bytes));
            }
            put(&store, number);
        }
        drop(store);
        rig
    }

    fn trimmed() -> Self {
        let rig = Self::new();
        rig.log.trim(rig.made.0[1].0).unwrap();
        let first = rig.log.tail().unwrap().first;
        assert!(first > Position(1) && first <= rig.made.0[1].0.next(), "{first}");
        rig
    }

    fn open(&self, node: &str) -> Result<OpenedReplica, StoreError> {
        let dir = ReplicaDir::at(&self.dir.path().join(node), 3);
        let log: Arc<dyn Log> = self.log.clone();
        loop {
            match dir.open(&log, FjallOptions::default(), Writes::default(), &self.made) {
                Err(StoreError::Locked) => std::thread::yield_now(),
                opened => return opened,
            }
        }
    }
}

#[test]
fn a_node_without_anything_begins_at_the_newest_checkpoint() {
    for rig in [Rig::new(), Rig::trimmed()] {
        let (store, snapshots, checkpoints) = rig.open("second").unwrap();
        assert_eq!(numbers(&store), (0..15).collect::<Vec<_>>());
        let loaded = snapshots.load().unwrap();
        assert_eq!(loaded.position, rig.made.0[0].0);
        assert_eq!(loaded.entries, [("acme".parse().unwrap(), b"hot".to_vec())]);
        assert_eq!(checkpoints.all().unwrap(), [], "what was fetched is of no more use");
        drop(store);
        // It need not be fetched again.
        let rig = Rig { made: Made(Vec::new()), ..rig };
        assert_eq!(numbers(&rig.open("second").unwrap().0).len(), 15);
    }
}

#[test]
fn a_damaged_checkpoint_costs_a_longer_log_and_two_of_them_the_start() {
    let mut rig = Rig::trimmed();
    let end = rig.made.0[0].1.len() - 1;
    rig.made.0[0].1[end] ^= 1;
    let (store, snapshots, _) = rig.open("second").unwrap();
    assert_eq!(numbers(&store).len(), 15);
    assert_eq!(snapshots.load().unwrap().position, rig.made.0[1].0);
    let end = rig.made.0[1].1.len() - 1;
    rig.made.0[1].1[end] ^= 1;
    let error = rig.open("third").err().unwrap();
    assert!(error.to_string().contains("no whole checkpoint"), "{error}");
    assert!(rig.open("third").is_err(), "nothing that seems to be one is left behind");
}

#[test]
fn records_or_states_that_are_behind_the_log_are_taken_from_a_checkpoint() {
    let rig = Rig::new();
    let (store, ..) = rig.open("second").unwrap();
    drop(store);
    let path = |suffix: &str| rig.dir.path().join("second").join(format!("3{suffix}"));
    rig.log.trim(rig.made.0[1].0).unwrap();
    for lost in ["", ".snapshots"] {
        drop(rig.open("second").unwrap());
        FjallView::wait_until_closed(&path("")).unwrap();
        fs::remove_dir_all(path(lost)).unwrap();
        let (store, snapshots, _) = rig.open("second").unwrap();
        assert_eq!(numbers(&store).len(), 15, "without {lost:?}");
        assert!(snapshots.load().unwrap().position.next() >= rig.log.tail().unwrap().first);
    }
    // A view of a checkpoint that was being loaded has another name.
    fs::create_dir_all(path(".new")).unwrap();
    fs::write(path(".new").join("half"), "x").unwrap();
    FjallView::wait_until_closed(&path("")).unwrap();
    fs::remove_dir_all(path("")).unwrap();
    assert_eq!(numbers(&rig.open("second").unwrap().0).len(), 15);
}

#[test]
fn a_view_that_went_further_is_given_up_only_where_the_log_was_begun_anew() {
    for (epoch, is_anew) in [(1_000, true), (0, false)] {
        let mut rig = Rig::new();
        // The log begins behind a repair, or it has lost its end.
        let start = Start { after: Position(3), epoch, ..Start::new(LogId([3; 16])) };
        let log = Arc::new(CrashingLog::with_options(start, FileOptions::default()).unwrap());
        let by = Claim {
            node: "repair".to_owned(),
            incarnation: [1; 16],
            program: "1".to_owned(),
            readable_from: 1,
        };
        postrider_log::claim(&*log, &by, 0).unwrap();
        (rig.log, rig.made) = (log, Made(Vec::new()));
        let snapshots = SnapshotDir::open(rig.dir.path().join("first").join("3.snapshots"));
        let snapshots = snapshots.unwrap();
        snapshots.write(Position(9), std::iter::empty()).unwrap();
        match rig.open("first").err().unwrap() {
            // It looked for a checkpoint.
            StoreError::Damaged(why) if is_anew => assert!(why.contains("a repair"), "{why}"),
            StoreError::Lost { .. } if !is_anew => {}
            other => panic!("epoch {epoch}: {other:?}"),
        }
        // The states of what was given up go before there is a view that they would fit to.
        let left = snapshots.load().unwrap().position;
        assert_eq!(left, if is_anew { Position::START } else { Position(9) });
    }
}
