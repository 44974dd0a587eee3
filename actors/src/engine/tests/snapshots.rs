//! Snapshots shorten a restart, and nothing depends on them.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::{OtpState, StartError, WorkspaceState};
use postrider_domain::Limits;
use postrider_store::{Change, Frame, Group, Section, Store as _, Table};

use super::*;

/// So few that what is trimmed goes at once: a segment has a header of 4 KiB.
const SEGMENT_BYTES: u64 = 5 * 1024;

/// Starts with snapshots at every beat, on a directory.
async fn start(dir: &Path) -> Engine {
    start_with(dir, 1).await
}

/// Starts with this many bytes of journal between snapshots.
async fn start_with(dir: &Path, snapshot_journal_bytes: u64) -> Engine {
    start_at(dir, START, snapshot_journal_bytes).await
}

/// Starts on a directory, which an engine that was just dropped may still hold for a moment.
pub(super) async fn start_at(dir: &Path, now: Timestamp, snapshot_journal_bytes: u64) -> Engine {
    let watch = Stopwatch::start();
    loop {
        let options = EngineOptions {
            clock: Clock::manual(now),
            limits: Limits { otp_per_phone_10m: 3, ..Limits::default() },
            snapshot_journal_bytes,
            segment_bytes: SEGMENT_BYTES,
            ..EngineOptions::on_disk(dir, MasterKeys::single([7; 32]))
        };
        match Engine::start(options).await {
            Ok(engine) => return engine,
            Err(StartError::Locked) if watch.elapsed() < Duration::from_secs(60) => {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// The snapshots' directories, oldest first.
pub(super) fn generations(dir: &TempDir) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir.path().join("snapshots")).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_none());
    paths.sort();
    paths
}

pub(super) fn position(generation: &Path) -> u64 {
    let name = generation.file_name().unwrap().to_str().unwrap();
    u64::from_str_radix(name.strip_prefix("gen-").unwrap(), 16).unwrap()
}

/// The oldest position of the log.
fn first_entry(engine: &Engine) -> u64 {
    engine.shared().recovered.log().begins_after().unwrap().next().0
}

/// Returns the states of some requests.
async fn states(workspace: &Workspace, requests: &[RequestId]) -> Vec<OtpState> {
    let mut states = Vec::new();
    for request in requests {
        states.push(workspace.otp(*request).await.unwrap());
    }
    states
}

/// Sends and misses, each in a commit of its own, and waits for the number's answers.
async fn some(workspace: &Workspace, to: Phone, count: usize) -> Vec<RequestId> {
    let mut requests = Vec::new();
    for _ in 0..count {
        let request = workspace.send_otp(SendOtp::to(to)).await.unwrap().request_id;
        workspace.verify_otp(request, "wrong").await.unwrap();
        until("it is sent", async || {
            workspace.otp(request).await.is_ok_and(|otp| otp.delivery == crate::Delivery::Sent)
        })
        .await;
        requests.push(request);
    }
    requests
}

/// An engine with snapshots, the newest of which covers all there is but the last of the requests.
async fn with_two_snapshots(dir: &TempDir) -> (Engine, Workspace, Vec<RequestId>) {
    let engine = start(dir.path()).await;
    let acme = workspace(&engine, "acme", 100).await;
    let mut requests = some(&acme, phone(1), 2).await;
    until("a snapshot is taken", async || !generations(dir).is_empty()).await;
    requests.extend(some(&acme, phone(2), 2).await);
    until("a second one is, and the journal is shorter", async || {
        generations(dir).len() == 2 && first_entry(&engine) > 1
    })
    .await;
    requests.extend(some(&acme, phone(3), 1).await);
    (engine, acme, requests)
}

async fn is_whole(engine: &Engine, requests: &[RequestId], before: &[OtpState]) {
    let acme = engine.workspace(&id("acme")).unwrap();
    assert_eq!(states(&acme, requests).await, before);
    assert_eq!(credits(engine, "acme").await, 100 - requests.len() as u64);
    assert_eq!(log(&acme).await.len(), requests.len());
    // The windows too: three to a phone, of which two are used up.
    acme.send_otp(SendOtp::to(phone(1))).await.unwrap();
    acme.send_otp(SendOtp::to(phone(1))).await.unwrap_err();
    let last = *requests.last().unwrap();
    let right = code(acme.id(), last, phone(3));
    assert_eq!(acme.verify_otp(last, &right).await, Ok(Verification::Verified));
}

#[tokio::test(start_paused = true)]
async fn a_restart_begins_with_the_newest_and_the_journal_is_trimmed_to_the_older() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, acme, requests) = with_two_snapshots(&dir).await;
    let before = states(&acme, &requests).await;
    engine.shutdown(LONG).await.unwrap();
    let kept = generations(&dir);
    assert_eq!(kept.len(), 2);
    assert!(first_entry(&engine) <= position(&kept[0]) + 1, "what the older one needs is there");
    drop((engine, acme));
    let engine = start(dir.path()).await;
    assert!(engine.actor("acme").is_some(), "it has something hot");
    is_whole(&engine, &requests, &before).await;
}

#[tokio::test(start_paused = true)]
async fn a_damaged_newest_one_is_a_longer_replay() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, acme, requests) = with_two_snapshots(&dir).await;
    let before = states(&acme, &requests).await;
    engine.shutdown(LONG).await.unwrap();
    drop((engine, acme));
    let newest = generations(&dir).pop().unwrap();
    std::fs::write(newest.join("manifest"), "no manifest").unwrap();
    let engine = start(dir.path()).await;
    is_whole(&engine, &requests, &before).await;
}

