//! Tests that a repair keeps the whole part and nothing unknown, and never runs beside an owner.

use std::io::Write as _;

use postrider_log::{Entry, Log as _, Tail, claim};

use super::*;
use crate::checkpoints::FakeArchives;
use crate::clock::StillClock;
use crate::coordination::{FakeCoordination, NodeRecord, encode, node_key};
use crate::log::{Published, ReplicatedLog, ReplicatedOptions};
use crate::name::NodeName;
use crate::shard::{Answer, Moment, Role, Shard, ShardInput, ShardOutput, ShardState};

mod branches;
mod meanwhile;
mod nodes;

const LOG: LogId = LogId([7; 16]);

/// A shard over fakes, on which several repairs may run at a time.
struct Rig {
    stream: FakeStream,
    bucket: Arc<dyn Coordination>,
    archives: FakeArchives,
    place: tempfile::TempDir,
}

impl Rig {
    /// Creates a log of a claim and seven groups.
    fn new() -> Self {
        let clock = Arc::new(StillClock::default());
        let rig = Self {
            stream: FakeStream::default(),
            bucket: Arc::new(FakeCoordination::new(clock)),
            archives: FakeArchives::default(),
            place: tempfile::tempdir().unwrap(),
        };
        let log = rig.log();
        claim(&log, &by("a"), 0).unwrap();
        (0..7).for_each(|number| append(&log, number));
        rig
    }

    fn log(&self) -> ReplicatedLog {
        let (stream, clock) = (Arc::new(self.stream.clone()), Arc::new(StillClock::default()));
        ReplicatedLog::open(LOG, 0, stream, clock, ReplicatedOptions::default()).unwrap()
    }

    fn checkpoints(&self) -> ShardCheckpoints {
        ShardCheckpoints::new(0, self.bucket.clone(), Arc::new(self.archives.clone()), 1 << 20)
    }

    fn repair(&self, incarnation: u8) -> ShardRepair {
        ShardRepair {
            shard: 0,
            id: LOG,
            stream: Arc::new(self.stream.clone()),
            missing: None,
            bucket: self.bucket.clone(),
            checkpoints: self.checkpoints(),
            clock: Arc::new(StillClock::default()),
            incarnation: [incarnation; 16],
            nodes: Vec::new(),
        }
    }

    /// Writes one more group with the epoch of the log's end.
    fn write(&self, number: u8) {
        let tail = self.log().tail().unwrap();
        let next = tail.next(tail.epoch);
        let entries = encode_commit(&next, Kind::Group, 9, &[number], 1_000).unwrap();
        assert_eq!(self.stream.publish(tail.last.0, &entries[0]), Published::Acknowledged);
    }

    fn base(&self) -> std::path::PathBuf {
        self.place.path().join("base")
    }

    fn find(&self, repair: &ShardRepair) -> Finding {
        repair.find(&self.base(), None).unwrap()
    }

    /// Writes the report of a node about the shard.
    fn report(&self, node: &str, state: Standing, position: u64) {
        let mut record = NodeRecord::owning(&[0]);
        (record.shards[0].state, record.shards[0].position) = (state, position);
        let key = node_key(&NodeName::new(node).unwrap());
        let revision = self.bucket.read(&key).unwrap().map_or(0, |kept| kept.revision);
        self.bucket.write(&key, encode(&key, &record).unwrap(), revision, None).unwrap();
    }

    /// Stores a checkpoint of the log's present end.
    fn keep(&self, text: &str) -> Tail {
        let tail = self.log().tail().unwrap();
        let file = self.place.path().join("made");
        std::fs::File::create(&file).unwrap().write_all(text.as_bytes()).unwrap();
        let record = CheckpointRecord {
            position: tail.last.0,
            epoch: tail.epoch,
            hash: tail.hash.0,
            time_ms: 5,
            node: "a".to_owned(),
            incarnation: [1; 16],
            digest: Digest::of_file(&file).unwrap(),
        };
        self.checkpoints().keep(&record, &file, &|| false).unwrap();
        tail
    }

    fn archive(&self) -> std::path::PathBuf {
        let file = self.place.path().join("archive");
        std::fs::write(&file, "what is whole").unwrap();
        file
    }
}

fn by(node: &str) -> Claim {
    let (node, program) = (node.to_owned(), "1".to_owned());
    Claim { node, incarnation: [1; 16], program, readable_from: 1 }
}

fn append(log: &ReplicatedLog, number: u8) {
    let tail = log.tail().unwrap();
    let next = tail.next(tail.epoch);
    let entries = encode_commit(&next, Kind::Group, 9, &[number], 1_000).unwrap();
    log.append(next.position, &entries).unwrap();
}

fn commits(repair: &ShardRepair, finding: &Finding) -> Vec<u64> {
    let mut seen = Vec::new();
    let mut visit = |commit: Commit| {
        seen.push(commit.position.0);
        Ok::<_, RepairError>(())
    };
    repair.commits(finding, &mut visit).unwrap();
    seen
}

