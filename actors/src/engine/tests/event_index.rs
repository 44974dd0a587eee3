//! Tests that an event log is indexed beside the actors, and its index is deleted with its events.

use postrider_domain::{ContactName, CustomFields, Limits, Tags};
use postrider_store::MemoryStore;
use postrider_store::view::event_index::{self, BLOCK_EVENTS};
use postrider_workspace::EventFilter;

use super::*;
use crate::NewContact;

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

fn contact(number: u32) -> NewContact {
    NewContact {
        name: ContactName::new("Ana").unwrap(),
        phone: Some(phone(number)),
        email: None,
        tags: Tags::default(),
        custom_fields: CustomFields::new(&serde_json::json!({})).unwrap(),
    }
}

/// Makes a contact of each of these phones, which is an event each.
async fn make_contacts(acme: &Workspace, phones: std::ops::Range<u32>) {
    let all: Vec<_> = phones.map(contact).collect();
    for some in all.chunks(1_000) {
        let made = acme.create_contacts(some.to_vec(), None).await.unwrap().answer;
        assert!(made.iter().all(Result::is_ok));
    }
}

#[tokio::test(start_paused = true)]
async fn a_log_is_indexed_by_itself_and_its_index_goes_with_it() {
    let store = MemoryStore::new();
    let limits = Limits { contacts_per_minute: 100_000, ..Limits::default() };
    let options = EngineOptions { limits, ..options(store.clone(), START) };
    let engine = Engine::start(options).await.unwrap();
    let acme = workspace(&engine, "acme", 100_000).await;
    let block = u32::try_from(BLOCK_EVENTS).unwrap();
    make_contacts(&acme, 0..block - 1).await;
    engine.beat().await;
    assert_eq!((blocks(&store), about(&acme, 7).await), (vec![], (1, true)));
    make_contacts(&acme, block - 1..block).await;
    until("a block is full", async || blocks(&store) == [0]).await;
    assert_eq!((about(&acme, 7).await, about(&acme, block - 1).await), ((1, true), (1, true)));
    make_contacts(&acme, block..2 * block).await;
    until("the next one is full", async || blocks(&store) == [0, 1]).await;
    assert_eq!((about(&acme, 7).await, about(&acme, block + 7).await), ((1, true), (1, true)));
    engine.pass(40 * DAY).await;
    until("they go", async || !blocks(&store).contains(&0)).await;
}
