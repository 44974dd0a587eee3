//! Tests that commands read little in their actors: larger reads run before, beside them.

use std::thread::ThreadId;

use parking_lot::{Condvar, Mutex};
use postrider_channel::Origin;
use postrider_channel::callback::{Callback, Inbound, Progress, StatusUpdate};
use postrider_domain::{BroadcastId, NumberId};
use postrider_store::hooked::{Hook, Hooked};
use postrider_store::{MemoryStore, Table};
use tokio::sync::mpsc;

use super::support::broadcasts::{becomes, broadcast_to, create, with_template};
use super::support::messages::wrote;
use super::*;
use crate::{BroadcastStatus, CampaignGrouping, ConversationFilter, DayRange};
use postrider_domain::day::Day;
use postrider_workspace::whole_contacts;

const HOUR: Duration = Duration::from_secs(3600);

/// The number of recipients of one window.
const WINDOW: u32 = 500;

/// One read of the store, or a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Seen {
    Get(Table, Vec<u8>, ThreadId),
    Scan(Table, Vec<u8>, ThreadId),
    Commit,
}

/// Records the reads and their threads, and can hold one read back.
#[derive(Debug, Clone, Default)]
struct Reads {
    seen: Arc<Mutex<Vec<Seen>>>,
    held: Arc<(Mutex<Option<HeldRead>>, Condvar)>,
}

/// A read that waits, once, unless it is an actor's.
#[derive(Debug)]
struct HeldRead {
    table: Table,
    key_ends: Vec<u8>,
    actor: ThreadId,
    reached: mpsc::UnboundedSender<()>,
    may_go: bool,
}

impl Hook for Reads {
    fn before_commit(&self) {
        self.seen.lock().push(Seen::Commit);
    }

    fn before_get(&self, table: Table, key: &[u8]) {
        let thread = std::thread::current().id();
        self.seen.lock().push(Seen::Get(table, key.to_vec(), thread));
        let mut held = self.held.0.lock();
        let is_held = |held: &HeldRead| {
            held.table == table && held.actor != thread && key.ends_with(&held.key_ends)
        };
        if held.as_ref().is_some_and(is_held) {
            held.as_ref().unwrap().reached.send(()).unwrap();
            self.held.1.wait_while(&mut held, |held| held.as_ref().is_some_and(|it| !it.may_go));
            *held = None;
        }
    }

    fn before_scan(&self, table: Table, prefix: &[u8], _from: Option<&[u8]>) {
        let thread = std::thread::current().id();
        self.seen.lock().push(Seen::Scan(table, prefix.to_vec(), thread));
    }
}

impl Reads {
    /// Holds back the next read of such a key on another thread.
    fn hold(&self, table: Table, key_ends: &[u8]) -> mpsc::UnboundedReceiver<()> {
        let (reached, is_reached) = mpsc::unbounded_channel();
        let (key_ends, actor) = (key_ends.to_vec(), std::thread::current().id());
        *self.held.0.lock() = Some(HeldRead { table, key_ends, actor, reached, may_go: false });
        is_reached
    }

    fn release(&self) {
        self.held.0.lock().as_mut().unwrap().may_go = true;
        self.held.1.notify_all();
    }

    /// Returns the reads since the last call.
    fn take(&self) -> Vec<Seen> {
        std::mem::take(&mut *self.seen.lock())
    }
}

/// Counts the single reads of one of these tables, in the actors and elsewhere. All actors of a
/// test run on its thread.
fn gets(seen: &[Seen], tables: &[Table]) -> (usize, usize) {
    let (mut in_actors, mut beside) = (0, 0);
    for seen in seen {
        match seen {
            Seen::Get(table, _, thread) if tables.contains(table) => {
                *if *thread == std::thread::current().id() {
                    &mut in_actors
                } else {
                    &mut beside
                } += 1;
            }
            _ => {}
        }
    }
    (in_actors, beside)
}

async fn begin() -> (Engine, Hooked<Reads>) {
    let store = Hooked { inner: MemoryStore::new(), hook: Reads::default() };
    let engine = Engine::start(options(store.clone(), START)).await.unwrap();
    (engine, store)
}

async fn number(engine: &Engine) -> NumberId {
    engine.admin().numbers(&id("acme")).await.unwrap()[0].id
}

#[tokio::test(start_paused = true)]
async fn a_broadcast_is_settled_without_reading_its_windows_in_an_actor() {
    let (engine, store) = begin().await;
    let acme = with_template(&engine).await;
    let sale = create(&acme, broadcast_to(60 * WINDOW)).await;
    let sent = becomes(&acme, sale, BroadcastStatus::Completed).await;
    assert_eq!(sent.counts.sent, 60 * WINDOW);
    let tables = [Table::BroadcastOutcomes, Table::BroadcastReports];
    let (in_actors, beside) = gets(&store.hook.take(), &tables);
    assert!(in_actors <= 32, "{in_actors} reads");
    assert_eq!(beside, 120, "each window and its reports once");
}