#[test]
fn a_shard_that_is_whole_needs_nothing() {
    let rig = Rig::new();
    rig.report("a", Standing::Owned, 8);
    let finding = rig.find(&rig.repair(1));
    assert!(!finding.needs_repair() && finding.problems.is_empty(), "{finding:?}");
    assert_eq!((finding.end, finding.given_up()), (Position(8), None));
    rig.keep("at 8");
    let finding = rig.find(&rig.repair(1));
    assert!(!finding.needs_repair(), "{finding:?}");
    assert_eq!(finding.base.mark().position, Position(8));
}

#[test]
fn a_log_that_lost_its_end_begins_anew_behind_what_is_there() {
    let rig = Rig::new();
    rig.stream.lose(3);
    rig.report("a", Standing::Stopped, 8);
    let mut repair = rig.repair(1);
    let finding = rig.find(&repair);
    assert!(finding.needs_repair());
    assert_eq!(finding.end, Position(5));
    assert_eq!(finding.given_up(), Some((Position(6), Position(8))));
    assert_eq!(commits(&repair, &finding), [1, 2, 3, 4, 5]);
    let claimed = repair.claim(&finding, 7).unwrap();
    assert_eq!(claimed.at.position, Position(6));
    let claim = Entry::decode(rig.stream.message(6).unwrap().unwrap()).unwrap();
    let claim = Claim::decode(claim.body()).unwrap();
    assert_eq!(claim.readable_from, postrider_log::body::DATA_FORMAT);
    assert!(is_under_way(&*rig.bucket, 0).unwrap(), "nodes leave it alone");
    assert_eq!(repaired_in(&*rig.bucket, 0), Ok(None));
    let epoch = claimed.at.epoch;
    repair.finish(claimed, &rig.archive()).unwrap();
    assert!(!is_under_way(&*rig.bucket, 0).unwrap());
    assert_eq!(repaired_in(&*rig.bucket, 0), Ok(Some(epoch)));
    assert_eq!(rig.log().tail().unwrap().first, Position(7), "nothing before it is read again");
    // The nodes' reports are from before the repair.
    let finding = rig.find(&rig.repair(2));
    assert!(!finding.needs_repair(), "{finding:?}");
    assert_eq!(std::fs::read_to_string(rig.base()).unwrap(), "what is whole");
    goes_on(&rig, epoch);
}

/// Checks that a node that had stopped starts again and follows the log to its end.
fn goes_on(rig: &Rig, epoch: u64) {
    let (me, identity) = (NodeName::new("b").unwrap(), [1; 16]);
    let identity = crate::name::Identity { directory: identity, incarnation: identity };
    let mut shard = Shard::new(me, identity, LOG, 0);
    let moment = |now| Moment { now, term: None, engine_ms: 0 };
    let asked = |outputs: Vec<ShardOutput>| match outputs.into_iter().next() {
        Some(ShardOutput::Ask(ticket, _)) => ticket,
        other => panic!("{other:?}"),
    };
    shard.step(moment(0), ShardInput::Role(Role::Standby(0)));
    let ticket = asked(shard.step(moment(1), ShardInput::Tick));
    let first = Position(9);
    shard.step(moment(2), ShardInput::Answered(ticket, Answer::Unrestorable { first }));
    assert_eq!(shard.state(), ShardState::Stopped);
    let ticket = asked(shard.step(moment(5_000), ShardInput::Tick));
    shard.step(moment(5_001), ShardInput::Answered(ticket, Answer::Repaired { epoch }));
    assert_eq!((shard.state(), shard.stop_reason()), (ShardState::Absent, None));
    let ticket = asked(shard.step(moment(5_002), ShardInput::Tick));
    let newest = rig.checkpoints().list().unwrap().remove(0).replica(LOG, 0, 2).unwrap();
    let restored = Answer::Restored(Box::new(newest));
    shard.step(moment(5_003), ShardInput::Answered(ticket, restored));
    let note = rig.stream.message(7).unwrap().unwrap();
    let last = Position(7);
    let ticket = asked(shard.step(moment(9_000), ShardInput::Tick));
    let entries = Answer::Entries { entries: vec![note], last };
    shard.step(moment(9_001), ShardInput::Answered(ticket, entries));
    assert_eq!((shard.state(), shard.chain().last()), (ShardState::Following, last));
}

