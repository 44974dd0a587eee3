//! The engine as a whole, on stores that fail and crash when told to.
//!
//! The tests run on tokio's paused clock: whenever nothing else can be done, its timers fire at
//! once, so that restarts, beats and retries take no time. Engine time is a manual clock's.

mod access;
mod admin;
mod answers;
mod broadcast_control;
mod broadcast_counts;
mod broadcast_pace;
mod broadcast_records;
mod broadcasts;
mod callbacks;
mod channels;
mod claims;
mod clock;
mod contact_index;
mod contacts;
mod conversations;
mod crashes;
mod deleted_contacts;
mod drain;
mod idempotency;
mod message_commands;
mod messages;
mod model;
mod numbers;
mod opt_outs;
mod pace;
mod panics;
mod passivation;
mod places;
mod scripted;
mod second_number;
mod snapshots;
mod supervision;
mod told_messages;
mod webhooks;

use std::sync::Arc;
use std::time::Duration;

use crate::{
    Clock, CloudApiOptions, CustomStore, Durability, Engine, EngineOptions, EventEntry, MasterKeys,
    Verification, Workspace,
};
use postrider_domain::code::CodeLength;
use postrider_domain::unavailable::UnavailableReason;
use postrider_domain::{Phone, RequestId, Timestamp};
use postrider_runtime::clock::Stopwatch;
use postrider_store::CrashingStore;
use postrider_workspace::core::otp::types::SendOtp;

use super::Services;
use postrider_domain::WorkspaceId;
use postrider_store::Store;

/// When every test begins.
const START: Timestamp = Timestamp::from_millis(1_700_000_000_000);
/// More than anything takes: on the paused clock it costs nothing.
const LONG: Duration = Duration::from_secs(1_000);

fn phone(number: u32) -> Phone {
    format!("+1555{number:07}").parse().unwrap()
}

fn id(name: &str) -> WorkspaceId {
    name.parse().unwrap()
}

fn options(store: impl Store, now: Timestamp) -> EngineOptions {
    EngineOptions {
        durability: Durability::Custom(CustomStore(Arc::new(store))),
        clock: Clock::manual(now),
        // Where nobody is.
        cloud_api: CloudApiOptions {
            base_url: "http://127.0.0.1:9".to_owned(),
            ..CloudApiOptions::default()
        },
        ..EngineOptions::in_memory(MasterKeys::single([7; 32]))
    }
}

/// An engine on this store.
async fn engine(store: &CrashingStore, now: Timestamp) -> Engine {
    Engine::start(options(store.clone(), now)).await.unwrap()
}

/// Makes a workspace with a number and these credits.
async fn workspace(engine: &Engine, name: &str, credits: u64) -> Workspace {
    engine.admin().create_workspace(id(name), name.to_owned()).await.unwrap();
    engine.admin().set_credits(&id(name), credits).await.unwrap();
    engine.admin().connect_sandbox_number(&id(name)).await.unwrap();
    engine.workspace(&id(name)).unwrap()
}

impl Engine {
    fn shared(&self) -> &Arc<Services> {
        &self.inner.shared
    }

    /// Tells the workspaces that time has passed, and waits until they have seen to it.
    async fn beat(&self) {
        self.advance_clock(Duration::ZERO).await.unwrap();
    }

    /// Passes engine time without keeping the offset, as the system's clock would.
    async fn pass(&self, step: Duration) {
        self.clock().advance(step);
        self.beat().await;
    }

    /// The actor of a workspace that runs.
    fn actor(&self, name: &str) -> Option<ractor::ActorId> {
        let slot = self.shared().workspaces.slot(&id(name)).unwrap();
        slot.live().map(|actor| actor.get_id())
    }
}

/// The code that the test's master key gives a request.
fn code(workspace: &WorkspaceId, request: RequestId, to: Phone) -> String {
    let keys = MasterKeys::single([7; 32]).code_keys(workspace);
    keys.code(1, request, to, CodeLength::default()).unwrap().reveal()
}

/// Waits until something holds. Time that only passes on the paused clock is not waited for.
async fn until(what: &str, holds: impl AsyncFn() -> bool) {
    let watch = Stopwatch::start();
    while !holds().await {
        assert!(watch.elapsed() < Duration::from_secs(20), "this never came: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
        // The store's thread may need this core.
        std::thread::yield_now();
    }
}

/// Waits until a workspace answers again after a failure.
async fn healed(workspace: &Workspace) {
    let unknown = RequestId::from_parts(START, 0);
    until("the workspace answers", async || {
        matches!(workspace.otp(unknown).await, Err(crate::ReadOtpError::NotFound))
    })
    .await;
}

/// The whole event log.
async fn log(workspace: &Workspace) -> Vec<EventEntry> {
    workspace.events(0, usize::MAX, None).await.unwrap().entries
}

fn kinds(log: &[EventEntry]) -> Vec<&'static str> {
    log.iter().map(|entry| entry.event.kind()).collect()
}

async fn credits(engine: &Engine, name: &str) -> u64 {
    engine.admin().workspace(&id(name)).await.unwrap().credits
}

/// Cases of a property test: `PROPTEST_CASES`, or as many as run well with the others.
fn cases(otherwise: u32) -> u32 {
    let given = std::env::var("PROPTEST_CASES").ok();
    given.and_then(|cases| cases.parse().ok()).unwrap_or(otherwise)
}
