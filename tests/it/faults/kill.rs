//! `kill -9` loses nothing that was answered.

use rand::RngExt;

use super::check::Lost;
use super::load::Story;
use super::process::Process;
use crate::support::at_size;

fn rounds() -> usize {
    at_size(3, 10)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_answered_outlives_kill_9() {
    let dir = tempfile::tempdir().unwrap();
    let mut story = Story::new();
    let mut process = Process::start(dir.path());
    for _ in 0..rounds() {
        story.until_killed(process, 20..300).await;
        process = Process::start(dir.path());
        story.check(&process, Lost::MayBeThere).await;
        story.resend_some(&process).await;
    }
}

/// A start creates files, keys and a workspace: none of its steps may prevent the next start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_start_that_is_killed_is_made_good_by_the_next() {
    let parent = tempfile::tempdir().unwrap();
    let mut story = Story::new();
    for round in 0..rounds() {
        let dir = parent.path().join(round.to_string());
        let steps =
            ["server.lock", "format", "view.new", "view.new/version", "view.new/keyspaces/3"];
        let later =
            ["view", "log/next.tmp", "log/00000000000000000001.log", "snapshots", "demo.key"];
        let steps: Vec<_> = steps.into_iter().chain(later).map(|step| dir.join(step)).collect();
        let step = &steps[story.rng.random_range(0..steps.len())];
        // Some steps take only a moment: the last one exists in any case.
        let last = dir.join("demo.key");
        Process::kill_when(&dir, || step.exists() || last.exists());
        let process = Process::start(&dir);
        let mut fresh = Story::new();
        let load = fresh.begin(&process);
        load.acknowledged(5).await;
        load.end().await;
        fresh.check(&process, Lost::MayBeThere).await;
    }
}
