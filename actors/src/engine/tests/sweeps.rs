//! Tests that records with a retention time are deleted in slices, beside the actor, at little
//! cost.

use std::ops::ControlFlow;
use std::thread::ThreadId;

use parking_lot::{Condvar, Mutex};
use postrider_channel::callback::Callback;
use postrider_domain::Limits;
use postrider_store::hooked::{Hook, Hooked};
use postrider_store::{Direction, MemoryStore, Table, View};
use postrider_workspace::mailbox::message::WorkspaceMessage;
use postrider_workspace::{IdempotencyKey, Route};
use tokio::sync::mpsc;

use super::support::messages::wrote;
use super::*;

const DAY: Duration = Duration::from_secs(24 * 3600);
/// The maximum number of records that one slice deletes, of most kinds.
const SLICE: usize = 500;
/// The records of three full slices, and of one that is not.
const MANY: usize = 3 * SLICE + 100;

/// One scan of the store: the prefix of its keys, its start, and its thread.
#[derive(Debug, Clone)]
struct Scan {
    table: Table,
    prefix: Vec<u8>,
    from: Option<Vec<u8>>,
    thread: ThreadId,
}

/// Records each scan.
#[derive(Debug, Clone, Default)]
struct Scans(Arc<Mutex<Vec<Scan>>>);

impl Hook for Scans {
    fn before_scan(&self, table: Table, prefix: &[u8], from: Option<&[u8]>) {
        let from = from.map(<[u8]>::to_vec);
        let thread = std::thread::current().id();
        self.0.lock().push(Scan { table, prefix: prefix.to_vec(), from, thread });
    }
}

impl Scans {
    /// Returns the scans of a table with this key prefix since the last call.
    fn take(&self, of: Table, prefix: &[u8]) -> Vec<Scan> {
        let all = std::mem::take(&mut *self.0.lock());
        all.into_iter().filter(|it| it.table == of && it.prefix == prefix).collect()
    }
}

async fn begin() -> (Engine, Workspace, Hooked<Scans>) {
    let store = Hooked { inner: MemoryStore::new(), hook: Scans::default() };
    let limits = Limits { otp_per_workspace_hour: 100_000, ..Limits::default() };
    let options = EngineOptions { limits, ..options(store.clone(), START) };
    let engine = Engine::start(options).await.unwrap();
    let acme = workspace(&engine, "acme", 100_000).await;
    (engine, acme, store)
}

/// Returns the number of a table's records of the workspace.
fn count(store: &Hooked<Scans>, table: Table) -> usize {
    let mut count = 0;
    let mut visit = |_: &[u8], _: &[u8]| {
        count += 1;
        ControlFlow::Continue(())
    };
    store.inner.scan(table, b"acme\0", None, Direction::Forward, &mut visit).unwrap();
    count
}

/// Passes time, and lets the workspace handle it, whether its actor runs or not.
async fn pass(engine: &Engine, acme: &Workspace, step: Duration) {
    engine.clock().advance(step);
    drop(acme.otp(RequestId::from_parts(START, 0)).await);
    engine.beat().await;
}

/// Sends a code under a key. Returns whether the answer is a replayed one.
async fn keyed(acme: &Workspace, number: u32) -> bool {
    let key = IdempotencyKey::new(Route::SendOtp, &number.to_string(), b"");
    acme.send_otp_once(SendOtp::to(phone(number)), key).await.unwrap().replayed
}

/// Notifies the actor many times that time has passed, and waits until it has handled that.
async fn beats(engine: &Engine) {
    for _ in 0..5 {
        engine.shared().workspaces.cast_all_live(|| WorkspaceMessage::Tick);
    }
    tokio::join!(engine.beat(), engine.beat());
}

/// Checks that each scan starts behind the one before it, and none is on the actor's thread, this
/// one.
fn go_on(scans: &[Scan]) {
    let own = std::thread::current().id();
    assert!(scans.iter().all(|scan| scan.thread != own), "{scans:?}");
    assert!(scans.windows(2).all(|two| two[0].from < two[1].from), "{scans:?}");
}

#[tokio::test(start_paused = true)]
async fn keys_that_end_at_once_are_looked_at_once_and_beside_the_actor() {
    let (engine, acme, store) = begin().await;
    let scans = &store.hook;
    for number in 0..MANY as u32 {
        assert!(!keyed(&acme, number).await);
    }
    beats(&engine).await;
    engine.clock().advance(DAY);
    scans.take(Table::Meta, b"");
    beats(&engine).await;
    let of_keys = scans.take(Table::Idempotency, b"acme\0t");
    assert_eq!(of_keys.len(), 4, "{of_keys:?}");
    go_on(&of_keys);
    let last = of_keys[3].from.clone();
    // A day later the scan continues at its place.
    assert!(!keyed(&acme, 0).await);
    engine.clock().advance(DAY);
    beats(&engine).await;
    let of_keys = scans.take(Table::Idempotency, b"acme\0t");
    assert!(of_keys.iter().all(|scan| scan.from > last), "{of_keys:?}");
    go_on(&of_keys);
    assert!(!keyed(&acme, 0).await && keyed(&acme, 0).await);
}

#[tokio::test(start_paused = true)]
async fn inbound_messages_that_end_at_once_are_looked_at_once_and_beside_the_actor() {
    let (engine, acme, store) = begin().await;
    let scans = &store.hook;
    let number = engine.admin().numbers(&id("acme")).await.unwrap()[0].id;
    let take = async |from: usize, at: Timestamp| {
        let mut callback = Callback::default();
        for message in from..from + MANY / 2 {
            callback.inbound.extend(wrote(phone(1), &format!("in-{message}"), at).inbound);
        }
        acme.receive(number, callback).await.unwrap();
    };
    take(0, START).await;
    take(MANY / 2, START).await;
    // It holds a code, so it stays in memory.
    acme.send_otp(SendOtp::to(phone(1))).await.unwrap();
    beats(&engine).await;
    engine.clock().advance(9 * DAY);
    scans.take(Table::Meta, b"");
    beats(&engine).await;
    let of_received = scans.take(Table::Received, b"acme\0");
    assert_eq!(of_received.len(), 4, "{of_received:?}");
    go_on(&of_received);
}

