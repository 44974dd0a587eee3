//! Tests of the engine as a whole, on stores that fail and crash on request.
//!
//! The tests run on tokio's paused clock: whenever no other work can run, its timers fire at once.
//! So restarts, beats and retries take no time. Engine time is a manual clock's.

mod answers;
mod broadcast_control;
mod broadcast_counts;
mod broadcast_pace;
mod broadcasts;
mod callbacks;
mod channels;
mod checkpoints;
mod claim_places;
mod claims;
mod command_batches;
mod contacts;
mod conversations;
mod crashes;
mod deleted_contacts;
mod drain;
mod emitted_messages;
mod event_index;
mod held_messages;
mod identity;
mod identity_model;
mod judged_engine;
mod message_bytes;
mod message_commands;
mod message_list;
mod message_retention;
mod messages;
mod model;
mod number_claims;
mod number_rest;
mod numbers;
mod otp_list;
mod overload;
mod passivation;
mod proven_phones;
mod races;
mod reads;
mod rebase;
mod rebuilds;
mod redispatch;
mod removal;
mod scans;
mod scripted;
mod shared_log;
mod snapshots;
mod supervision;
mod sweeps;
mod tenure;
mod three_engines;
mod unwritten_messages;
mod usage;
mod webhooks;

#[path = "../../tests/engine/support/mod.rs"]
mod support;

use std::sync::Arc;
use std::time::Duration;

use crate::{
    Clock, Engine, EngineOptions, EventEntry, MailOptions, MailTls, MasterKeys, Verification,
    Workspace,
};
use postrider_channel::email::inbound::InboundMail;
use postrider_domain::code::CodeLength;
use postrider_domain::unavailable::UnavailableReason;
use postrider_domain::{Email, Phone, RequestId, Timestamp};
use postrider_runtime::clock::Stopwatch;
use postrider_store::CrashingStore;
use postrider_workspace::core::otp::types::SendOtp;

use super::Services;
use postrider_domain::WorkspaceId;
use postrider_store::Store;
use support::*;

impl Engine {
    fn shared(&self) -> &Arc<Services> {
        &self.inner.shared
    }

    /// Returns the actor of a workspace that runs.
    fn actor(&self, name: &str) -> Option<ractor::ActorId> {
        let slot = self.shared().workspaces.slot(&id(name)).unwrap();
        slot.live().map(|actor| actor.get_id())
    }
}

/// Returns the options of a mail server at a port of this machine.
fn mail_server(port: u16) -> MailOptions {
    MailOptions {
        host: "127.0.0.1".to_owned(),
        port,
        tls: MailTls::None,
        extra_roots: Vec::new(),
        login: None,
        from: Email::new("help@acme.example").unwrap(),
        from_name: None,
        timeout: Duration::from_secs(1),
    }
}

/// Returns a mail that opens a conversation.
fn inbound_mail() -> InboundMail {
    InboundMail {
        from: Email::new("ana@example.com").unwrap(),
        from_name: None,
        subject: String::new(),
        text: "Hi".to_owned(),
        message_id: "<1@x>".to_owned(),
        references: Vec::new(),
        at: START,
    }
}

/// Returns the code of a request under the test's master key.
fn code(workspace: &WorkspaceId, request: RequestId, to: Phone) -> String {
    let keys = MasterKeys::single([7; 32]).code_keys(workspace);
    keys.code(1, request, to, CodeLength::default()).unwrap().reveal()
}

/// Waits until a workspace answers again after a failure.
async fn healed(workspace: &Workspace) {
    let unknown = RequestId::from_parts(START, 0);
    until("the workspace answers", async || {
        matches!(workspace.otp(unknown).await, Err(crate::ReadOtpError::NotFound))
    })
    .await;
}

fn kinds(log: &[EventEntry]) -> Vec<&'static str> {
    log.iter().map(|entry| entry.event.kind()).collect()
}

/// Returns the number of cases of a property test: `PROPTEST_CASES`, or the given default.
fn cases(otherwise: u32) -> u32 {
    let given = std::env::var("PROPTEST_CASES").ok();
    given.and_then(|cases| cases.parse().ok()).unwrap_or(otherwise)
}
