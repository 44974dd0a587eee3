//! Sets up logging: level, format and destination.

use std::io::{IsTerminal, stderr};

use crate::settings::{Log, LogFormat};

/// Starts logging to standard error for the whole process. Later calls change nothing.
///
/// Standard output is reserved for the banner and the output of commands.
pub fn start(settings: &Log) {
    let json = match settings.format {
        LogFormat::Json => true,
        LogFormat::Text => false,
        LogFormat::Auto => !stderr().is_terminal(),
    };
    let builder = tracing_subscriber::fmt()
        .with_max_level(settings.level)
        .with_ansi(stderr().is_terminal())
        // A line that cannot be written is lost. Reporting that on the same stream would panic.
        .log_internal_errors(false)
        .with_writer(stderr);
    let started = if json { builder.json().try_init() } else { builder.try_init() };
    if let Err(error) = started {
        tracing::debug!(%error, "logging was started before");
    }
}
