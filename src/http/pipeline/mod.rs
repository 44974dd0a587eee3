//! Runs every request: authenticates it, reads its body, calls its handler, writes its headers.

mod account;
mod administrator;
mod anybody;
mod arrival;
mod audited;
mod auth;
pub(crate) mod body;
pub(crate) mod body_budget;
pub(crate) mod browser;
pub(crate) mod client;
mod compressed;
pub(crate) mod date;
pub(crate) mod drain;
pub(crate) mod error;
mod framing;
pub(crate) mod id_cursor;
mod integer;
pub(crate) mod json;
pub(crate) mod known_fields;
mod list;
mod media_types;
mod names;
pub(crate) mod object;
mod origin;
pub(crate) mod page_headers;
mod principal;
mod query;
mod rate_limit_headers;
mod reply;
pub(crate) mod request_id;
mod route;
mod span;
mod spool;
mod stage;
mod unchanged;
mod unicode;
mod unwind;

pub(crate) use administrator::{
    Administrator, ClockMover, Delegates, EverythingReader, Manages, administrator_of,
};
pub(crate) use anybody::{Anybody, Known, OwnHost, OwnPage, RecentlySignedIn, SignedInPage};
pub(crate) use auth::{Admitted, Guard, Key, Open, count_failure};
pub use client::Peer;

pub(crate) use compressed::Compressed;
pub use drain::Drain;
pub(crate) use error::{ApiError, Cause, Code, ErrorBody};
pub(crate) use integer::Integer;
pub(crate) use known_fields::PERMISSION;
pub(crate) use list::{LIMIT_DEFAULT, LIMIT_MAX, Page, PageOf};
pub(crate) use origin::Identity;
pub(crate) use principal::{Principal, STREAM, permissions_elsewhere};
pub(crate) use query::Query;
pub(crate) use reply::Reply;
pub(crate) use route::{DeclaredRoute, FixedRoutes, ResponseFuture, Routes, page, route};
pub(crate) use spool::longest_of;
pub(crate) use stage::{Answer, AnswerFuture, BodySize, Call, Stage, Takes};