#[test]
fn nothing_behind_an_entry_that_does_not_fit_is_kept() {
    let rig = Rig::new();
    let good = rig.stream.message(8).unwrap().unwrap();
    rig.stream.flip(40);
    // An entry follows it, which the owner wrote before the bit flipped.
    let header = Entry::decode(good.clone()).unwrap().header;
    let next = Next {
        log: LOG,
        shard: 0,
        position: Position(9),
        epoch: header.epoch,
        prev: EntryHash::of(&good),
    };
    let behind = encode_commit(&next, Kind::Group, 9, b"x", 1_000).unwrap();
    rig.stream.publish(8, &behind[0]);
    let mut repair = rig.repair(1);
    let finding = rig.find(&repair);
    assert_eq!((finding.end, finding.given_up()), (Position(7), Some((Position(8), Position(9)))));
    assert!(finding.problems.iter().any(|it| it.contains("entry 8")), "{finding:?}");
    assert_eq!(commits(&repair, &finding).last(), Some(&7));
    let claimed = repair.claim(&finding, 9).unwrap();
    assert_eq!(claimed.at.position, Position(10));
    repair.finish(claimed, &rig.archive()).unwrap();
    assert!(!rig.find(&rig.repair(2)).needs_repair());
}

#[test]
fn what_followed_a_checkpoint_that_has_more_than_the_log_is_not_known() {
    let rig = Rig::new();
    rig.keep("at 8");
    rig.stream.lose(3);
    let mut repair = rig.repair(1);
    let finding = rig.find(&repair);
    assert!(finding.needs_repair());
    assert_eq!((finding.end, finding.given_up()), (Position(8), None));
    assert!(finding.loses(), "the owner may have appended more");
    assert_eq!(finding.unknown_behind(), Some(Position(8)));
    assert!(commits(&repair, &finding).is_empty());
    let claimed = repair.claim(&finding, 9).unwrap();
    assert_eq!(claimed.at.position, Position(6), "the log has no gaps");
    repair.finish(claimed, &rig.archive()).unwrap();
    assert!(!rig.find(&rig.repair(2)).needs_repair());
}

#[test]
fn a_shard_that_is_served_or_written_meanwhile_is_left_alone() {
    let rig = Rig::new();
    rig.stream.lose(3);
    rig.report("a", Standing::Stopped, 8);
    rig.report("b", Standing::Owned, 5);
    let mut repair = rig.repair(1);
    let finding = rig.find(&repair);
    let error = repair.claim(&finding, 7).unwrap_err();
    assert!(error.to_string().starts_with("IN_USE: the node b serves shard 0"), "{error}");
    assert!(!is_under_way(&*rig.bucket, 0).unwrap(), "nothing has begun");
    rig.report("b", Standing::Following, 5);
    append_as_owner(&rig);
    let error = repair.claim(&finding, 7).unwrap_err();
    assert!(matches!(error, RepairError::Replaced(0)), "{error}");
    assert_eq!(rig.log().tail().unwrap().last, Position(6), "nothing was written over");
}

fn append_as_owner(rig: &Rig) {
    claim(&rig.log(), &by("b"), 0).unwrap();
}

#[test]
fn a_repair_that_ended_in_the_midst_is_run_again_and_one_that_was_replaced_ends_nothing() {
    let rig = Rig::new();
    rig.stream.lose(3);
    rig.report("a", Standing::Stopped, 8);
    let mut first = rig.repair(1);
    let finding = rig.find(&first);
    let left = first.claim(&finding, 7).unwrap();
    let mut second = rig.repair(2);
    let finding = rig.find(&second);
    assert!(finding.is_unfinished && finding.needs_repair(), "{finding:?}");
    assert_eq!(finding.end, Position(6), "the claim follows what is whole");
    let claimed = second.claim(&finding, 7).unwrap();
    let error = first.finish(left, &rig.archive()).unwrap_err();
    assert!(matches!(error, RepairError::Replaced(0)), "{error}");
    assert!(is_under_way(&*rig.bucket, 0).unwrap());
    second.finish(claimed, &rig.archive()).unwrap();
    assert!(!rig.find(&rig.repair(3)).needs_repair());
}

#[test]
fn without_anything_to_begin_with_a_backup_is_asked_for() {
    let rig = Rig::new();
    rig.keep("at 8");
    let end = rig.keep_more();
    rig.stream.purge_before(9).unwrap();
    for name in rig.archives.names() {
        rig.archives.flip(&name, 0);
    }
    let repair = rig.repair(1);
    let error = repair.find(&rig.base(), None).unwrap_err();
    assert!(error.to_string().contains("--from"), "{error}");
    let mark = |tail: &Tail| Mark { position: tail.last, epoch: tail.epoch, hash: tail.hash };
    let finding = repair.find(&rig.base(), Some(mark(&end))).unwrap();
    assert!(finding.needs_repair() && finding.given_up().is_none(), "{finding:?}");
    assert_eq!(finding.base, Base::Backup(mark(&end)));
    assert_eq!(finding.end, rig.log().tail().unwrap().last);
}

impl Rig {
    /// Appends one more group, stores a checkpoint there, and appends one more group.
    fn keep_more(&self) -> Tail {
        claim(&self.log(), &by("a"), 0).unwrap();
        let end = self.keep("at 9");
        claim(&self.log(), &by("a"), 0).unwrap();
        end
    }
}
