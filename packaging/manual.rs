//! Writes the man pages and shell completions, from the command line's own definition.
//!
//!     cargo run --example manual -- DIRECTORY
//!
//! It is no command of the server, which then has nothing of it. `packaging/build` calls it.

// Only the definition is used here.
#[allow(dead_code)]
#[path = "../src/cli/mod.rs"]
mod cli;

use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::{Shell, generate_to};

fn write(directory: &Path) -> std::io::Result<()> {
    let (pages, completions) = (directory.join("man"), directory.join("completions"));
    std::fs::create_dir_all(&pages)?;
    std::fs::create_dir_all(&completions)?;
    let mut command = cli::Cli::command();
    clap_mangen::generate_to(command.clone().disable_help_subcommand(true), &pages)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        generate_to(shell, &mut command, "postrider", &completions)?;
    }
    Ok(())
}

fn main() -> ExitCode {
    let Some(directory) = std::env::args_os().nth(1) else {
        eprintln!("usage: manual DIRECTORY");
        return ExitCode::from(2);
    };
    match write(Path::new(&directory)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error}", directory.display());
            ExitCode::FAILURE
        }
    }
}
