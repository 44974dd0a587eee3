//! Webhooks and the event log: endpoints, deliveries, retries, replays and the stream.

mod batches;
mod endpoints;
mod event_index;
mod event_log;
mod event_queries;
pub mod event_stream;
mod faults;
mod isolation;
mod receivers;
mod replays;
mod verifiers;

pub use endpoints::{WEBHOOKS, deliveries, events, register, request_ids, server, verify};
