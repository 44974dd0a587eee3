//! Tests a full writer's queue: commands are refused at once, and no actor dies of it.

use postrider_domain::Limits;
use postrider_store::hooked::Gated;
use tokio::task::JoinSet;

use super::*;
use crate::{SendOtpError, Unavailable};

#[tokio::test(start_paused = true)]
async fn a_full_queue_refuses_commands_at_once_and_kills_no_actor() {
    let store = Gated::default();
    let limits = Limits { otp_per_workspace_hour: 0, otp_per_phone_10m: 0, ..Limits::default() };
    let engine =
        EngineOptions { queued_bytes_max: 100_000, limits, ..options(store.clone(), START) };
    let engine = Engine::start(engine).await.unwrap();
    let both = [workspace(&engine, "a", 10_000).await, workspace(&engine, "b", 10_000).await];
    for workspace in &both {
        workspace.send_otp(SendOtp::to(phone(0))).await.unwrap();
    }
    let actors = || ["a", "b"].map(|name| engine.actor(name).unwrap());
    let before = actors();

    store.shut();
    let mut under_way = JoinSet::new();
    let mut send = |count: u32| {
        for (at, number) in (0..count).enumerate() {
            let to = both[at % 2].clone();
            under_way.spawn(async move { to.send_otp(SendOtp::to(phone(number))).await });
        }
    };
    let writer = &engine.shared().writer;
    send(5_000);
    until("there is no room", async || !writer.has_room()).await;
    let full = Err(SendOtpError::Unavailable(Unavailable::because(UnavailableReason::Overloaded)));
    // Nothing is committed meanwhile, so these are answered without a wait.
    for number in 0..100 {
        assert_eq!(both[number % 2].send_otp(SendOtp::to(phone(1))).await, full);
        let unknown = RequestId::from_parts(START, 0);
        let why = both[number % 2].verify_otp(unknown, "123456").await.unwrap_err();
        assert_eq!(why.to_string(), "too many requests are under way");
    }
    store.open();
    let mut sent = 2;
    while let Some(answer) = under_way.join_next().await {
        match answer.unwrap() {
            Ok(_) => sent += 1,
            refused => assert_eq!(refused, full, "no outcome is unknown"),
        }
    }
    assert!((100..5_000).contains(&sent), "{sent} sent");
    assert_eq!(actors(), before, "none has died");
    assert_eq!(credits(&engine, "a").await + credits(&engine, "b").await, 20_000 - sent);
    until("there is room again", async || writer.has_room()).await;
    both[0].send_otp(SendOtp::to(phone(1))).await.unwrap();
    engine.shutdown(LONG).await.unwrap();
}
