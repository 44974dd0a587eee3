//! Postrider's server: a thin HTTP edge and a command line over the engine of `postrider-actors`.
//!
//! [`Server::start`] runs all of it from [`settings::Settings`]; [`app`] is the router alone, over
//! an engine that was started elsewhere, and [`serve`] the loop that serves it.

mod banner;
mod boot;
mod http;
pub mod logging;
mod metrics;
mod serve;
mod server;
pub mod settings;
mod write_timeout;

pub use banner::Banner;
pub use boot::{BootError, DemoError};
pub use http::{AdminToken, AppOptions, Drain, Peer, app, openapi_document};
pub use metrics::Metrics;
pub use serve::{Lingering, ServeOptions, serve};
pub use server::{RunningServer, Server, StopError};
