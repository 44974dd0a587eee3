//! Tests of which checkpoints are kept, and of the handling of damaged ones.

use std::path::PathBuf;

use tempfile::TempDir;

use super::*;
use crate::clock::StillClock;
use crate::coordination::FakeCoordination;

struct Rig {
    dir: TempDir,
    bucket: Arc<FakeCoordination>,
    archives: FakeArchives,
}

impl Rig {
    fn new() -> Self {
        let bucket = Arc::new(FakeCoordination::new(Arc::new(StillClock::default())));
        Self { dir: tempfile::tempdir().unwrap(), bucket, archives: FakeArchives::default() }
    }

    fn of(&self, shard: u16) -> ShardCheckpoints {
        ShardCheckpoints::new(shard, self.bucket.clone(), Arc::new(self.archives.clone()), 1 << 20)
    }

    fn file(&self, position: u64) -> PathBuf {
        let path = self.dir.path().join(position.to_string());
        std::fs::write(&path, format!("everything up to {position}")).unwrap();
        path
    }

    fn record(&self, position: u64, epoch: u64) -> CheckpointRecord {
        CheckpointRecord {
            position,
            epoch,
            hash: [3; 16],
            time_ms: 7,
            node: "pr-1".to_owned(),
            incarnation: [1; 16],
            digest: Digest::of_file(&self.file(position)).unwrap(),
        }
    }

    fn keep(&self, position: u64) -> Result<Position, CheckpointsError> {
        let record = self.record(position, 4);
        self.of(0).keep(&record, &self.file(position), &|| false)
    }

    fn positions(&self) -> Vec<u64> {
        self.of(0).list().unwrap().iter().map(|it| it.position).collect()
    }

    fn damage(&self, position: u64) {
        self.archives.flip(&self.of(0).name(&self.record(position, 4)), 3);
    }
}

#[test]
fn the_log_stays_whole_until_there_are_two_and_then_leads_on_from_the_older() {
    let rig = Rig::new();
    assert_eq!(rig.keep(10), Ok(Position::START));
    assert_eq!(rig.keep(20), Ok(Position(10)));
    assert_eq!(rig.keep(30), Ok(Position(20)));
    assert_eq!(rig.positions(), [30, 20]);
    assert_eq!(rig.archives.names().len(), 2);
    let listed = rig.of(0).list().unwrap();
    let to = rig.dir.path().join("fetched");
    rig.of(0).fetch(&listed[0], &to, &|| false).unwrap();
    assert_eq!(std::fs::read(to).unwrap(), b"everything up to 30");
    assert_eq!(rig.of(1).list().unwrap(), []);
    let stopping = rig.of(0).of_node(Arc::new(AtomicBool::new(true)));
    let fetched = stopping.fetch(&listed[0], &rig.dir.path().join("given up"), &|| false);
    assert!(matches!(fetched, Err(CheckpointsError::Failed(_))), "{fetched:?}");
    let fetched = rig.of(0).fetch(&listed[0], &rig.dir.path().join("given up"), &|| true);
    assert!(matches!(fetched, Err(CheckpointsError::Failed(_))), "{fetched:?}");
}

#[test]
fn a_damaged_one_is_not_counted_on() {
    let rig = Rig::new();
    rig.keep(10).unwrap();
    rig.keep(20).unwrap();
    rig.damage(20);
    let newest = rig.of(0).list().unwrap().remove(0);
    let fetched = rig.of(0).fetch(&newest, &rig.dir.path().join("fetched"), &|| false);
    assert!(matches!(fetched, Err(CheckpointsError::Damaged { .. })), "{fetched:?}");
    assert_eq!(rig.keep(30), Ok(Position(10)), "the whole one before is kept");
    assert_eq!(rig.positions(), [30, 10]);
    rig.damage(30);
    rig.damage(10);
    assert_eq!(rig.keep(40), Ok(Position::START), "nothing is trimmed for one alone");
    assert_eq!(rig.positions(), [40]);
}

#[test]
fn one_that_does_not_come_is_passed_over_for_a_whole_one_and_never_given_up_for_nothing() {
    let rig = Rig::new();
    rig.keep(10).unwrap();
    rig.keep(20).unwrap();
    let stall = |at: u64| rig.archives.stall(&rig.of(0).name(&rig.record(at, 4)));
    stall(20);
    assert_eq!(rig.keep(30), Ok(Position(10)), "the log goes on being trimmed");
    assert_eq!(rig.positions(), [30, 10]);
    stall(30);
    stall(10);
    assert!(matches!(rig.keep(40), Err(CheckpointsError::Slow(_))));
    assert_eq!(rig.positions(), [30, 10], "both may be whole");
    assert_eq!(rig.archives.names().len(), 2, "nothing is stored that nobody lists");
}

