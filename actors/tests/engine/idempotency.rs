//! Answers under idempotency keys expire after a day.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use postrider_domain::Timestamp;
use postrider_store::{Direction, MemoryStore, Table, View};
use postrider_workspace::sweep::SLICE_MAX;
use postrider_workspace::{IdempotencyKey, Route};

use postrider_actors::{
    Clock, CustomStore, Durability, Engine, EngineOptions, MasterKeys, SendOtp,
};

use crate::support::LONG;

fn answers(store: &dyn View) -> usize {
    let mut count = 0;
    let mut visit = |_: &[u8], _: &[u8]| {
        count += 1;
        ControlFlow::Continue(())
    };
    store.scan(Table::Idempotency, b"", None, Direction::Forward, &mut visit).unwrap();
    count
}

#[tokio::test(start_paused = true)]
async fn answers_are_forgotten_after_a_day() {
    let store = Arc::new(MemoryStore::new());
    let mut options = EngineOptions::in_memory(MasterKeys::single([7; 32]));
    options.durability = Durability::Custom(CustomStore(store.clone()));
    options.clock = Clock::manual(Timestamp::from_millis(1_700_000_000_000));
    let engine = Engine::start(options).await.unwrap();
    let id = "acme".parse().unwrap();
    engine.admin().create_workspace("acme".parse().unwrap(), String::new()).await.unwrap();
    engine.admin().set_credits(&id, 10_000).await.unwrap();
    engine.admin().connect_sandbox_number(&id).await.unwrap();
    let acme = engine.workspace(&id).unwrap();
    let send = async |number: u32| {
        let command = SendOtp::to(format!("+1555{number:07}").parse().unwrap());
        let key = IdempotencyKey::new(Route::SendOtp, &number.to_string(), b"");
        acme.send_otp_once(command, key).await.unwrap().replayed
    };
    for number in 0..SLICE_MAX as u32 + 100 {
        assert!(!send(number).await);
    }
    engine.advance_clock(Duration::from_secs(3600)).await.unwrap();
    assert!(!send(1_000_000).await && send(1_000_000).await && send(5).await);
    assert_eq!(answers(store.as_ref()), 2 * (SLICE_MAX + 101));
    engine.advance_clock(Duration::from_secs(23 * 3600)).await.unwrap();
    assert_eq!(answers(store.as_ref()), 2, "one is an hour younger");
    assert!(send(1_000_000).await);
    // The key is used again right before its old expiry is checked.
    engine.clock().advance(Duration::from_secs(3600));
    assert!(!send(1_000_000).await);
    engine.advance_clock(Duration::from_secs(1)).await.unwrap();
    assert!(send(1_000_000).await, "its new answer stays");
    engine.shutdown(LONG).await.unwrap();
}
