//! What every request passes: who may call, its body, its handler, and the headers of its answer.

mod auth;
pub(super) mod body;
pub(super) mod drain;
mod error;
mod limits;
mod list;
pub(super) mod object;
mod query;
mod reply;
mod request_id;
mod route;
mod stage;

pub use auth::Peer;
pub(super) use auth::{Administrator, Guard, Key, Open};
pub(super) use body::Whole;
pub use drain::Drain;
pub(super) use error::{ApiError, Code, ErrorBody};
pub(super) use list::{LIMIT_DEFAULT, LIMIT_MAX, Page};
pub(super) use query::Query;
pub(super) use reply::Reply;
pub(super) use route::{Route, Routes, page, route};
pub(super) use stage::{Answer, BodySize, Call, Stage, Takes, fixed};
