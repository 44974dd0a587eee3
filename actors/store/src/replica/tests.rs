//! Tests that a replica starts wherever it can, and never over a gap.

use std::cell::Cell;

use postrider_log::{
    CheckpointNote, Claim, CrashingLog, FileOptions, Kind, LogId, Mark, MemoryLog, Start, Tail,
    encode_commit,
};
use tempfile::TempDir;

use super::*;
use crate::checkpoints::tests::write_of;
use crate::{Change, Group, Store, Table, View};

/// The checkpoints of a shard as files of another node, the newest one first.
///
/// A checkpoint without bytes does not arrive.
struct Made(Vec<(Position, Vec<u8>)>, Stops);

/// The number of further looks after which the node stops, if it does.
#[derive(Default)]
struct Stops(Cell<Option<usize>>);

impl Made {
    fn of(made: Vec<(Position, Vec<u8>)>) -> Self {
        Self(made, Stops::default())
    }
}

impl Bases for Made {
    fn newest(&self) -> Result<Position, StoreError> {
        Ok(self.0.first().map_or(Position::START, |(position, _)| *position))
    }

    fn is_stopping(&self) -> bool {
        let left = self.1.0.get();
        self.1.0.set(left.map(|left| left.saturating_sub(1)));
        left == Some(0)
    }

    fn fetch(
        &self,
        number: usize,
        into: &CheckpointDir,
        gives_up: &dyn Fn() -> bool,
    ) -> Result<Fetched, StoreError> {
        let Some((position, bytes)) = self.0.get(number) else { return Ok(Fetched::Nothing) };
        let checkpoint = into.place_for(*position);
        fs::write(&checkpoint.path, bytes).map_err(failed)?;
        match bytes.len() {
            _ if gives_up() => Err(StoreError::Failed("it was given up".to_owned())),
            0 => Ok(Fetched::Slow("nothing came".to_owned())),
            _ => Ok(Fetched::Here(checkpoint)),
        }
    }
}

struct Rig {
    dir: TempDir,
    log: Arc<dyn Log>,
    made: Made,
}

fn put(store: &LogStore, number: u8) {
    let changes = [Change::put(Table::Meta, [number], vec![number; 3_000])];
    store.commit(Group::new(None, &changes)).unwrap();
}

/// Returns the numbers that a store has.
fn numbers(store: &LogStore) -> Vec<u8> {
    let has = |number: &u8| store.get(Table::Meta, &[*number]).unwrap().is_some();
    (0..20).filter(has).collect()
}

fn claim_of(node: &str) -> Claim {
    let (node, program) = (node.to_owned(), "1".to_owned());
    Claim { node, incarnation: [1; 16], program, readable_from: 1 }
}

impl Rig {
    /// Returns a log with a checkpoint after 5 and after 10 of 15 commits, trimmed to the older.
    fn new() -> Self {
        let files = FileOptions { segment_bytes: 8 * 1024, ..FileOptions::default() };
        let log = CrashingLog::with_options(Start::new(LogId([3; 16])), files).unwrap();
        Self::over(Arc::new(log))
    }

    /// Does the same over an empty log.
    fn over(log: Arc<dyn Log>) -> Self {
        let mut rig = Self { dir: tempfile::tempdir().unwrap(), log, made: Made::of(Vec::new()) };
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
        let dir = self.replica(node);
        FjallView::is_there(&dir.path(""))
            .then(|| FjallView::wait_until_closed(&dir.path("")).unwrap());
        self.with(&|| false, |from| dir.open(None, from, Writes::default()))
    }

    fn replica(&self, node: &str) -> ReplicaDir {
        ReplicaDir::at(&self.dir.path().join(node), 3)
    }

