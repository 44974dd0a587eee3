//! The rows, in groups that are measured together.

use crate::Result;
use crate::report::Row;
use crate::scale::Scale;

mod broadcast;
mod echo;
mod in_process;
mod otp_http;
mod pending;
mod restart;
mod store_commit;

/// Rows that one measurement gives.
pub(crate) struct Group {
    /// Their names.
    pub(crate) rows: &'static [&'static str],
    /// Measures them.
    pub(crate) run: fn(&Scale) -> Result<Vec<Row>>,
}

/// All of them, in the report's order.
pub(crate) const GROUPS: &[Group] = &[
    otp_http::SEND,
    otp_http::VERIFY,
    in_process::GROUP,
    store_commit::GROUP,
    pending::GROUP,
    broadcast::GROUP,
];

/// The first argument of a process that this one started for a measurement.
pub(crate) const CHILD: &str = "--measure-in-this-process";

/// Runs as such a process.
pub(crate) fn child(arguments: impl Iterator<Item = String>) -> Result<()> {
    restart::child(arguments)
}