/// Reports on the first recipient of each of these windows.
fn delivered(broadcast: BroadcastId, windows: std::ops::Range<u32>) -> Callback {
    let status = |window| StatusUpdate {
        user_id: None,
        origin: Origin::Broadcast { broadcast, index: window * WINDOW },
        provider_id: "wamid".into(),
        status: Progress::Delivered,
        at: START,
        to: None,
        known_as: None,
    };
    Callback { statuses: windows.map(status).collect(), ..Callback::default() }
}

#[tokio::test(start_paused = true)]
async fn what_is_reported_while_a_broadcast_is_counted_is_counted_too() {
    // The actor itself counts fewer windows; the others are more.
    for reported in [3, 30] {
        let (engine, store) = begin().await;
        let acme = with_template(&engine).await;
        let number = number(&engine).await;
        // The windows before the last one are counted by then.
        let mut counted = store.hook.hold(Table::BroadcastReports, &39_u32.to_be_bytes());
        let sale = create(&acme, broadcast_to(40 * WINDOW)).await;
        counted.recv().await.unwrap();
        acme.receive(number, delivered(sale, 0..reported)).await.unwrap();
        store.hook.release();
        let counts = becomes(&acme, sale, BroadcastStatus::Completed).await.counts;
        assert_eq!((counts.delivered, counts.sent), (reported, 40 * WINDOW - reported));
        acme.receive(number, delivered(sale, 35..36)).await.unwrap();
        assert_eq!(acme.broadcast(sale).await.unwrap().counts.delivered, reported + 1);
    }
}

#[tokio::test(start_paused = true)]
async fn opt_outs_are_not_read_one_by_one_in_a_fan_out() {
    let (engine, store) = begin().await;
    let acme = with_template(&engine).await;
    // The phone is not in the audience, so that the others are read too.
    acme.suppress(phone(9_999_999), None).await.unwrap();
    store.hook.take();
    let sale = create(&acme, broadcast_to(10 * WINDOW)).await;
    becomes(&acme, sale, BroadcastStatus::Completed).await;
    let (in_actors, beside) = gets(&store.hook.take(), &[Table::Suppressions]);
    assert_eq!(in_actors, 0);
    // The reads of their count, once for each claim.
    assert!((1..200).contains(&beside), "{beside} reads for 5,000 recipients");
}

#[tokio::test(start_paused = true)]
async fn a_long_callback_is_taken_in_parts() {
    let (engine, store) = begin().await;
    let acme = workspace(&engine, "acme", 10).await;
    let line = number(&engine).await;
    let one = |from: u32| wrote(phone(from), &from.to_string(), START).inbound;
    let inbound = (0..100).flat_map(one).collect();
    store.hook.take();
    acme.receive(line, Callback { inbound, ..Callback::default() }).await.unwrap();
    let seen = store.hook.take();
    let parts = seen.iter().filter(|seen| **seen == Seen::Commit).count();
    assert!((4..=8).contains(&parts), "{parts} commits");
    assert_eq!(acme.conversations(ConversationFilter::default(), 0, 1).await.unwrap().total, 100);
}

/// Counts the reads and scans that find the broadcast of a reply, in the actors and elsewhere.
fn looks(seen: &[Seen]) -> (usize, usize) {
    const TABLES: [Table; 5] = [
        Table::Analytics,
        Table::BroadcastPhones,
        Table::BroadcastOutcomes,
        Table::BroadcastReports,
        Table::Broadcasts,
    ];
    let here = std::thread::current().id();
    let threads = seen.iter().filter_map(|seen| match seen {
        Seen::Get(table, _, thread) | Seen::Scan(table, _, thread) => {
            TABLES.contains(table).then_some(*thread)
        }
        Seen::Commit => None,
    });
    let (in_actors, beside): (Vec<_>, Vec<_>) = threads.partition(|thread| *thread == here);
    (in_actors.len(), beside.len())
}

