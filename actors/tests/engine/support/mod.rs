//! The shared tools of the engine's tests, including those in the crate.

pub(crate) mod broadcasts;
pub(crate) mod messages;

use std::sync::Arc;
use std::time::Duration;

use postrider_actors::{
    Clock, CloudApiOptions, CustomStore, Durability, Engine, EngineOptions, EventEntry, MasterKeys,
    Workspace,
};
use postrider_domain::{Phone, Timestamp, WorkspaceId};
use postrider_runtime::clock::Stopwatch;
use postrider_store::{CrashingStore, Store};

/// The time at which every test starts.
pub(crate) const START: Timestamp = Timestamp::from_millis(1_700_000_000_000);
/// Longer than any wait: on the paused clock it costs nothing.
pub(crate) const LONG: Duration = Duration::from_secs(1_000);

pub(crate) fn phone(number: u32) -> Phone {
    format!("+1555{number:07}").parse().unwrap()
}

pub(crate) fn id(name: &str) -> WorkspaceId {
    name.parse().unwrap()
}

pub(crate) fn options(store: impl Store, now: Timestamp) -> EngineOptions {
    EngineOptions {
        durability: Durability::Custom(CustomStore(Arc::new(store))),
        clock: Clock::manual(now),
        // Nobody listens here.
        cloud_api: CloudApiOptions {
            base_url: "http://127.0.0.1:9".to_owned(),
            ..CloudApiOptions::default()
        },
        ..EngineOptions::in_memory(MasterKeys::single([7; 32]))
    }
}

/// Starts an engine on this store.
pub(crate) async fn engine(store: &CrashingStore, now: Timestamp) -> Engine {
    Engine::start(options(store.clone(), now)).await.unwrap()
}

/// Creates a workspace with a number and these credits.
pub(crate) async fn workspace(engine: &Engine, name: &str, credits: u64) -> Workspace {
    engine.admin().create_workspace(id(name), name.to_owned()).await.unwrap();
    engine.admin().set_credits(&id(name), credits).await.unwrap();
    engine.admin().connect_sandbox_number(&id(name)).await.unwrap();
    engine.workspace(&id(name)).unwrap()
}

/// Advances engine time.
pub(crate) trait PassTime {
    /// Notifies the workspaces that time has passed, and waits until they have handled it.
    async fn beat(&self);

    /// Advances engine time without keeping the offset, as the system's clock would.
    async fn pass(&self, step: Duration);
}

impl PassTime for Engine {
    async fn beat(&self) {
        self.advance_clock(Duration::ZERO).await.unwrap();
    }

    async fn pass(&self, step: Duration) {
        self.clock().advance(step);
        self.beat().await;
    }
}

/// Waits until a condition holds. Time that only passes on the paused clock does not count.
pub(crate) async fn until(what: &str, holds: impl AsyncFn() -> bool) {
    let watch = Stopwatch::start();
    while !holds().await {
        assert!(watch.elapsed() < Duration::from_secs(60), "this never came: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
        // The store's thread may need this core.
        std::thread::yield_now();
    }
}

/// Returns the whole event log.
pub(crate) async fn log(workspace: &Workspace) -> Vec<EventEntry> {
    workspace.events(0, usize::MAX, None).await.unwrap().entries
}

pub(crate) async fn credits(engine: &Engine, name: &str) -> u64 {
    engine.admin().workspace(&id(name)).await.unwrap().credits
}
