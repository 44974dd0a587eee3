//! Tests of bounds on work in progress, and of the engine's stop.

use tokio::task::JoinSet;

use crate::engine::AdmissionOptions;
use crate::{
    ChangeError, OtpSent, ReadOtpError, ScriptedOutcome, SendOtpError, ShutdownError, Unavailable,
};
use postrider_domain::Limits;

use super::*;
use postrider_store::hooked::Gated;

fn refused(reason: UnavailableReason) -> Result<OtpSent, SendOtpError> {
    Err(Unavailable::because(reason).into())
}

/// Starts sends to different phones, and lets them run as far as they can.
async fn begin(to: &Workspace, count: u32) -> JoinSet<Result<OtpSent, SendOtpError>> {
    let mut under_way = JoinSet::new();
    for number in 0..count {
        let to = to.clone();
        under_way.spawn(async move { to.send_otp(SendOtp::to(phone(number))).await });
    }
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    under_way
}

fn bounded(store: &Gated, own: usize, total: usize) -> EngineOptions {
    EngineOptions {
        admission: AdmissionOptions { in_flight_per_workspace: own, in_flight_total: total },
        limits: Limits { otp_per_workspace_hour: 0, ..Limits::default() },
        ..options(store.clone(), START)
    }
}

#[tokio::test(start_paused = true)]
async fn beyond_the_bounds_a_command_is_refused_at_once() {
    let store = Gated::default();
    let engine = Engine::start(bounded(&store, 3, 5)).await.unwrap();
    let (one, two) = (workspace(&engine, "a", 100).await, workspace(&engine, "b", 100).await);
    store.shut();
    let first = begin(&one, 3).await;
    let overloaded = || refused(UnavailableReason::Overloaded);
    assert_eq!(one.send_otp(SendOtp::to(phone(9))).await, overloaded(), "its own bound");
    let second = begin(&two, 2).await;
    assert_eq!(two.send_otp(SendOtp::to(phone(9))).await, overloaded(), "that of all");
    let unknown = RequestId::from_parts(START, 0);
    let read = two.otp(unknown).await;
    let why = Unavailable::because(UnavailableReason::Overloaded);
    assert_eq!(read, Err(ReadOtpError::Unavailable(why.clone())));
    assert_eq!(two.events(0, 1, None).await, Err(why.clone()));
    let change = engine.admin().add_credits(&id("a"), 1).await;
    assert_eq!(change, Err(ChangeError::Unavailable(why).into()));
    assert_eq!(engine.shared().admission.in_flight(), 5);

    store.open();
    for answer in first.join_all().await.into_iter().chain(second.join_all().await) {
        answer.unwrap();
    }
    assert_eq!(engine.shared().admission.in_flight(), 0, "every permit came back");
    one.send_otp(SendOtp::to(phone(9))).await.unwrap();
    assert_eq!(credits(&engine, "a").await, 96, "a refused one cost nothing");
    engine.shutdown(LONG).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_gives_its_place_back() {
    let store = Gated::default();
    let engine = Engine::start(bounded(&store, 2, 10)).await.unwrap();
    let acme = workspace(&engine, "acme", 100).await;
    store.shut();
    let mut under_way = begin(&acme, 2).await;
    under_way.shutdown().await;
    store.open();
    until("its permits are back", async || engine.shared().admission.in_flight() == 0).await;
    assert_eq!(credits(&engine, "acme").await, 98, "what was begun is done");
}

#[tokio::test(start_paused = true)]
async fn a_drain_answers_what_was_admitted_and_refuses_the_rest() {
    let store = Gated::default();
    let engine = Engine::start(bounded(&store, 1000, 1000)).await.unwrap();
    let acme = workspace(&engine, "acme", 1000).await;
    store.shut();
    let under_way = begin(&acme, 200).await;
    let stopping = tokio::spawn({
        let engine = engine.clone();
        async move { engine.shutdown(LONG).await }
    });
    until("it drains", async || !engine.health().ready).await;
    let later = acme.send_otp(SendOtp::to(phone(999))).await;
    assert_eq!(later, refused(UnavailableReason::Draining));
    assert_eq!(engine.health().reasons, ["shutting down"]);
    assert!(!stopping.is_finished());
    store.open();
    let sent: Vec<_> = under_way.join_all().await.into_iter().map(Result::unwrap).collect();
    stopping.await.unwrap().unwrap();
    let after = acme.send_otp(SendOtp::to(phone(999))).await;
    assert_eq!(after, refused(UnavailableReason::Draining));
    assert!(engine.advance_clock(Duration::from_secs(1)).await.is_err());
    drop((engine, acme));

    let engine = Engine::start(bounded(&store, 1000, 1000)).await.unwrap();
    let acme = engine.workspace(&id("acme")).unwrap();
    assert_eq!(sent.len(), 200);
    for sent in sent {
        assert_eq!(acme.otp(sent.request_id).await.unwrap().expires_at, sent.expires_at);
    }
    assert_eq!(credits(&engine, "acme").await, 800);
    engine.shutdown(LONG).await.unwrap();
}

/// The same under load from several threads. Each command is done or refused, and the changes of
/// the done ones exist.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_under_load_loses_nothing() {
    for round in 0..20 {
        let store = Gated::default();
        let engine = Engine::start(bounded(&store, 1000, 1000)).await.unwrap();
        let acme = workspace(&engine, "acme", 100_000).await;
        let mut callers = JoinSet::new();
        for caller in 0..4 {
            let acme = acme.clone();
            callers.spawn(async move {
                let mut sent = Vec::new();
                for number in 0.. {
                    match acme.send_otp(SendOtp::to(phone(caller * 1_000_000 + number))).await {
                        Ok(done) => sent.push(done),
                        Err(why) => {
                            assert_eq!(Err(why), refused(UnavailableReason::Draining));
                            break;
                        }
                    }
                }
                sent
            });
        }
        for _ in 0..round * 20 {
            tokio::task::yield_now().await;
        }
        engine.shutdown(Duration::from_secs(30)).await.unwrap();
        let sent: Vec<_> = callers.join_all().await.into_iter().flatten().collect();
        drop((engine, acme));
        let engine = Engine::start(bounded(&store, 1000, 1000)).await.unwrap();
        let acme = engine.workspace(&id("acme")).unwrap();
        assert_eq!(credits(&engine, "acme").await, 100_000 - sent.len() as u64);
        for sent in &sent {
            acme.otp(sent.request_id).await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_channel_is_not_waited_for_to_the_end() {
    let store = CrashingStore::new();
    let first = engine(&store, START).await;
    let acme = workspace(&first, "acme", 10).await;
    first.sandbox().script(&id("acme"), None, ScriptedOutcome::Slow, None);
    let sent = acme.send_otp(SendOtp::to(phone(1))).await.unwrap();
    // The channel has half of it and takes all the time, for engine time does not move. The other
    // half must outlast the commits, during which the paused clock moves.
    first.shutdown(LONG).await.unwrap();
    drop((first, acme));
    let second = engine(&store, START).await;
    let acme = second.workspace(&id("acme")).unwrap();
    until("it is sent", async || {
        let state = acme.otp(sent.request_id).await;
        state.is_ok_and(|otp| otp.delivery == crate::Delivery::Sent)
    })
    .await;
    assert_eq!(second.sandbox().messages(&id("acme"), None, 10).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_ends_the_time_given() {
    let store = Gated::default();
    let engine = Engine::start(bounded(&store, 10, 10)).await.unwrap();
    let acme = workspace(&engine, "acme", 10).await;
    store.shut();
    let under_way = begin(&acme, 1).await;
    let access = engine.access().clone();
    let stopping = tokio::spawn(async move { engine.shutdown(Duration::from_secs(10)).await });
    for host in 0..30 {
        // Used buckets would be saved at the end, if the store allowed it.
        assert_eq!(access.admit_address([192, 0, 2, host].into()).refused, None);
        // By hand: a thread that blocks keeps the paused clock from moving by itself.
        tokio::time::advance(Duration::from_secs(1)).await;
    }
    until("it gives up", async || stopping.is_finished()).await;
    assert_eq!(stopping.await.unwrap(), Err(ShutdownError::TimedOut));
    store.open();
    drop(under_way);
}

#[tokio::test(start_paused = true)]
async fn a_second_shutdown_finds_nothing_to_do() {
    let store = CrashingStore::new();
    let engine = engine(&store, START).await;
    workspace(&engine, "acme", 10).await;
    let (one, two) = tokio::join!(engine.shutdown(LONG), engine.shutdown(LONG));
    assert_eq!((one, two), (Ok(()), Ok(())));
    assert_eq!(engine.shutdown(LONG).await, Ok(()));
}
