//! The engine time of an owner: not before its claim, and not moved twice.

use std::time::Duration;

use postrider_actors::clock::Stopwatch;
use postrider_actors::domain::Timestamp;
use postrider_actors::{Clock, Engine, EngineOptions, MasterKeys, StartError};

const START: Timestamp = Timestamp::from_millis(1_700_000_000_000);
const DAY: Duration = Duration::from_secs(86_400);

/// Starts an engine on this directory after a claim of that time; returns it and its time.
async fn started(dir: &std::path::Path, claim: Option<Timestamp>) -> (Engine, Timestamp) {
    let clock = Clock::manual(START);
    let keys = MasterKeys::single([7; 32]);
    let options = EngineOptions::on_disk(dir, keys);
    let options = EngineOptions { clock: clock.clone(), begins_after: claim, ..options };
    let options = EngineOptions { free_bytes_min: 0, ..options };
    let watch = Stopwatch::start();
    let engine = loop {
        match Engine::start(options.clone()).await {
            // Threads of the engine before may not have released the directory yet.
            Err(StartError::Locked) if watch.elapsed() < Duration::from_secs(60) => {
                tokio::task::yield_now().await;
            }
            engine => break engine.unwrap(),
        }
    };
    let now = clock.now();
    (engine, now)
}

#[tokio::test]
async fn it_begins_behind_the_claim_whatever_the_owner_before_moved_it_by() {
    let dir = tempfile::tempdir().unwrap();
    let stop = async |engine: Engine| engine.shutdown(Duration::from_secs(60)).await.unwrap();
    let second = Duration::from_secs(1);
    let (engine, now) = started(dir.path(), Some(START.plus(second))).await;
    assert_eq!(now, START.plus(second).plus(Duration::from_millis(1)));
    engine.advance_clock(DAY).await.unwrap();
    stop(engine).await;
    // The claim is of a node whose clock is behind, and has the date of the last entry before it.
    let claim = START.plus(DAY).plus(2 * second);
    let (engine, now) = started(dir.path(), Some(claim)).await;
    assert_eq!(now, claim.plus(Duration::from_millis(1)), "what the sandbox added counts once");
    stop(engine).await;
    let (engine, now) = started(dir.path(), Some(START)).await;
    assert!(now > START.plus(DAY).plus(second), "the records count as well: {now:?}");
    stop(engine).await;
}
