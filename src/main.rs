//! The `postrider` command.

mod cli;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

/// Many small, short-lived allocations on many threads: what jemalloc is good at.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error),
    };
    let result = runtime.block_on(cli::run(cli));
    // Whatever still runs has nothing to finish.
    runtime.shutdown_background();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

fn fail(error: &dyn std::fmt::Display) -> ExitCode {
    // Without standard error there is nobody to tell.
    drop(writeln!(std::io::stderr(), "postrider: {error}"));
    ExitCode::FAILURE
}
