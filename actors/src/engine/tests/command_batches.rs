//! Tests that commands which wait together are submitted together, with an answer for each.

use std::collections::BTreeSet;

use postrider_domain::Limits;
use postrider_store::MemoryStore;
use tokio::task::JoinSet;

use super::message_commands::{send_message, send_message_under, welcome};
use super::support::messages::wrote;
use super::*;
use crate::{ConversationFilter, IdempotentError, ReadOtpError, SendMessageError, SendOtpError};

/// The number of phones that a code is sent to at once.
const SENDS: u32 = 40;
/// The phone for which a second code is requested, although it may have one only.
const TWICE: u32 = 17;

#[tokio::test(start_paused = true)]
async fn commands_that_wait_together_share_a_submit() {
    let limits = Limits { otp_per_phone_10m: 1, ..Limits::default() };
    let engine = EngineOptions { limits, ..options(MemoryStore::new(), START) };
    let engine = Engine::start(engine).await.unwrap();
    let acme = workspace(&engine, "acme", 10_000).await;
    let first = acme.send_otp(SendOtp::to(phone(1_000))).await.unwrap();
    let batches = || engine.shared().writer.stats().batches;
    let before = batches();

    let (mut sends, mut others) = (JoinSet::new(), JoinSet::new());
    for number in (0..SENDS).chain([TWICE]) {
        let acme = acme.clone();
        sends.spawn(async move { acme.send_otp(SendOtp::to(phone(number))).await });
        // In the midst of them are commands that are submitted alone, or not at all.
        if number == TWICE {
            let (reader, renamer) = (others_of(&engine), others_of(&engine));
            others.spawn(async move {
                let unknown = RequestId::from_parts(START, 0);
                assert_eq!(reader.otp(unknown).await.err(), Some(ReadOtpError::NotFound));
            });
            others.spawn(async move {
                assert_eq!(renamer.rename("New".into()).await.unwrap().name, "New");
            });
        }
    }
    let (mut sent, mut refused) = (BTreeSet::new(), 0);
    while let Some(answer) = sends.join_next().await {
        match answer.unwrap() {
            Ok(answer) => assert!(sent.insert(answer.request_id)),
            Err(SendOtpError::PhoneLimit { .. }) => refused += 1,
            Err(other) => panic!("{other}"),
        }
    }
    while let Some(done) = others.join_next().await {
        done.unwrap();
    }
    assert_eq!((sent.len(), refused), (SENDS as usize, 1));
    let submitted = batches() - before;
    assert!(submitted < u64::from(SENDS) / 2, "{submitted} submits");

    // Each code is known, and was paid for once. Verifications that run together have their own
    // answers.
    assert_eq!(credits(&engine, "acme").await, 10_000 - 1 - u64::from(SENDS));
    let mut verifies = JoinSet::new();
    for (request, right) in sent.into_iter().map(|it| (it, false)).chain([(first.request_id, true)])
    {
        let (acme, code) = (acme.clone(), code(&id("acme"), request, phone(1_000)));
        let code = if right { code } else { "nonsense".to_owned() };
        verifies.spawn(async move { (right, acme.verify_otp(request, &code).await) });
    }
    while let Some(verified) = verifies.join_next().await {
        let expected = match verified.as_ref().unwrap().0 {
            true => Verification::Verified,
            false => Verification::Wrong { attempts_remaining: 4 },
        };
        assert_eq!(verified.unwrap().1, Ok(expected));
    }
    engine.shutdown(LONG).await.unwrap();
}

/// Messages use the same path, also those that depend on the changes of earlier ones.
#[tokio::test(start_paused = true)]
async fn messages_that_wait_together_share_a_submit() {
    let engine = Engine::start(options(MemoryStore::new(), START)).await.unwrap();
    let acme = workspace(&engine, "acme", 45).await;
    acme.create_template(welcome()).await.unwrap();
    let number = engine.admin().numbers(&id("acme")).await.unwrap()[0].id;
    // The conversation counts its messages.
    acme.receive(number, wrote(phone(1), "first", START)).await.unwrap();
    let batches = || engine.shared().writer.stats().batches;
    let before = batches();
    let mut sends = JoinSet::new();
    for of in 0..50_u32 {
        let acme = acme.clone();
        sends.spawn(async move { send_message(&acme, phone(of % 2)).await });
    }
    let (mut sent, mut refused) = (BTreeSet::new(), 0);
    while let Some(answer) = sends.join_next().await {
        match answer.unwrap() {
            Ok(answer) => assert!(sent.insert(answer.message_id)),
            Err(SendMessageError::InsufficientCredits { .. }) => refused += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!((sent.len(), refused), (45, 5));
    let submitted = batches() - before;
    assert!(submitted <= 25, "{submitted} submits");
    assert_eq!(credits(&engine, "acme").await, 0);
    let filter = ConversationFilter::default();
    let of_one = acme.conversations(filter, 0, 1).await.unwrap().conversations.remove(0).0.id;
    let written = acme.conversation_messages(of_one, 0, 50).await.unwrap();
    assert_eq!(written.total, 23, "one came, and half of those sent went there");
    for message in sent {
        assert!(acme.message(message).await.unwrap().is_some());
    }
    engine.shutdown(LONG).await.unwrap();
}

/// Two messages with one key at once are one message.
#[tokio::test(start_paused = true)]
async fn a_key_is_seen_among_what_waits_together() {
    let engine = Engine::start(options(MemoryStore::new(), START)).await.unwrap();
    let acme = workspace(&engine, "acme", 10).await;
    acme.create_template(welcome()).await.unwrap();
    let mut sends = JoinSet::new();
    for _ in 0..4 {
        let acme = acme.clone();
        sends.spawn(async move { send_message_under(&acme, phone(1), Some("key")).await });
    }
    let mut sent = BTreeSet::new();
    while let Some(answer) = sends.join_next().await {
        match answer.unwrap() {
            Ok(answer) => drop(sent.insert(answer.answer.message_id)),
            Err(IdempotentError::UnderWay) => {}
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!((sent.len(), credits(&engine, "acme").await), (1, 9));
    engine.shutdown(LONG).await.unwrap();
}

fn others_of(engine: &Engine) -> Workspace {
    engine.workspace(&id("acme")).unwrap()
}
