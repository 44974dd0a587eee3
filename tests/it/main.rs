//! The server as its clients see it: every test starts one of its own and talks HTTP to it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    unreachable_pub,
    reason = "a test that cannot go on should fail where it stands"
)]

#[path = "../fake/cloud_api/mod.rs"]
mod fake;
mod world;

mod admin;
mod admin_webhooks;
mod analytics;
mod bodies;
mod broadcast_faults;
mod broadcasts;
mod checks;
mod cloud_api;
mod cloud_api_callbacks;
mod cloud_api_messages;
mod connection;
mod contacts;
mod contacts_batch;
mod contacts_import;
mod contacts_limits;
mod contacts_list;
mod conversations;
mod demo;
mod email;
mod email_server;
mod event_stream;
mod events;
mod faults;
mod guard;
mod idempotency;
mod limits;
mod messages;
mod number_updates;
mod number_watch;
mod old_directory;
mod operation;
mod otp;
mod otp_limits;
mod overload;
mod recipients;
mod sandbox;
mod second_number;
mod segments;
mod start;
mod suppressions;
mod template_sync;
mod templates;
mod tidy;
mod verifiers;
mod webhook_batches;
mod webhook_faults;
mod webhook_isolation;
mod webhook_replays;
mod webhooks;
mod window;