#[tokio::test(start_paused = true)]
async fn an_inbound_message_that_comes_late_is_forgotten_too() {
    let (engine, acme, store) = begin().await;
    let number = engine.admin().numbers(&id("acme")).await.unwrap()[0].id;
    let received = || count(&store, Table::Received);
    acme.receive(number, wrote(phone(1), "in time", START)).await.unwrap();
    pass(&engine, &acme, 9 * DAY).await;
    assert_eq!(received(), 0);
    // Its key is before that of the deleted one.
    acme.receive(number, wrote(phone(1), "late", START.minus(DAY))).await.unwrap();
    assert_eq!(received(), 1);
    pass(&engine, &acme, 2 * DAY).await;
    assert_eq!(received(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_event_log_is_not_looked_through_again_where_it_was_trimmed() {
    let (engine, acme, store) = begin().await;
    for number in 0..SLICE as u32 + 100 {
        acme.send_otp(SendOtp::to(phone(number))).await.unwrap();
    }
    let before = count(&store, Table::Events);
    assert!(before > SLICE);
    engine.pass(40 * DAY).await;
    // The newest chunks stay: they have the events of that end.
    until("it is trimmed", async || count(&store, Table::Events) < before / 10).await;
    store.hook.take(Table::Meta, b"");
    engine.pass(DAY).await;
    // The first search for a log's end has no place to start at.
    until("it is looked at from there", async || {
        let scans = store.hook.0.lock().clone();
        scans.iter().any(|scan| scan.table == Table::Events && scan.from.is_some())
    })
    .await;
}

/// Delays the second read of an answer that is not the actor's.
#[derive(Debug, Clone)]
struct SlowRead {
    actor: ThreadId,
    reads: Arc<Mutex<usize>>,
    waits: mpsc::UnboundedSender<()>,
    may_go: Arc<(Mutex<bool>, Condvar)>,
}

impl Hook for SlowRead {
    fn before_get(&self, table: Table, _key: &[u8]) {
        if table != Table::Idempotency || std::thread::current().id() == self.actor {
            return;
        }
        *self.reads.lock() += 1;
        if *self.reads.lock() == 2 {
            self.waits.send(()).unwrap();
            let mut may_go = self.may_go.0.lock();
            while !*may_go {
                self.may_go.1.wait(&mut may_go);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn commands_are_answered_while_a_slice_is_read_and_what_they_change_stays() {
    let (waits, mut waiting) = mpsc::unbounded_channel();
    let actor = std::thread::current().id();
    let may_go = Arc::default();
    let hook = SlowRead { actor, reads: Arc::default(), waits, may_go };
    let may_go = Arc::clone(&hook.may_go);
    let store = Hooked { inner: MemoryStore::new(), hook };
    let engine = Engine::start(options(store, START)).await.unwrap();
    let acme = workspace(&engine, "acme", 100).await;
    assert!(!keyed(&acme, 0).await && !keyed(&acme, 1).await);
    engine.clock().advance(DAY);
    engine.shared().workspaces.cast_all_live(|| WorkspaceMessage::Tick);
    waiting.recv().await.unwrap();
    // The read finds the first key expired. The key is used again meanwhile.
    assert!(!keyed(&acme, 0).await);
    *may_go.0.lock() = true;
    may_go.1.notify_all();
    engine.beat().await;
    assert!(keyed(&acme, 0).await, "its new answer stays");
    assert!(!keyed(&acme, 1).await);
}

/// Counts slices of keys, and blocks commits while it is shut.
#[derive(Debug, Clone, Default)]
struct ShutWriter {
    slices: Arc<Mutex<usize>>,
    is_shut: Arc<(Mutex<bool>, Condvar)>,
}

impl ShutWriter {
    fn set(&self, is_shut: bool) {
        *self.is_shut.0.lock() = is_shut;
        self.is_shut.1.notify_all();
    }
}

impl Hook for ShutWriter {
    fn before_commit(&self) {
        let mut is_shut = self.is_shut.0.lock();
        while *is_shut {
            self.is_shut.1.wait(&mut is_shut);
        }
    }

    fn before_scan(&self, table: Table, prefix: &[u8], _from: Option<&[u8]>) {
        if table == Table::Idempotency && prefix.ends_with(b"\0t") {
            *self.slices.lock() += 1;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_sweeps_of_all_workspaces_take_turns() {
    let store = Hooked { inner: MemoryStore::new(), hook: ShutWriter::default() };
    let hook = store.hook.clone();
    let engine = Engine::start(options(store, START)).await.unwrap();
    for number in 0..10 {
        let workspace = workspace(&engine, &format!("w{number}"), 100).await;
        assert!(!keyed(&workspace, number).await);
    }
    beats(&engine).await;
    *hook.slices.lock() = 0;
    hook.set(true);
    engine.clock().advance(DAY);
    engine.shared().workspaces.cast_all_live(|| WorkspaceMessage::Tick);
    until("there are slices", async || *hook.slices.lock() >= 4).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(*hook.slices.lock(), 4, "nothing is durable of those");
    hook.set(false);
    engine.beat().await;
    until("all have had their turn", async || *hook.slices.lock() >= 10).await;
}
