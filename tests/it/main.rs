//! The server as its clients see it: every test starts one of its own and calls it over HTTP.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    unreachable_pub,
    reason = "a test that cannot go on should fail where it stands"
)]

#[path = "../fake/cloud_api/mod.rs"]
mod fake;
#[path = "../fake/machine/mod.rs"]
mod machine;
#[path = "../fake/sms_gateway/mod.rs"]
mod sms_gateway;
#[path = "../support/mod.rs"]
mod support;

mod admin;
mod broadcasts;
mod channel;
mod cluster;
mod contacts;
mod documents;
mod faults;
mod inbox;
mod messages;
mod operation;
mod otp;
mod people;
mod tidy;
mod webhooks;
