//! Prepares the data directory, the secrets and the demo workspace before anything is served.

mod demo;
mod directory;
mod error;
mod secrets;
mod stopped;

pub(crate) use demo::{prepare_demo, sandbox_leftovers, sign_in_link};
pub(crate) use directory::DataDir;
pub use error::{BootError, DemoError};
pub(crate) use secrets::{AdminTokenSource, admin_token, master_keys};
pub use stopped::{
    CopyTarget, Repair, StoppedData, check_stored, rebase_stored_clock, repair_stored,
    stored_clock, verify_stored_audit,
};
