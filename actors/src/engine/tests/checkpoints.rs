//! With checkpoints the view can be deleted at any time, and so can the snapshots.

use std::path::Path;

use parking_lot::Mutex;
use tempfile::TempDir;

use crate::engine::checkpoints::CheckpointAttempt;
use crate::{CheckpointKeeper, Durability, KeptCheckpoint, OtpState, Replica, StartError};
use postrider_store::checkpoints::Made;
use postrider_store::postrider_log::{Log, LogId, MemoryLog, Start};
use postrider_store::replica::{Bases, Fetched, ReplicaDir, ReplicaSource};
use postrider_store::{
    CheckpointDir, CheckpointError, FjallOptions, FreeSpace, LogStore, Position, StoreError, Writes,
};

use super::snapshots::{generations, position};
use super::*;

/// A size so small that trimming has an effect at once: a segment has a header of 4 KiB.
const SEGMENT_BYTES: u64 = 5 * 1024;

fn options(dir: &Path) -> EngineOptions {
    EngineOptions {
        clock: Clock::manual(START),
        snapshot_journal_bytes: 1,
        segment_bytes: SEGMENT_BYTES,
        checkpoint_log_bytes: Some(1),
        ..EngineOptions::on_disk(dir, MasterKeys::single([7; 32]))
    }
}

