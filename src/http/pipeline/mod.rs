//! Runs every request: authenticates it, reads its body, calls its handler, writes its headers.

mod auth;
pub(super) mod body;
pub(super) mod drain;
mod error;
mod list;
pub(super) mod object;
mod query;
mod rate_limit_headers;
mod reply;
mod request_id;
mod route;
mod stage;
mod unicode;

pub use auth::Peer;
pub(super) use auth::{Administrator, Guard, Key, Open};
pub(super) use body::Integer;
pub use drain::Drain;
pub(super) use error::{ApiError, Code, ErrorBody};
pub(super) use list::{LIMIT_DEFAULT, LIMIT_MAX, Page};
pub(super) use query::Query;
pub(super) use reply::Reply;
pub(super) use route::{DeclaredRoute, Routes, page, route};
pub(super) use stage::{Answer, BodySize, Call, Stage, Takes, static_header};
