//! Prepares the data directory, the secrets and the demo workspace before anything is served.

mod certificates;
mod clock;
mod demo;
mod descriptors;
mod directory;
mod error;
mod leftovers;
mod modes;
mod secrets;

pub(crate) use certificates::certificates;
pub use clock::stored_clock;
pub(crate) use demo::prepare as prepare_demo;
pub(crate) use descriptors::{connections_within, raise_limit};
pub(crate) use directory::DataDir;
pub use error::{BootError, DemoError};
pub(crate) use leftovers::leftovers;
pub(crate) use secrets::{AdminTokenSource, admin_token, master_keys};
