//! Where the log goes and how it looks: standard error, text for people and JSON for machines.

use std::io::IsTerminal;

use crate::settings::{Log, LogFormat};

/// Sends the process's log to standard error; only the first call counts.
pub fn start(log: &Log) {
    let json = match log.format {
        LogFormat::Text => false,
        LogFormat::Json => true,
        LogFormat::Auto => !std::io::stderr().is_terminal(),
    };
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(log.level)
        .with_writer(std::io::stderr)
        .with_target(false);
    let started = if json {
        tracing::subscriber::set_global_default(subscriber.json().finish())
    } else {
        let colours = std::io::stderr().is_terminal();
        tracing::subscriber::set_global_default(subscriber.with_ansi(colours).finish())
    };
    // Another program that mounts this one may have a log of its own.
    started.ok();
}
