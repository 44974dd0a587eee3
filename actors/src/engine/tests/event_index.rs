//! Tests that an event log is indexed beside the actors, and its index is deleted with its events.

use postrider_domain::Limits;
use postrider_store::MemoryStore;
use postrider_store::view::event_index::{self, BLOCK_EVENTS};
use postrider_workspace::EventFilter;

use super::*;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Returns the blocks of the workspace's index.
fn blocks(store: &MemoryStore) -> Vec<u64> {
    event_index::blocks_before(store, &id("acme"), (0, u64::MAX), 100).unwrap()
}

/// Returns the number of events about a phone, and whether the search covers all events.
async fn about(acme: &Workspace, number: u32) -> (usize, bool) {
    let filter = EventFilter { types: None, about: vec![phone(number).to_string()] };
    let page = acme.events_back(None, 10, filter).await.unwrap();
    (page.entries.len(), page.next_before.is_none())
}

#[tokio::test(start_paused = true)]
async fn a_log_is_indexed_by_itself_and_its_index_goes_with_it() {
    let store = MemoryStore::new();
    let limits = Limits { otp_per_workspace_hour: 100_000, ..Limits::default() };
    let options = EngineOptions { limits, ..options(store.clone(), START) };
    let engine = Engine::start(options).await.unwrap();
    let acme = workspace(&engine, "acme", 100_000).await;
    let sends = u32::try_from(BLOCK_EVENTS).unwrap();
    for number in 0..sends - 1 {
        acme.send_otp(SendOtp::to(phone(number))).await.unwrap();
    }
    engine.beat().await;
    assert_eq!((blocks(&store), about(&acme, 7).await), (vec![], (1, true)));
    acme.send_otp(SendOtp::to(phone(sends))).await.unwrap();
    until("a block is full", async || blocks(&store) == [0]).await;
    assert_eq!((about(&acme, 7).await, about(&acme, sends).await), ((1, true), (1, true)));
    // The codes end, which makes as many events again; the events of the sends are deleted by age.
    engine.pass(DAY).await;
    until("they are indexed", async || blocks(&store) == [0, 1]).await;
    assert_eq!(about(&acme, 7).await, (2, true));
    engine.pass(40 * DAY).await;
    until("they go", async || !blocks(&store).contains(&0)).await;
}