    /// Calls with the sources of records.
    fn with<T>(&self, gives_up: &dyn Fn() -> bool, call: impl Fn(ReplicaSource<'_>) -> T) -> T {
        let (options, bases) = (FjallOptions::default(), &self.made);
        call(ReplicaSource { log: &self.log, bases, options, gives_up })
    }

    fn follow(
        &self,
        node: &str,
        had: Option<OpenRecords>,
        gives_up: &dyn Fn() -> bool,
    ) -> Result<(OpenRecords, Position), StoreError> {
        let (dir, had) = (self.replica(node), std::cell::Cell::new(had));
        self.with(gives_up, |from| dir.follow(had.take(), from))
    }

    /// Claims the shard as a repair does, behind all entries of the log.
    fn repair_claims(&self) -> Mark {
        let tail = self.log.tail().unwrap();
        let next = tail.next(tail.epoch + 1_000);
        let by = claim_of("repair").encode().unwrap();
        let entries = encode_commit(&next, Kind::Claim, 0, &by, 4_096).unwrap();
        self.log.append(next.position, &entries).unwrap();
        let Tail { last: position, epoch, hash, .. } = self.log.tail().unwrap();
        Mark { position, epoch, hash }
    }

    fn note_checkpoint(&self, position: Position) {
        let tail = self.log.tail().unwrap();
        let next = tail.next(tail.epoch);
        let note = CheckpointNote { position, archive: "a".to_owned(), sha256: [1; 32], bytes: 1 };
        let note = note.encode().unwrap();
        let entries = encode_commit(&next, Kind::Checkpoint, 0, &note, 4_096).unwrap();
        self.log.append(next.position, &entries).unwrap();
    }

    /// Returns the checkpoint of a repair, which has only these numbers.
    fn repaired(&self, at: &Mark, numbers: &[u8]) -> (Position, Vec<u8>) {
        let (dir, mut bytes) = (self.dir.path().join("repair"), Vec::new());
        let view = FjallView::open(&dir, FjallOptions::default()).unwrap();
        let put = |number: &u8| Change::put(Table::Meta, [*number], [*number]);
        view.apply(at, &numbers.iter().map(put).collect::<Vec<_>>()).unwrap();
        view.begin(self.log.id(), at).unwrap();
        let store = LogStore::open(self.log.clone(), Arc::new(view), Writes::default()).unwrap();
        write_of(&store, &mut bytes).unwrap();
        (at.position, bytes)
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
        let rig = Rig { made: Made::of(Vec::new()), ..rig };
        assert_eq!(numbers(&rig.open("second").unwrap().0).len(), 15);
    }
}

#[test]
fn whoever_followed_the_log_has_the_records_open_and_needs_no_checkpoint() {
    let rig = Rig::trimmed();
    let (records, at) = rig.follow("second", None, &|| false).unwrap();
    assert_eq!(at, rig.log.tail().unwrap().last);
    let (store, ..) = rig.open("first").unwrap();
    store.begin_epoch().unwrap();
    let rig = Rig { made: Made::of(Vec::new()), ..rig };
    (15..17).for_each(|number| put(&store, number));
    let locked = rig.with(&|| false, |from| rig.replica("second").follow(None, from).map(drop));
    assert_eq!(locked, Err(StoreError::Locked), "they stay open");
    let (records, at) = rig.follow("second", Some(records), &|| false).unwrap();
    assert_eq!(at, rig.log.tail().unwrap().last);
    put(&store, 17);
    drop(store);
    let had = std::cell::Cell::new(Some(records));
    let opened =
        rig.with(&|| false, |from| rig.replica("second").open(had.take(), from, Writes::default()));
    assert_eq!(numbers(&opened.unwrap().0), (0..18).collect::<Vec<_>>());
}

#[test]
fn records_that_do_not_lead_to_the_log_any_more_are_taken_from_a_checkpoint() {
    let mut rig = Rig::new();
    let (records, _) = rig.follow("second", None, &|| false).unwrap();
    let (store, ..) = rig.open("first").unwrap();
    let mut bytes = Vec::new();
    write_of(&store, &mut bytes).unwrap();
    drop(store);
    // The states are at a checkpoint, and the log starts behind that.
    let end = rig.log.tail().unwrap().last;
    rig.log.trim(end).unwrap();
    assert!(rig.log.tail().unwrap().first > rig.made.0[0].0.next());
    assert!(rig.follow("second", Some(records), &|| false).is_err(), "there is no such checkpoint");
    rig.made.0.insert(0, (end, bytes));
    FjallView::wait_until_closed(&rig.replica("second").path("")).unwrap();
    let (records, at) = rig.follow("second", None, &|| false).unwrap();
    assert_eq!((at, records.states), (end, end));
}

#[test]
fn a_follow_that_is_given_up_goes_on_later_and_a_start_is_not_made() {
    let mut rig = Rig::new();
    rig.made.0.clear();
    let asked = std::cell::Cell::new(0);
    let some = || asked.replace(asked.get() + 1) >= 3;
    let (records, at) = rig.follow("second", None, &some).unwrap();
    assert_eq!(at, Position(3), "the claim and what two commits wrote");
    let had = std::cell::Cell::new(Some(records));
    let opened =
        rig.with(&|| true, |from| rig.replica("second").open(had.take(), from, Writes::default()));
    assert!(opened.is_err());
    assert_eq!(numbers(&rig.open("second").unwrap().0), (0..15).collect::<Vec<_>>());
}

#[test]
fn nothing_is_left_of_a_shard_that_is_removed() {
    let rig = Rig::trimmed();
    let (records, _) = rig.follow("second", None, &|| false).unwrap();
    let left = || fs::read_dir(rig.dir.path().join("second")).unwrap().count();
    assert!(left() > 1);
    // A crash left these from an earlier removal, and from a view that was being built.
    for suffix in [".old", ".new"] {
        fs::create_dir_all(rig.replica("second").path(suffix).join("half")).unwrap();
    }
    rig.replica("second").remove(Some(records)).unwrap();
    assert_eq!(left(), 0);
    rig.replica("second").remove(None).unwrap();
    assert_eq!(numbers(&rig.open("second").unwrap().0).len(), 15);
}

#[test]
fn nobody_follows_across_a_repair_which_has_other_records() {
    for had in [true, false] {
        // It is trimmed to the entry, as a stream is.
        let mut rig = Rig::over(Arc::new(MemoryLog::new(&Start::new(LogId([3; 16])))));
        let records = rig.follow("second", None, &|| false).unwrap().0;
        let records = Some(records).filter(|_| had);
        let claimed = rig.repair_claims();
        let error = rig.follow("second", records, &|| false).err().unwrap();
        assert!(error.to_string().contains("a repair begins the shard anew"), "{error}");
        FjallView::wait_until_closed(&rig.replica("second").path("")).unwrap();
        let empty = rig.follow("third", None, &|| false).err().unwrap();
        assert!(matches!(empty, StoreError::Damaged(_)), "{empty:?}");
        rig.made = Made::of(vec![rig.repaired(&claimed, &[1, 19])]);
        rig.note_checkpoint(claimed.position);
        rig.log.trim(claimed.position).unwrap();
        for node in ["second", "third"] {
            assert_eq!(numbers(&rig.open(node).unwrap().0), [1, 19], "{node}");
        }
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
fn a_checkpoint_that_does_not_come_is_passed_over_and_nothing_is_given_up_for_it() {
    let mut rig = Rig::trimmed();
    rig.made.0[0].1.clear();
    let (store, snapshots, _) = rig.open("second").unwrap();
    assert_eq!(numbers(&store).len(), 15);
    assert_eq!(snapshots.load().unwrap().position, rig.made.0[1].0);
    rig.made.0[1].1.clear();
    let error = rig.open("third").err().unwrap();
    assert_eq!(error, StoreError::Failed("nothing came".to_owned()), "it may come later");
}

#[test]
fn whoever_follows_takes_the_states_of_a_newer_checkpoint_once() {
    let mut rig = Rig::new();
    let newer = rig.made.0.remove(0);
    let (older, end) = (rig.made.0[0].0, rig.log.tail().unwrap().last);
    let (records, _) = rig.follow("second", None, &|| false).unwrap();
    assert_eq!(records.states, older);
    rig.made.0.insert(0, (newer.0, Vec::new()));
    // It does not arrive, which fails nothing, and is not requested again.
    let (records, at) = rig.follow("second", Some(records), &|| false).unwrap();
    assert_eq!((at, records.states, records.newest), (end, older, newer.0));
    rig.made.0[0] = newer;
    let (records, _) = rig.follow("second", Some(records), &|| false).unwrap();
    assert_eq!(records.states, older);
    drop(records);
    FjallView::wait_until_closed(&rig.replica("second").path("")).unwrap();
    let (records, _) = rig.follow("second", None, &|| true).unwrap();
    assert_eq!(records.newest, older, "it was given up");
    let (records, _) = rig.follow("second", Some(records), &|| false).unwrap();
    assert_eq!(records.states, rig.made.0[0].0);
    assert_eq!(records.snapshots.load().unwrap().position, rig.made.0[0].0);
    let checkpoints = CheckpointDir::at(&rig.replica("second").path(".checkpoints"));
    assert_eq!(checkpoints.all().unwrap(), [], "what was fetched is of no more use");
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
        // The log starts behind a repair, or it has lost its end.
        let start = Start { after: Position(3), epoch, ..Start::new(LogId([3; 16])) };
        let log = Arc::new(CrashingLog::with_options(start, FileOptions::default()).unwrap());
        postrider_log::claim(&*log, &claim_of("repair"), 0).unwrap();
        (rig.log, rig.made) = (log, Made::of(Vec::new()));
        let snapshots = SnapshotDir::open(rig.dir.path().join("first").join("3.snapshots"));
        let snapshots = snapshots.unwrap();
        snapshots.write(Position(9), std::iter::empty()).unwrap();
        match rig.open("first").err().unwrap() {
            // It looked for a checkpoint.
            StoreError::Damaged(why) if is_anew => assert!(why.contains("a repair"), "{why}"),
            StoreError::Lost { .. } if !is_anew => {}
            other => panic!("epoch {epoch}: {other:?}"),
        }
        // The states that were given up are removed before there is a view that they would match.
        let left = snapshots.load().unwrap().position;
        assert_eq!(left, if is_anew { Position::START } else { Position(9) });
    }
}

#[test]
fn a_build_ends_when_the_node_stops_and_begins_anew_later() {
    let rig = Rig::trimmed();
    let mut ended = 0;
    loop {
        rig.made.1.0.set(Some(ended));
        match rig.open("second") {
            Err(StoreError::Failed(why)) => assert!(why.contains("not read to its end"), "{why}"),
            Err(error) => panic!("{error}"),
            Ok((store, ..)) => {
                assert_eq!(numbers(&store), (0..15).collect::<Vec<_>>());
                break;
            }
        }
        ended += 1;
    }
    assert!(ended >= 2, "the states are read, and then the records");
}
