//! Tests that workspaces stopped by a failed commit are rebuilt together, without delaying others.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Condvar, Mutex};
use postrider_store::hooked::{Hook, Hooked};
use postrider_store::{CrashOutcome, Keep, Position};

use super::*;

const WORKSPACES: usize = 60;
/// The maximum wait of a read, so that a failing test ends.
const PATIENCE: Duration = Duration::from_secs(60);

/// Counts readings of the journal, and makes commits or readings wait.
#[derive(Debug, Clone, Default)]
struct Readings {
    count: Arc<AtomicUsize>,
    commits: Gate,
    readings: Gate,
}

#[derive(Debug, Clone, Default)]
struct Gate(Arc<(Mutex<AtGate>, Condvar)>);

#[derive(Debug, Default)]
struct AtGate {
    is_shut: bool,
    waiting: usize,
}

impl Gate {
    fn set(&self, is_shut: bool) {
        self.0.0.lock().is_shut = is_shut;
        self.0.1.notify_all();
    }

    fn is_shut(&self) -> bool {
        self.0.0.lock().is_shut
    }

    fn is_waited_at(&self) -> bool {
        self.0.0.lock().waiting > 0
    }

    fn pass(&self) {
        let mut gate = self.0.0.lock();
        gate.waiting += 1;
        while gate.is_shut && !self.0.1.wait_for(&mut gate, PATIENCE).timed_out() {}
        gate.waiting -= 1;
        gate.is_shut = false;
    }
}

impl Hook for Readings {
    fn before_commit(&self) {
        self.commits.pass();
    }

    fn before_replay(&self, _after: Position) {
        self.count.fetch_add(1, Ordering::SeqCst);
        self.readings.pass();
    }
}

/// Starts an engine with workspaces that each have a pending code.
async fn begin() -> (Engine, CrashingStore, Readings, Vec<(Workspace, RequestId)>) {
    let (inner, hook) = (CrashingStore::new(), Readings::default());
    let store = Hooked { inner: inner.clone(), hook: hook.clone() };
    let engine = Engine::start(options(store, START)).await.unwrap();
    let mut all = Vec::new();
    for number in 0..WORKSPACES {
        let workspace = workspace(&engine, &format!("w{number}"), 10).await;
        let sent = workspace.send_otp(SendOtp::to(phone(1))).await.unwrap();
        all.push((workspace, sent.request_id));
    }
    for (workspace, request) in &all {
        until("it is sent", async || {
            workspace.otp(*request).await.is_ok_and(|otp| otp.delivery == crate::Delivery::Sent)
        })
        .await;
    }
    (engine, inner, hook, all)
}

async fn all_know_their_codes(all: &[(Workspace, RequestId)]) {
    for (workspace, request) in all {
        healed(workspace).await;
        let right = code(workspace.id(), *request, phone(1));
        assert_eq!(workspace.verify_otp(*request, &right).await, Ok(Verification::Verified));
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_commit_costs_few_readings_however_many_it_stopped() {
    let (engine, store, hook, all) = begin().await;
    let before: Vec<_> = all.iter().map(|(it, _)| engine.actor(it.id().as_str())).collect();
    // The first commit waits, so that all others queue behind it.
    hook.commits.set(true);
    let sends: Vec<_> = all
        .iter()
        .map(|(workspace, _)| {
            let workspace = workspace.clone();
            tokio::spawn(async move { workspace.send_otp(SendOtp::to(phone(2))).await })
        })
        .collect();
    // The clock moves once no task can run: all wait for the first commit.
    tokio::time::sleep(Duration::from_secs(1)).await;
    until("the first commit waits", async || hook.commits.is_waited_at()).await;
    // An earlier commit may have run until now. It must not be the one that fails.
    store.fail_next_commits(1, CrashOutcome::Lost);
    let read = hook.count.load(Ordering::SeqCst);
    // The first reading waits, so that all others ask while it is in progress.
    hook.readings.set(true);
    hook.commits.set(false);
    let mut failed = 0;
    for send in sends {
        failed += usize::from(send.await.unwrap().is_err());
    }
    until("the first reading waits", async || hook.readings.is_waited_at()).await;
    // Here all wait for the first reading.
    tokio::time::sleep(Duration::from_secs(1)).await;
    hook.readings.set(false);
    all_know_their_codes(&all).await;
    let now = all.iter().map(|(it, _)| engine.actor(it.id().as_str()));
    let rebuilt = now.zip(before).filter(|(now, before)| now != before).count();
    assert!(failed == rebuilt && rebuilt > WORKSPACES / 2, "{failed} failed, {rebuilt} rebuilt");
    let read = hook.count.load(Ordering::SeqCst) - read;
    // On a busy machine some ask when the first reading has ended.
    assert!((1..=WORKSPACES / 4).contains(&read), "{read} readings for {WORKSPACES} workspaces");
    engine.shutdown(LONG).await.unwrap();
}

/// With two threads for blocking work, which readers need.
#[test]
fn nobody_else_waits_while_many_are_rebuilt() {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().max_blocking_threads(2).start_paused(true).build().unwrap();
    runtime.block_on(async {
        let (engine, _, hook, mut all) = begin().await;
        let (other, request) = all.pop().unwrap();
        let read = hook.count.load(Ordering::SeqCst);
        hook.readings.set(true);
        for (workspace, _) in &all {
            let slot = engine.shared().workspaces.slot(workspace.id()).unwrap();
            slot.live().unwrap().kill();
        }
        until("the first reading has begun", async || hook.count.load(Ordering::SeqCst) > read)
            .await;
        let others = async || {
            assert_eq!(log(&other).await.len(), 1);
            assert!(other.otp(request).await.is_ok());
            assert_eq!(credits(&engine, other.id().as_str()).await, 9);
        };
        for _ in 0..20 {
            others().await;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(hook.readings.is_shut(), "it was waited for the rebuild");
        hook.readings.set(false);
        all_know_their_codes(&all).await;
        let read = hook.count.load(Ordering::SeqCst) - read;
        assert!((1..=3).contains(&read), "{read} readings for {WORKSPACES} workspaces");
        engine.shutdown(LONG).await.unwrap();
    });
}

#[tokio::test(start_paused = true)]
async fn a_start_reads_the_journal_once_for_all() {
    let (engine, store, _, all) = begin().await;
    let store = store.crash(Keep::Nothing);
    engine.inner.root.kill();
    let hook = Readings::default();
    let again = Hooked { inner: store, hook: hook.clone() };
    let engine = Engine::start(options(again, START)).await.unwrap();
    let of = |(it, request): &(Workspace, _)| (engine.workspace(it.id()).unwrap(), *request);
    let all: Vec<_> = all.iter().map(of).collect();
    all_know_their_codes(&all).await;
    assert_eq!(hook.count.load(Ordering::SeqCst), 1);
    engine.shutdown(LONG).await.unwrap();
}
