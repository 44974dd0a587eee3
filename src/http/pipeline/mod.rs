//! Runs every request: authenticates it, reads its body, calls its handler, writes its headers.

mod auth;
pub(super) mod body;
pub(super) mod body_budget;
pub(crate) mod client;
pub(super) mod drain;
mod error;
mod framing;
mod integer;
mod list;
pub(super) mod object;
mod origin;
mod query;
mod rate_limit_headers;
mod reply;
mod request_id;
mod route;
mod stage;
mod unicode;

pub(super) use auth::{Administrator, Admitted, ClockMover, Guard, Key, Open, count_failure};
pub use client::Peer;
pub use drain::Drain;
pub(super) use error::{ApiError, Code, ErrorBody};
pub(super) use integer::Integer;
pub(super) use list::{LIMIT_DEFAULT, LIMIT_MAX, Page};
pub(super) use origin::Identity;
pub(super) use query::Query;
pub(super) use reply::Reply;
pub(super) use route::{DeclaredRoute, Routes, page, route};
pub(super) use stage::{Answer, BodySize, Call, Stage, Takes, static_header};