/// Starts on a directory, which an engine that was just dropped may still hold for a moment.
async fn try_start(dir: &Path) -> Result<Engine, StartError> {
    let watch = Stopwatch::start();
    loop {
        match Engine::start(options(dir)).await {
            Err(StartError::Locked) if watch.elapsed() < Duration::from_secs(60) => {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            ended => return ended,
        }
    }
}

async fn start(dir: &Path) -> Engine {
    try_start(dir).await.unwrap_or_else(|error| panic!("{error}"))
}

async fn consider(engine: &Engine) -> CheckpointAttempt {
    let checkpoints = engine.inner.checkpoints.clone().unwrap();
    tokio::task::spawn_blocking(move || checkpoints.consider()).await.unwrap()
}

/// Returns the positions of the checkpoints, oldest first.
fn made(dir: &TempDir) -> Vec<u64> {
    let all = postrider_store::directory::checkpoints(dir.path()).all().unwrap();
    all.iter().rev().map(|checkpoint| checkpoint.position.0).collect()
}

fn first_entry(engine: &Engine) -> u64 {
    engine.shared().recovered.log().begins_after().unwrap().next().0
}

/// Sends to phones, with a checkpoint after each.
async fn some(
    engine: &Engine,
    workspace: &Workspace,
    phones: std::ops::Range<u32>,
) -> Vec<RequestId> {
    let mut requests = Vec::new();
    for number in phones {
        let to = phone(number);
        let request = workspace.send_otp(SendOtp::to(to)).await.unwrap().request_id;
        workspace.verify_otp(request, "wrong").await.unwrap();
        until("it is sent", async || {
            workspace.otp(request).await.is_ok_and(|otp| otp.delivery == crate::Delivery::Sent)
        })
        .await;
        requests.push(request);
        // The thread may have been first.
        consider(engine).await;
    }
    requests
}

async fn states(engine: &Engine, requests: &[RequestId]) -> Vec<OtpState> {
    let workspace = engine.workspace(&id("acme")).unwrap();
    let mut states = Vec::new();
    for request in requests {
        states.push(workspace.otp(*request).await.unwrap());
    }
    states
}

/// Returns a directory whose log was trimmed, the requests and their states.
async fn stopped(dir: &TempDir) -> (Vec<RequestId>, Vec<OtpState>) {
    let engine = start(dir.path()).await;
    let acme = workspace(&engine, "acme", 100).await;
    let mut requests = some(&engine, &acme, 1..6).await;
    for number in 6..80 {
        let two = generations(dir).len() == 2 && made(dir).len() == 2;
        if two && first_entry(&engine) > 1 {
            break;
        }
        requests.extend(some(&engine, &acme, number..number + 1).await);
    }
    assert!(first_entry(&engine) > 1, "the log is not trimmed");
    assert!(first_entry(&engine) <= made(dir)[0] + 1, "what the older one needs is there");
    requests.extend(some(&engine, &acme, 90..91).await);
    let before = states(&engine, &requests).await;
    engine.shutdown(LONG).await.unwrap();
    // The files belong to the test alone once nothing has them open any more.
    let store = Arc::downgrade(&engine.inner.shared.store);
    drop((engine, acme));
    until("the store is closed", async || store.strong_count() == 0).await;
    (requests, before)
}

async fn is_whole(dir: &TempDir, requests: &[RequestId], before: &[OtpState]) {
    let engine = start(dir.path()).await;
    assert_eq!(states(&engine, requests).await, before);
    assert_eq!(credits(&engine, "acme").await, 100 - requests.len() as u64);
    let acme = engine.workspace(&id("acme")).unwrap();
    assert_eq!(log(&acme).await.len(), requests.len());
    let last = *requests.last().unwrap();
    let right = code(acme.id(), last, phone(90));
    assert_eq!(acme.verify_otp(last, &right).await, Ok(Verification::Verified));
    engine.shutdown(LONG).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_deleted_view_and_deleted_snapshots_cost_nothing_but_time() {
    for deleted in [&["view"][..], &["snapshots"], &["view", "snapshots"]] {
        let dir = tempfile::tempdir().unwrap();
        let (requests, before) = stopped(&dir).await;
        for name in deleted {
            std::fs::remove_dir_all(dir.path().join(name)).unwrap();
        }
        is_whole(&dir, &requests, &before).await;
        let snapshots = generations(&dir);
        assert!(!snapshots.is_empty() && position(&snapshots[0]) > 0);
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_whole_checkpoint_a_start_without_its_view_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    stopped(&dir).await;
    for checkpoint in postrider_store::directory::checkpoints(dir.path()).all().unwrap() {
        let mut bytes = std::fs::read(&checkpoint.path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 4;
        std::fs::write(&checkpoint.path, bytes).unwrap();
    }
    std::fs::remove_dir_all(dir.path().join("view")).unwrap();
    let refused = try_start(dir.path()).await.unwrap_err().to_string();
    assert!(refused.contains("no whole checkpoint"), "{refused}");
    assert!(refused.contains("postrider restore"), "{refused}");
}

/// A disk with this many free bytes.
#[derive(Debug)]
struct Free(u64);

impl FreeSpace for Free {
    fn free_bytes(&self) -> Result<u64, postrider_store::StoreError> {
        Ok(self.0)
    }
}

#[tokio::test(start_paused = true)]
async fn none_is_made_that_the_disk_has_no_room_for() {
    let dir = tempfile::tempdir().unwrap();
    let free_space: Option<Arc<dyn FreeSpace>> = Some(Arc::new(Free(999)));
    let few = EngineOptions { free_bytes_min: 1_000, free_space, ..options(dir.path()) };
    let engine = Engine::start(few).await.unwrap();
    assert_eq!(consider(&engine).await, CheckpointAttempt::Failed);
    assert_eq!(std::fs::read_dir(dir.path().join("checkpoints")).unwrap().count(), 0);
    engine.shutdown(LONG).await.unwrap();
    drop(engine);
    let engine = start(dir.path()).await;
    until("there is one", async || {
        consider(&engine).await;
        !made(&dir).is_empty()
    })
    .await;
    let figures = engine.inner.checkpoints.as_ref().unwrap().figures();
    let (age, bytes) = figures.read(engine.clock().now()).unwrap();
    assert!(age < Duration::from_secs(60) && bytes > 0, "{age:?} {bytes}");
    engine.shutdown(LONG).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_the_older_checkpoint_needs_stays_whatever_snapshots_cover() {
    let dir = tempfile::tempdir().unwrap();
    let engine = start(dir.path()).await;
    let acme = workspace(&engine, "acme", 100).await;
    for number in 1..9 {
        some(&engine, &acme, number..number + 1).await;
        // Snapshots are taken meanwhile, and trim the log.
        tokio::time::sleep(Duration::from_secs(5)).await;
        let first = first_entry(&engine);
        if let [.., older, _] = made(&dir)[..] {
            assert!(first <= older + 1, "{first} is behind {older}");
        }
    }
    assert!(first_entry(&engine) > 1, "nothing is trimmed");
    engine.shutdown(LONG * 1_000).await.unwrap();
}

/// The bytes of the whole log above which checkpoints are made.
const WHOLE_LOG_BYTES_MAX: u64 = 16 * 1024;

/// Lists checkpoints and drops their bytes, the newest one last.
#[derive(Default, Clone)]
struct Listing(Arc<Mutex<Vec<KeptCheckpoint>>>);

impl Listing {
    fn needed_after(&self) -> Position {
        let listed = self.0.lock();
        listed.iter().rev().nth(1).map_or(Position::START, |older| older.position)
    }
}

impl CheckpointKeeper for Listing {
    fn kept(&self) -> Result<(Option<KeptCheckpoint>, Position), CheckpointError> {
        let newest = self.0.lock().last().copied();
        Ok((newest, self.needed_after()))
    }

    fn log_bytes_max(&self) -> u64 {
        u64::MAX
    }

    fn whole_log_bytes_max(&self) -> u64 {
        WHOLE_LOG_BYTES_MAX
    }

    fn keep(
        &self,
        made: &Made,
        _: &LogStore,
        _: &dyn Fn() -> bool,
    ) -> Result<Position, CheckpointError> {
        let (position, bytes) = (made.checkpoint.position, made.checkpoint.bytes);
        let made = Timestamp::from_millis(made.header.time_ms);
        self.0.lock().push(KeptCheckpoint { position, bytes, made });
        Ok(self.needed_after())
    }
}

impl Bases for Listing {
    fn newest(&self) -> Result<Position, StoreError> {
        Ok(Position::START)
    }

    fn is_stopping(&self) -> bool {
        false
    }

    fn fetch(
        &self,
        _: usize,
        _: &CheckpointDir,
        _: &dyn Fn() -> bool,
    ) -> Result<Fetched, StoreError> {
        Ok(Fetched::Nothing)
    }
}

/// Starts the shard of a cluster. The newest commits make no checkpoint and no snapshot due.
async fn start_replica(dir: &Path, log: &MemoryLog, listing: &Listing) -> Engine {
    let opened = loop {
        let log: Arc<dyn Log> = Arc::new(log.open_again());
        let replica = ReplicaDir::at(dir, 0);
        let (options, gives_up) = (FjallOptions::default(), &|| false);
        let from = ReplicaSource { log: &log, bases: listing, options, gives_up };
        match replica.open(None, from, Writes::default()) {
            Err(StoreError::Locked) => tokio::time::sleep(Duration::from_millis(1)).await,
            opened => break opened.unwrap(),
        }
    };
    let replica = EngineOptions {
        durability: Durability::Replica(Replica::new(opened, Arc::new(listing.clone()))),
        snapshot_journal_bytes: u64::MAX,
        checkpoint_log_bytes: Some(u64::MAX),
        ..options(dir)
    };
    Engine::start(replica).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_full_log_is_trimmed_however_little_came_since_the_newest_one() {
    let (dir, listing) = (tempfile::tempdir().unwrap(), Listing::default());
    let log = MemoryLog::new(&Start::new(LogId([3; 16])));
    let engine = start_replica(dir.path(), &log, &listing).await;
    let acme = workspace(&engine, "acme", 1_000).await;
    let whole = || log.bytes_after(Position::START).unwrap();
    let mut number = 1;
    while whole() <= WHOLE_LOG_BYTES_MAX {
        assert_eq!(listing.0.lock().len(), 0, "none is due yet");
        some(&engine, &acme, number..number + 1).await;
        number += 1;
    }
    for round in 0.. {
        if whole() <= WHOLE_LOG_BYTES_MAX {
            break;
        }
        assert!(round < 100, "the log stays full: {:?}", listing.0.lock());
        some(&engine, &acme, number..number + 1).await;
        number += 1;
        // Snapshots are taken meanwhile.
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    assert!(first_entry(&engine) <= listing.needed_after().next().0);
    engine.shutdown(LONG * 1_000).await.unwrap();
}
