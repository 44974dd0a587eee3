//! Tests that a restarted number makes only its own workspace dispatch again.

use parking_lot::Mutex;
use postrider_store::hooked::{Hook, Hooked};
use postrider_store::{MemoryStore, Table};

use super::support::messages::{send, wrote};
use super::*;
use crate::ScriptedOutcome;

/// The keys of messages that were read.
#[derive(Debug, Clone, Default)]
struct Reads(Arc<Mutex<Vec<Vec<u8>>>>);

impl Hook for Reads {
    fn before_get(&self, table: Table, key: &[u8]) {
        if table == Table::Messages {
            self.0.lock().push(key.to_vec());
        }
    }
}

impl Reads {
    fn of(&self, workspace: &[u8]) -> usize {
        self.0.lock().iter().filter(|key| key.starts_with(workspace)).count()
    }
}

#[tokio::test(start_paused = true)]
async fn only_the_workspace_of_a_number_dispatches_again_when_it_restarts() {
    let store = Hooked { inner: MemoryStore::new(), hook: Reads::default() };
    let reads = store.hook.clone();
    let engine = Engine::start(options(store, START)).await.unwrap();
    for name in ["a", "b"] {
        let workspace = workspace(&engine, name, 10).await;
        let number = engine.admin().numbers(&id(name)).await.unwrap()[0].id;
        workspace.receive(number, wrote(phone(1), "in", START)).await.unwrap();
        engine.sandbox().script(&id(name), None, ScriptedOutcome::Unavailable, None);
        send(&workspace, phone(1)).await;
    }
    // Both have been tried, and no result of that is on its way to the workspaces any more.
    for name in ["a", "b"] {
        let number = engine.admin().numbers(&id(name)).await.unwrap()[0].id;
        until("the channel has failed", async || {
            let figures = engine.shared().numbers.figures(number).await;
            figures.failures > 0 && figures.in_flight == 0
        })
        .await;
    }
    // Their messages have records by now.
    engine.pass(Duration::from_secs(2)).await;
    engine.shared().writer.barrier().await.unwrap();
    reads.0.lock().clear();
    let number = engine.admin().numbers(&id("a")).await.unwrap()[0].id;
    engine.shared().numbers.slot(number).live().unwrap().kill();
    until("the number has restarted", async || reads.of(b"a\0") > 0).await;
    // Time moves when no thread reads any more.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(reads.of(b"b\0"), 0);
}
