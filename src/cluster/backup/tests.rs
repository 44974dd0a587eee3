//! Tests that a shard that is trimmed during a copy is copied all the same.

use std::sync::{Arc, Mutex};

use postrider_actors::store::postrider_log::{Claim, claim};
use postrider_cluster::checkpoints::{
    Archives, CheckpointRecord, Digest, FakeArchives, GivesUp, ShardCheckpoints,
};
use postrider_cluster::clock::BootClock;
use postrider_cluster::coordination::FakeCoordination;
use postrider_cluster::log::{FakeStream, ReplicatedLog, ReplicatedOptions};

use super::*;

const LOG: LogId = LogId([7; 16]);

/// The shard of an owner that writes, stores checkpoints and trims its log.
#[derive(Debug, Clone)]
struct Owner {
    stream: FakeStream,
    bucket: FakeCoordination,
    archives: FakeArchives,
}

impl Owner {
    fn new() -> Self {
        let bucket = FakeCoordination::new(Arc::new(BootClock));
        let (stream, archives) = (FakeStream::default(), FakeArchives::default());
        let owner = Self { stream, bucket, archives };
        (0..3).for_each(|_| owner.checkpoint());
        owner
    }

    fn log(&self) -> ReplicatedLog {
        let (stream, clock) = (Arc::new(self.stream.clone()), Arc::new(BootClock));
        ReplicatedLog::open(LOG, 0, stream, clock, ReplicatedOptions::default()).unwrap()
    }

    fn checkpoints(&self, archives: Arc<dyn Archives>) -> ShardCheckpoints {
        ShardCheckpoints::new(0, Arc::new(self.bucket.clone()), archives, 1 << 20)
    }

    /// Claims the shard, stores a checkpoint, and trims the log to the one before it.
    fn checkpoint(&self) {
        let log = self.log();
        let by = Claim {
            node: "a".to_owned(),
            incarnation: [1; 16],
            program: "1".to_owned(),
            readable_from: 1,
        };
        claim(&log, &by, 0).unwrap();
        let tail = log.tail().unwrap();
        let at = Mark { position: tail.last, epoch: tail.epoch, hash: tail.hash };
        let header = ArchiveHeader {
            log: LOG,
            shard: 0,
            at,
            time_ms: 0,
            keys: Vec::new(),
            program: "1".to_owned(),
        };
        let file = tempfile::NamedTempFile::new().unwrap();
        let archive = ArchiveWriter::new(file.as_file(), &header).unwrap();
        archive.finish().unwrap();
        let record = CheckpointRecord {
            position: at.position.0,
            epoch: at.epoch,
            hash: at.hash.0,
            time_ms: 0,
            node: "a".to_owned(),
            incarnation: [1; 16],
            digest: Digest::of_file(file.path()).unwrap(),
        };
        let checkpoints = self.checkpoints(Arc::new(self.archives.clone()));
        let needed = checkpoints.keep(&record, file.path(), &|| false).unwrap();
        log.trim(needed).unwrap();
    }
}

/// Archives that read so slowly that the owner makes two checkpoints meanwhile, this many times.
#[derive(Debug)]
struct Slow {
    owner: Owner,
    times: Mutex<usize>,
    /// Set if the requested checkpoint has been removed by then.
    is_missing: bool,
}

impl Archives for Slow {
    fn put(&self, name: &str, file: &Path, gives_up: GivesUp<'_>) -> Result<(), CheckpointsError> {
        self.owner.archives.put(name, file, gives_up)
    }

    fn get(
        &self,
        name: &str,
        to: Option<&Path>,
        gives_up: GivesUp<'_>,
    ) -> Result<Digest, CheckpointsError> {
        let read = self.owner.archives.get(name, to, gives_up);
        let mut times = self.times.lock().unwrap();
        if *times == 0 {
            return read;
        }
        *times -= 1;
        (0..3).for_each(|_| self.owner.checkpoint());
        if self.is_missing { self.owner.archives.get(name, to, gives_up) } else { read }
    }

    fn keep_only(&self, shard: u16, names: &[String], epoch: u64) -> Result<(), CheckpointsError> {
        self.owner.archives.keep_only(shard, names, epoch)
    }
}

fn copied(owner: &Owner, times: usize, is_missing: bool) -> Result<ShardBackup, CopyError> {
    let dir = tempfile::tempdir().unwrap();
    let slow = Slow { owner: owner.clone(), times: times.into(), is_missing };
    let checkpoints = owner.checkpoints(Arc::new(slow));
    copy(&ShardCopy { shard: 0, log: owner.log(), checkpoints }, dir.path())
}

#[test]
fn a_log_that_is_trimmed_while_a_checkpoint_is_fetched_is_not_lost() {
    for (times, is_missing) in [(0, false), (1, false), (4, false), (1, true), (5, true)] {
        let owner = Owner::new();
        let copied = copied(&owner, times, is_missing).unwrap_or_else(|error| {
            panic!("{times} times, gone {is_missing}: {error}");
        });
        assert_eq!(copied.position, owner.log().tail().unwrap().last.0);
    }
}

#[test]
fn a_log_whose_beginning_is_in_no_checkpoint_is_lost() {
    let owner = Owner::new();
    for name in owner.archives.names() {
        owner.archives.flip(&name, 0);
    }
    let error = copied(&owner, 0, false).unwrap_err();
    assert_eq!(error.code(), "LOST", "{error}");
}
