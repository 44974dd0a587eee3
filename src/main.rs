//! Starts the `postrider` command.

// Errors of clusters have no other source.
#![cfg_attr(not(feature = "cluster"), allow(dead_code))]

mod cli;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

/// The server makes many small, short-lived allocations on many threads, for which jemalloc is
/// faster than the allocator of the system.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    // The files of this process are for its user alone: data, secrets and exports of contacts.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    let cli = cli::Cli::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error, 1),
    };
    let result = runtime.block_on(cli::run(cli));
    // The command has returned, so tasks that still run have no result to deliver.
    runtime.shutdown_background();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(cli::CliError::Reported) => ExitCode::FAILURE,
        Err(error) => fail(&error, error.status()),
    }
}

fn fail(error: &dyn std::fmt::Display, status: u8) -> ExitCode {
    // If standard error is closed, the message cannot be shown anywhere.
    drop(writeln!(std::io::stderr(), "postrider: {error}"));
    ExitCode::from(status)
}
