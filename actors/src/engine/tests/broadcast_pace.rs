//! Tests the rate at which a number sends a broadcast, and that a one-time password overtakes it.

use super::support::broadcasts::{becomes, broadcast_to, create, with_template};
use super::*;
use crate::{BroadcastStatus, EngineOptions, ScriptedOutcome};
use postrider_store::{Change, Group, Keep, Table};

/// The step in which engine time passes.
const STEP: Duration = Duration::from_millis(100);
/// The number of measured seconds, after the first one, in which a bucket's worth leaves at once.
const SECONDS: u64 = 30;

fn sent(engine: &Engine) -> u32 {
    u32::try_from(engine.sandbox().count(&id("acme"))).unwrap()
}

async fn with_pace(store: CrashingStore, rate: u32) -> Engine {
    let number_messages_per_second = Some(rate);
    let options = EngineOptions { number_messages_per_second, ..options(store, START) };
    Engine::start(options).await.unwrap()
}

/// Sends a broadcast at this rate for a while, and a one-time password in the middle.
async fn at(rate: u32) {
    let engine = with_pace(CrashingStore::new(), rate).await;
    let acme = with_template(&engine).await;
    let sale = create(&acme, broadcast_to(rate * 40)).await;
    becomes(&acme, sale, BroadcastStatus::Sending).await;
    let sent = || sent(&engine);
    let steps_per_second = 1000 / STEP.as_millis() as u64;
    let mut counted = Vec::new();
    for step in 0..=(SECONDS + 1) * steps_per_second {
        // All messages that the pace allows leave, if the broadcast keeps up with it. At first it
        // is a bucket's worth except a tenth, which is reserved for the first lane.
        let allowed = rate * 9 / 10 + rate * (step as u32) / (steps_per_second as u32);
        until("the pace is kept", async || sent() + 1 >= allowed).await;
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        counted.push(sent());
        if step == SECONDS / 2 * steps_per_second {
            overtakes(&engine, &acme, sale).await;
        }
        engine.clock().advance(STEP);
    }
    let first = counted[steps_per_second as usize];
    let measured = f64::from(counted[counted.len() - 1] - first) / SECONDS as f64;
    let off = (measured / f64::from(rate) - 1.0).abs();
    assert!(off <= 0.02, "{measured} messages a second instead of {rate}");
}

/// Checks that a one-time password leaves next, whatever waits.
async fn overtakes(engine: &Engine, acme: &Workspace, sale: postrider_domain::BroadcastId) {
    let to = phone(9_999_999);
    let before = sent(engine);
    acme.send_otp(SendOtp::to(to)).await.unwrap();
    until("the one-time password", async || {
        engine.clock().advance(Duration::from_millis(1));
        !engine.sandbox().messages(&id("acme"), Some(to), 1).is_empty()
    })
    .await;
    let between = sent(engine) - before;
    assert!(between <= 20, "{between} messages went before it");
    assert_eq!(acme.broadcast(sale).await.unwrap().status, BroadcastStatus::Sending);
}

#[tokio::test(start_paused = true)]
async fn a_broadcast_keeps_the_pace_of_eighty_a_second() {
    at(80).await;
}

#[tokio::test(start_paused = true)]
async fn a_broadcast_keeps_the_pace_of_a_thousand_a_second() {
    at(1000).await;
}

/// Recipients that their number does not reach for seconds are not claimed. So they are sent to
/// after a crash.
#[tokio::test(start_paused = true)]
async fn little_of_a_slow_broadcast_is_unknown_after_a_crash() {
    let store = CrashingStore::new();
    let engine = with_pace(store.clone(), 80).await;
    let acme = with_template(&engine).await;
    let sale = create(&acme, broadcast_to(2000)).await;
    until("a bucket's worth", async || sent(&engine) >= 72).await;
    engine.clock().advance(Duration::from_secs(1));
    until("a second's worth", async || sent(&engine) >= 140).await;
    let store = store.crash(Keep::Nothing);
    engine.inner.root.kill();
    let engine = with_pace(store, 0).await;
    let acme = engine.workspace(&id("acme")).unwrap();
    let done = becomes(&acme, sale, BroadcastStatus::Completed).await;
    assert!(done.counts.sent >= 2000 - 2 * 80, "{:?}", done.counts);
}

/// Each answer takes five seconds: messages with the channel do not delay the others.
///
/// The limit follows the duration of answers by the machine's clock, once there are a hundred of
/// them, so these are fewer. The limit's own tests prove that it ignores a channel that is always
/// slow.
#[tokio::test(start_paused = true)]
async fn a_slow_channel_is_kept_busy() {
    let engine = with_pace(CrashingStore::new(), 80).await;
    let acme = with_template(&engine).await;
    engine.sandbox().script(&id("acme"), None, ScriptedOutcome::Slow, None);
    let number = engine.admin().numbers(&id("acme")).await.unwrap()[0].id;
    let in_flight = async || engine.shared().numbers.figures(number).await.in_flight;
    let sale = create(&acme, broadcast_to(500)).await;
    becomes(&acme, sale, BroadcastStatus::Sending).await;
    let mut answered = 0;
    // It starts with 16, and grows with the answers while at least half of it is used.
    for at_once in [16, 22, 30] {
        until("they are with the channel", async || in_flight().await >= at_once).await;
        answered += at_once as u32;
        until("they are answered", async || {
            engine.pass(Duration::from_secs(1)).await;
            sent(&engine) >= answered
        })
        .await;
    }
    until("yet more are with it", async || in_flight().await >= 41).await;
}

/// A held engine's claims would be unknown after a crash, and none of them would be sent.
#[tokio::test(start_paused = true)]
async fn a_held_engine_claims_nothing_of_a_broadcast_that_runs() {
    let store = CrashingStore::new();
    let engine = with_pace(store.clone(), 100).await;
    let acme = with_template(&engine).await;
    let sale = create(&acme, broadcast_to(1_000)).await;
    becomes(&acme, sale, BroadcastStatus::Sending).await;
    until("some are sent", async || sent(&engine) >= 50).await;
    let mut store = store.crash(Keep::Nothing);
    engine.inner.root.kill();
    // The change that makes a restored copy a held one.
    store.begin_epoch().unwrap();
    let held = Change::put(Table::Meta, *b"held", [1, 0, 0, 0, 0, 0, 0, 0, 0]);
    store.commit(Group::new(None, &[held])).unwrap();
    let mut counts = Vec::new();
    for _ in 0..3 {
        let engine = with_pace(store.clone(), 100).await;
        assert!(engine.health().held);
        for _ in 0..20 {
            engine.pass(Duration::from_secs(1)).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        assert_eq!(sent(&engine), 0);
        let acme = engine.workspace(&id("acme")).unwrap();
        let found = acme.broadcast(sale).await.unwrap();
        assert_eq!(found.status, BroadcastStatus::Sending);
        counts.push(found.counts);
        store = store.crash(Keep::Nothing);
        engine.inner.root.kill();
    }
    assert!(counts.windows(2).all(|pair| pair[0] == pair[1]), "{counts:?}");
}
