//! Postrider's server: a thin HTTP edge and a command line over the engine of `postrider-actors`.

mod http;
mod metrics;
pub mod settings;

pub use http::{AdminToken, AppOptions, Peer, app, openapi_document};
pub use metrics::Metrics;
