//! Prepares the data directory, the secrets and the demo workspace before anything is served.

mod certificates;
mod copies;
mod demo;
mod descriptors;
mod directory;
mod error;
mod leftovers;
mod modes;
mod secrets;
mod stopped;

pub(crate) use certificates::certificates;
pub use copies::{CopyTarget, StoppedData};
pub(crate) use demo::{prepare as prepare_demo, sign_in_link};
pub(crate) use descriptors::{connections_within, raise_limit};
pub(crate) use directory::DataDir;
pub use error::{BootError, DemoError};
pub(crate) use leftovers::leftovers;
pub(crate) use secrets::{AdminTokenSource, admin_token, master_keys};
pub use stopped::{
    Repair, check_stored, rebase_stored_clock, repair_stored, stored_clock, verify_stored_audit,
};
