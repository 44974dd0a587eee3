//! Tests of the nodes while a shard is repaired, and of the nodes that have stopped.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use super::*;
use crate::coordination::{CoordinationError, KeyValue};

type Deed = Box<dyn FnOnce() + Send>;

/// A bucket that runs a callback once a key was written, or read.
struct Meanwhile {
    bucket: Arc<dyn Coordination>,
    written: Mutex<Option<(String, Deed)>>,
    read: Mutex<Option<(String, Deed)>>,
}

impl std::fmt::Debug for Meanwhile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.bucket.fmt(f)
    }
}

fn happens(deed: &Mutex<Option<(String, Deed)>>, key: &str) {
    let deed = deed.lock().take_if(|(of, _)| of == key);
    if let Some((_, deed)) = deed {
        deed();
    }
}

impl Coordination for Meanwhile {
    fn write(
        &self,
        key: &str,
        value: Bytes,
        expected: u64,
        ttl_seconds: Option<u64>,
    ) -> Result<Option<u64>, CoordinationError> {
        let written = self.bucket.write(key, value, expected, ttl_seconds);
        happens(&self.written, key);
        written
    }

    fn read(&self, key: &str) -> Result<Option<KeyValue>, CoordinationError> {
        let read = self.bucket.read(key);
        happens(&self.read, key);
        read
    }

    fn keys(&self, prefix: &str) -> Result<BTreeMap<String, KeyValue>, CoordinationError> {
        self.bucket.keys(prefix)
    }

    fn made_at(&self) -> Result<u64, CoordinationError> {
        self.bucket.made_at()
    }
}

impl Rig {
    /// Returns a repair of the same shard that runs `deed` once the key was written or read.
    fn meanwhile(self: &Arc<Self>, key: &str, on_write: bool, deed: fn(&Self)) -> ShardRepair {
        let rig = self.clone();
        let deed: Option<(String, Deed)> = Some((key.to_owned(), Box::new(move || deed(&rig))));
        let (written, read) = if on_write { (deed, None) } else { (None, deed) };
        let (written, read) = (Mutex::new(written), Mutex::new(read));
        let bucket = Arc::new(Meanwhile { bucket: self.bucket.clone(), written, read });
        let archives = Arc::new(self.archives.clone());
        let checkpoints = ShardCheckpoints::new(0, bucket.clone(), archives, 1 << 20);
        ShardRepair { bucket, checkpoints, ..self.repair(9) }
    }
}

#[test]
fn a_repair_that_did_not_claim_leaves_no_mark() {
    let owns = |rig: &Rig| rig.report("b", Standing::Owned, 5);
    for (deed, code) in [(owns as fn(&Rig), "IN_USE"), (append_as_owner, "REPLACED")] {
        let rig = Arc::new(Rig::new());
        for begun_before in [false, true] {
            rig.stream.lose(1);
            let mut repair = rig.meanwhile("repair.0", true, deed);
            let finding = rig.find(&repair);
            let error = repair.claim(&finding, 7).unwrap_err().to_string();
            assert!(error.starts_with(code), "{error}");
            assert!(!is_under_way(&*rig.bucket, 0).unwrap(), "{code}: nodes claim it still");
            rig.report("b", Standing::Following, 5);
            if begun_before {
                break;
            }
            // The mark of an earlier repair is still valid.
            let mut repair = rig.repair(1);
            let finding = rig.find(&repair);
            let claimed = repair.claim(&finding, 7).unwrap();
            let epoch = claimed.at.epoch;
            repair.finish(claimed, &rig.archive()).unwrap();
            (0..3).for_each(|number| rig.write(number));
            assert_eq!(repaired_in(&*rig.bucket, 0), Ok(Some(epoch)));
        }
        assert!(repaired_in(&*rig.bucket, 0).unwrap().is_some_and(|epoch| epoch > 1_000));
    }
}

#[test]
fn a_repair_that_did_not_claim_leaves_the_mark_of_one_that_ended_in_the_midst() {
    let rig = Arc::new(Rig::new());
    rig.stream.lose(3);
    let mut first = rig.repair(1);
    let finding = rig.find(&first);
    first.claim(&finding, 7).unwrap();
    let mut second = rig.meanwhile("repair.0", true, append_as_owner);
    let finding = rig.find(&second);
    assert!(matches!(second.claim(&finding, 7), Err(RepairError::Replaced(0))));
    assert!(is_under_way(&*rig.bucket, 0).unwrap());
}

#[test]
fn a_whole_shard_on_which_nodes_have_stopped_is_begun_anew_unless_one_serves_it() {
    let rig = Rig::new();
    rig.report("a", Standing::Stopped, 8);
    let finding = rig.find(&rig.repair(1));
    assert!(finding.is_whole() && finding.needs_repair() && !finding.loses(), "{finding:?}");
    assert!(finding.problems[0].starts_with("a has stopped"), "{finding:?}");
    rig.report("b", Standing::Owned, 8);
    let finding = rig.find(&rig.repair(1));
    assert!(!finding.needs_repair(), "{finding:?}");
    assert!(finding.advice()[0].ends_with("restart a"), "{finding:?}");
    rig.report("b", Standing::Following, 8);
    // The log continues with another epoch.
    append_as_owner(&rig);
    let mut repair = rig.repair(1);
    let finding = rig.find(&repair);
    assert!(finding.problems[1].contains("what a alone has of epoch 1"), "{finding:?}");
    let claimed = repair.claim(&finding, 7).unwrap();
    repair.finish(claimed, &rig.archive()).unwrap();
    assert!(!rig.find(&rig.repair(2)).needs_repair(), "it is known that it will begin anew");
}

#[test]
fn an_owner_that_keeps_a_checkpoint_meanwhile_is_looked_at_again() {
    let rig = Arc::new(Rig::new());
    rig.keep("at 8");
    rig.write(9);
    rig.keep("at 9");
    let repair = rig.meanwhile("checkpoints.0", false, |rig| {
        for number in 0..2 {
            rig.write(number);
            rig.keep("later");
        }
        rig.stream.purge_before(11).unwrap();
    });
    let finding = rig.find(&repair);
    assert!(!finding.needs_repair(), "{finding:?}");
    assert_eq!((finding.base.mark().position, finding.end), (Position(11), Position(11)));
}

#[test]
fn whoever_serves_the_shard_is_asked_for_a_checkpoint() {
    let rig = Rig::new();
    rig.stream.lose(3);
    rig.report("b", Standing::Owned, 8);
    let mut repair = rig.repair(1);
    let finding = rig.find(&repair);
    let error = repair.claim(&finding, 7).unwrap_err().to_string();
    assert!(error.contains("a checkpoint of the shard behind 8") && !error.contains("move"));
}