#[tokio::test(start_paused = true)]
async fn a_message_reads_five_records_of_however_many_broadcasts() {
    const BROADCASTS: usize = 40;
    let (engine, store) = begin().await;
    let acme = with_template(&engine).await;
    let line = number(&engine).await;
    // A workspace with a pending code does not passivate: its successor would read all again.
    acme.send_otp(SendOtp::to(phone(88))).await.unwrap();
    let mut sales = Vec::new();
    for _ in 0..BROADCASTS {
        let sale = create(&acme, broadcast_to(3)).await;
        becomes(&acme, sale, BroadcastStatus::Completed).await;
        sales.push(sale);
    }
    let write = async |from: u32, id: &str| {
        store.hook.take();
        acme.receive(line, wrote(phone(from), id, START.plus(HOUR))).await.unwrap();
        looks(&store.hook.take())
    };
    // The first message of a phone searches every audience, beside the actor.
    let (in_actor, beside) = write(1, "first").await;
    assert!(in_actor <= 5 && (32..=40).contains(&beside), "{in_actor} reads, {beside} beside");
    for (from, id) in [(1, "second"), (1, "third")] {
        let (in_actor, beside) = write(from, id).await;
        assert!(in_actor + beside <= 5, "{in_actor} reads, {beside} beside");
    }
    // The other phone was in no audience.
    write(77, "other").await;
    let (in_actor, beside) = write(77, "again").await;
    assert!(in_actor + beside <= 5, "{in_actor} reads, {beside} beside");
    // A further broadcast is searched once.
    engine.clock().advance(Duration::from_secs(1));
    let sale = create(&acme, broadcast_to(3)).await;
    becomes(&acme, sale, BroadcastStatus::Completed).await;
    let (in_actor, beside) = write(1, "fourth").await;
    assert!(in_actor <= 5 && beside <= 5, "{in_actor} reads, {beside} beside");
    assert_eq!(replied(&acme).await, 2, "the phone has replied to the last two, once each");
}

/// Returns the number of counted replies.
async fn replied(acme: &Workspace) -> u64 {
    let day = Day::of(START.plus(HOUR));
    let range = DayRange { from: day.minus(1), to: day };
    acme.campaign_days(range, CampaignGrouping::Day, 0, 10).await.unwrap().counts.replied
}

/// Returns the number of reads of each command in the actor, of all tables.
fn commands(seen: &[Seen]) -> Vec<usize> {
    let here = std::thread::current().id();
    let is_read = |seen: &&Seen| match seen {
        Seen::Get(.., thread) | Seen::Scan(.., thread) => *thread == here,
        Seen::Commit => false,
    };
    let parts = seen.split(|seen| *seen == Seen::Commit);
    parts.map(|part| part.iter().filter(is_read).count()).collect()
}

fn person(number: u32) -> postrider_domain::UserId {
    format!("US.{number}").parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_command_reads_few_records_in_the_actor_whatever_a_callback_reports() {
    let (engine, store) = begin().await;
    let acme = workspace(&engine, "acme", 10).await;
    let line = number(&engine).await;
    let one = |kind: &str, of: u32, names: [bool; 2]| {
        let text = if of.is_multiple_of(3) { "STOP" } else { "Hi" };
        wrote(phone(of), &format!("{kind}-{of}"), START).inbound.into_iter().map(move |it| {
            let from = names[0].then(|| phone(of));
            let user_id = names[1].then(|| person(of));
            Inbound { from, user_id, text: text.into(), ..it }
        })
    };
    // Strangers by one name each, then by both names of one person, then the same again.
    let mut emitted = Vec::new();
    for (kind, names) in [
        ("phone", [true, false]),
        ("id", [false, true]),
        ("both", [true, true]),
        ("more", [true; 2]),
    ] {
        let inbound: Vec<_> = (0..100).flat_map(|of| one(kind, of, names)).collect();
        store.hook.take();
        acme.receive(line, Callback { inbound, ..Callback::default() }).await.unwrap();
        let commands = commands(&store.hook.take());
        assert!(commands.iter().all(|reads| *reads <= 64), "{kind}: {commands:?}");
        emitted.push(commands.len());
    }
    // The reads beside the actor leave room for as many items as a command takes.
    assert!(emitted.iter().all(|commands| *commands <= 8), "{emitted:?} commands");
    let whole = whole_contacts(&store, &id("acme"));
    assert_eq!(whole.len(), 100);
    assert!(whole.iter().all(|contact| contact.phone.is_some() && contact.user_id.is_some()));
}

#[tokio::test(start_paused = true)]
async fn what_changes_while_records_are_read_ahead_is_seen() {
    let (engine, store) = begin().await;
    let acme = workspace(&engine, "acme", 10).await;
    let line = number(&engine).await;
    let inbound = (0..3).flat_map(|of| wrote(phone(of), &of.to_string(), START).inbound);
    let all = Callback { inbound: inbound.collect(), ..Callback::default() };
    // The first message is looked up before the last one.
    let last = all.inbound[2].message_id(line);
    let mut reached = store.hook.hold(Table::Received, last.as_bytes());
    let taking = tokio::spawn({
        let (acme, all) = (acme.clone(), all.clone());
        async move { acme.receive(line, all).await }
    });
    reached.recv().await.unwrap();
    acme.receive(line, wrote(phone(0), "0", START)).await.unwrap();
    store.hook.release();
    taking.await.unwrap().unwrap();
    let log = log(&acme).await;
    let received = kinds(&log).into_iter().filter(|kind| *kind == "message.received").count();
    assert_eq!(received, 3, "each message is taken once");
    assert_eq!(whole_contacts(&store, &id("acme")).len(), 3);
}
