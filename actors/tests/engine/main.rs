//! The engine through its public interface, on stores that fail and crash on request.
//!
//! The tests run on tokio's paused clock, like those in `src/engine/tests`, which also look inside.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod access;
mod admin;
mod audit;
mod broadcast_records;
mod clock;
mod idempotency;
mod operations;
mod opt_outs;
mod pace;
mod panics;
mod second_number;
mod support;

use std::sync::Arc;
use std::time::Duration;

use postrider_actors::{Engine, EngineOptions, SendOtp, Workspace};
use postrider_domain::{Phone, RequestId, Timestamp};
use postrider_store::CrashingStore;

use support::*;
