//! Runs every request: authenticates it, reads its body, calls its handler, writes its headers.

mod accounting;
mod administrator;
mod anybody;
mod arrival;
mod auth;
pub(crate) mod body;
pub(crate) mod body_budget;
pub(crate) mod browser;
mod call;
pub(crate) mod client;
mod compressed;
pub(crate) mod error;
pub(crate) mod headers;
pub(crate) mod json;
pub(crate) mod known_fields;
pub(crate) mod object;
mod origin;
mod principal;
mod query;
mod reply;
pub(crate) mod request_id;
mod route;
mod spool;
mod stage;

pub(crate) use administrator::{
    Administrator, ClockMover, Delegates, EverythingReader, Manages, administrator_of,
};
pub(crate) use anybody::{Anybody, Known, OwnHost, OwnPage, RecentlySignedIn, SignedInPage};
pub(crate) use auth::{Admitted, Guard, Key, Open, count_failure};
pub use body::Drain;
pub(crate) use call::Call;
pub use client::Peer;
pub(crate) use compressed::Compressed;
pub(crate) use error::{ApiError, Cause, Code, ErrorBody};
pub(crate) use known_fields::PERMISSION;
pub(crate) use object::Integer;
pub(crate) use origin::Identity;
pub(crate) use principal::{Principal, STREAM, permissions_elsewhere};
pub(crate) use query::{
    LIMIT_DEFAULT, LIMIT_MAX, Page, PageOf, Query, encode_id_cursor, id_cursor_of,
};
pub(crate) use reply::Reply;
pub(crate) use route::{DeclaredRoute, FixedRoutes, ResponseFuture, Routes, page, route};
pub(crate) use spool::longest_of;
pub(crate) use stage::{Answer, AnswerFuture, BodyKind, BodySize, Stage};