#[tokio::test(start_paused = true)]
async fn without_any_the_whole_journal_is_replayed() {
    let dir = tempfile::tempdir().unwrap();
    let engine = start_with(dir.path(), u64::MAX).await;
    let acme = workspace(&engine, "acme", 100).await;
    let mut requests = some(&acme, phone(1), 2).await;
    requests.extend(some(&acme, phone(3), 1).await);
    let before = states(&acme, &requests).await;
    engine.shutdown(LONG).await.unwrap();
    assert_eq!(generations(&dir).len(), 0, "none was due");
    drop((engine, acme));
    let engine = start(dir.path()).await;
    until("a snapshot is taken", async || !generations(&dir).is_empty()).await;
    engine.shutdown(LONG * 1_000).await.unwrap();
    assert_eq!(first_entry(&engine), 1, "one is no reason to trim");
    drop(engine);
    for generation in generations(&dir) {
        std::fs::remove_dir_all(generation).unwrap();
    }
    let engine = start(dir.path()).await;
    is_whole(&engine, &requests, &before).await;
}

#[tokio::test(start_paused = true)]
async fn a_workspace_that_dies_later_is_rebuilt_from_both() {
    let dir = tempfile::tempdir().unwrap();
    let (engine, acme, requests) = with_two_snapshots(&dir).await;
    let before = states(&acme, &requests).await;
    for _ in 0..3 {
        engine.shared().workspaces.slot(&id("acme")).unwrap().live().unwrap().kill();
        healed(&acme).await;
        assert_eq!(states(&acme, &requests).await, before);
    }
    is_whole(&engine, &requests, &before).await;
    engine.shutdown(LONG).await.unwrap();
}

/// Commits events that nobody can read.
fn break_a_workspace(store: &dyn postrider_store::Store) {
    let section = Section { workspace: id("broken"), events: vec![0xff; 9] };
    let number = store.last_position().unwrap().next();
    let frame = Frame { epoch: 1, number, sections: vec![section] };
    let profile = br#"{"name":"Broken","created_at":1700000000000,"limits":{},
        "otp_template":null,"destinations":{"allow":[],"deny":[]}}"#;
    let change = Change::put(Table::Workspaces, b"broken\0profile", *profile);
    store.commit(Group::new(Some(&frame), &[change])).unwrap();
}

async fn is_parked(engine: &Engine) {
    until("it is parked", async || {
        let state = engine.admin().workspace(&id("broken")).await.unwrap().state;
        matches!(state, WorkspaceState::Parked(_))
    })
    .await;
}

/// Asserts that the newest snapshot has the section of the broken workspace, with its position.
fn assert_is_kept(dir: &TempDir) {
    let loaded = postrider_store::directory::snapshots(dir.path()).unwrap().load().unwrap();
    let of_it = loaded.entries.iter().find(|(of, _)| *of == id("broken"));
    let (_, kept) = of_it.expect("nothing is kept of it");
    assert!(kept.ends_with(&[&[0, 0, 0, 9][..], &[0xff; 9]].concat()), "{kept:?}");
    assert_eq!(kept.iter().filter(|byte| **byte == 0xff).count(), 9, "it is kept once");
}

/// Works for a while beside the broken workspace, and starts again.
async fn goes_on_beside_it(dir: &TempDir) {
    let engine = start(dir.path()).await;
    is_parked(&engine).await;
    let acme = workspace(&engine, "acme", 100).await;
    let mut requests = some(&acme, phone(1), 2).await;
    requests.extend(some(&acme, phone(3), 1).await);
    for number in 100..160 {
        if first_entry(&engine) > 3 && generations(dir).len() == 2 {
            break;
        }
        let more = some(&acme, phone(number), 1).await;
        requests.splice(0..0, more);
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    assert!(first_entry(&engine) > 3 && generations(dir).len() == 2, "the journal is as long");
    let before = states(&acme, &requests).await;
    // On a slow disk the paused clock comes far before the last commit does.
    engine.shutdown(LONG * 1_000).await.unwrap();
    // Its files are the test's own once nothing has it open any more.
    let store = Arc::downgrade(&engine.inner.shared.store);
    drop((engine, acme));
    until("the store is closed", async || store.strong_count() == 0).await;
    assert_is_kept(dir);
    let engine = start(dir.path()).await;
    is_parked(&engine).await;
    let warning = "damaged: the data of workspace broken cannot be read";
    assert_eq!(engine.health().warnings, [warning]);
    is_whole(&engine, &requests, &before).await;
}

#[tokio::test(start_paused = true)]
async fn a_damaged_workspace_is_kept_and_the_journal_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    {
        let (store, _) = crate::engine::opening::open_directory(
            dir.path(),
            SEGMENT_BYTES,
            START,
            &Default::default(),
        )
        .unwrap();
        store.begin_epoch().unwrap();
        break_a_workspace(&store);
    }
    goes_on_beside_it(&dir).await;
}

#[tokio::test(start_paused = true)]
async fn one_engine_at_a_time_uses_a_directory() {
    let dir = tempfile::tempdir().unwrap();
    let engine = start(dir.path()).await;
    let again = Engine::start(EngineOptions::on_disk(dir.path(), MasterKeys::single([7; 32])));
    assert!(matches!(again.await, Err(StartError::Locked)));
    engine.shutdown(LONG).await.unwrap();
}
