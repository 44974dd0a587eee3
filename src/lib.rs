//! Postrider's server: a thin HTTP edge and a command line over the engine of `postrider-actors`.
//!
//! [`Server`] is the whole of it; [`app`] is the router alone, for mounting in another program.

pub mod banner;
mod demo;
mod files;
mod http;
pub mod logging;
mod metrics;
mod secrets;
mod serve;
mod server;
pub mod settings;

pub use demo::DemoError;
pub use files::FileError;
pub use http::{AdminToken, AppOptions, Peer, app, openapi_document};
pub use metrics::Metrics;
pub use secrets::SecretsError;
pub use serve::{ServeOptions, serve};
pub use server::{Server, ServerError};