#[test]
fn an_owner_that_was_replaced_changes_nothing() {
    let rig = Rig::new();
    rig.keep(10).unwrap();
    let newer = rig.record(20, 5);
    rig.of(0).keep(&newer, &rig.file(20), &|| false).unwrap();
    assert_eq!(rig.keep(15), Err(CheckpointsError::Replaced));
    assert_eq!(rig.positions(), [20, 10]);
    // This owner has read the list before the other one wrote it.
    let (before, revision) = rig.of(0).read().unwrap();
    rig.of(0).keep(&rig.record(30, 5), &rig.file(30), &|| false).unwrap();
    assert_eq!(rig.of(0).write(&before, revision), Err(CheckpointsError::Replaced));
    assert_eq!(rig.positions(), [30, 20]);
}

/// Archives whose owner pauses before it removes the archives that it no longer lists.
#[derive(Debug)]
struct Paused {
    archives: FakeArchives,
    next: ShardCheckpoints,
    stored: Vec<(CheckpointRecord, PathBuf)>,
}

impl Archives for Paused {
    fn put(&self, name: &str, file: &Path, gives_up: GivesUp<'_>) -> Result<(), CheckpointsError> {
        self.archives.put(name, file, gives_up)
    }

    fn get(
        &self,
        name: &str,
        to: Option<&Path>,
        gives_up: GivesUp<'_>,
    ) -> Result<Digest, CheckpointsError> {
        self.archives.get(name, to, gives_up)
    }

    fn keep_only(&self, shard: u16, names: &[String], epoch: u64) -> Result<(), CheckpointsError> {
        for (record, file) in &self.stored {
            self.next.keep(record, file, &|| false)?;
        }
        self.archives.keep_only(shard, names, epoch)
    }
}

#[test]
fn an_owner_that_paused_removes_nothing_of_the_next_one() {
    for alone in [false, true] {
        let rig = Rig::new();
        rig.keep(10).unwrap();
        let stored = [30, 40].map(|at| (rig.record(at, 5), rig.file(at))).to_vec();
        let (archives, next) = (rig.archives.clone(), rig.of(0));
        let paused = Arc::new(Paused { archives, next, stored });
        let own = ShardCheckpoints::new(0, rig.bucket.clone(), paused, 1 << 20);
        let (record, file) = (rig.record(20, 4), rig.file(20));
        if alone {
            own.keep_alone(&record, &file, &|| true).unwrap();
        } else {
            own.keep(&record, &file, &|| false).unwrap();
        }
        assert_eq!(rig.positions(), [40, 30]);
        for listed in rig.of(0).list().unwrap() {
            rig.of(0).fetch(&listed, &rig.dir.path().join("fetched"), &|| false).unwrap();
        }
    }
}

#[test]
fn what_is_listed_reports_who_owned_the_shard() {
    let rig = Rig::new();
    rig.keep(10).unwrap();
    let listed = rig.of(0).list().unwrap();
    let replica = listed[0].replica(LogId([9; 16]), 0, 2).unwrap();
    assert_eq!(replica.chain().last(), Position(10));
    assert_eq!((replica.chain().epoch(), replica.time_ms()), (4, 7));
    assert_eq!(replica.owner().unwrap().node.as_str(), "pr-1");
    assert_eq!(replica.checkpoint(), Some(Position(10)));
}

#[test]
fn a_list_of_an_earlier_version_is_read_and_one_of_a_newer_version_is_refused() {
    let rig = Rig::new();
    let key = checkpoints_key(0);
    let there = || rig.bucket.read(&key).unwrap().unwrap();
    let earlier = encode(&key, &[rig.record(10, 4)]).unwrap();
    rig.archives.put(&rig.of(0).name(&rig.record(10, 4)), &rig.file(10), &|| false).unwrap();
    rig.bucket.write(&key, earlier, 0, None).unwrap().unwrap();
    assert_eq!(rig.positions(), [10]);
    assert_eq!(rig.keep(20), Ok(Position(10)));
    assert_eq!(rig.positions(), [20, 10]);
    // A version that knows only format 1 takes nothing over.
    let unreadable = decode::<Vec<CheckpointRecord>>(&key, &there().value).unwrap_err();
    assert!(unreadable.to_string().contains("expected a sequence"), "{unreadable}");
    let newer = Listed { readable_from: DATA_FORMAT + 1, listed: Cow::Owned(Vec::new()) };
    let revision = there().revision;
    rig.bucket.write(&key, encode(&key, &newer).unwrap(), revision, None).unwrap().unwrap();
    let refused = rig.of(0).list().unwrap_err().to_string();
    let expected = "the checkpoints were written by a newer version: data format 2 is not known";
    assert_eq!(refused, expected);
}
