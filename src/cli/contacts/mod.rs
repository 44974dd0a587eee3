//! `postrider contacts`: imports contacts from CSV files and exports them.

mod columns;
pub(super) mod error;
mod export;
mod files;
mod import;
mod lines;
mod phones;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::api::{Api, CallerArgs};
use super::error::CliError;
use phones::Country;

/// Commands that call a workspace's own interface.
#[derive(Debug, Args)]
pub(crate) struct ContactsArgs {
    #[command(flatten)]
    pub(crate) caller: CallerArgs,
    #[command(subcommand)]
    pub(crate) command: ContactsCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ContactsCommand {
    /// Make contacts of the lines of a CSV file
    ///
    /// The first line names the columns, in any order:
    ///
    ///   name            required; 1 to 200 characters
    ///   phone           as it is written, such as +1 (555) 012-3456; one contact each
    ///   email           an e-mail address
    ///   tags            separated by `;`, or a JSON array of texts
    ///   custom_fields   a JSON object
    ///   custom.KEY      one custom field, such as custom.plan, as text
    ///   id, created_at, updated_at   ignored, so that an export can be imported
    ///
    /// One ' before a text that begins with =, +, -, @, a tab or a carriage return is taken away:
    /// it keeps spreadsheets from reading the text as a formula, and `export` writes it.
    ///
    /// Cells may be in double quotes and then hold commas, lines and doubled quotes. An empty cell
    /// is nothing. The file is UTF-8.
    ///
    /// A phone is sent in E.164, such as +15550123456: spaces and signs go, 00 becomes +, and a
    /// national number gets the calling code of --country. --check shows what becomes of them.
    ///
    #[doc = " Each line makes one contact or is refused by itself; refused lines are reported with their number,"]
    /// the field and the reason, and the command ends with status 1 if there are any.
    ///
    #[doc = " How far it has come is kept beside the file, in FILE.import. After an interruption of any kind"]
    /// the same command goes on: within 24 hours no line is imported twice and none is left out.
    /// (Later, lines without a phone whose answer was lost may be there already.) A file that was
    /// imported whole is not imported again until FILE.import is removed or the file changes.
    #[command(verbatim_doc_comment)]
    Import {
        /// The CSV file
        file: PathBuf,
        /// Write refused lines to this file too, as CSV with line, field and reason
        #[arg(long, value_name = "FILE")]
        refused: Option<PathBuf>,
        /// The country of phones without + and calling code, in two letters such as DE
        #[arg(long)]
        country: Option<Country>,
        /// Send nothing: show each phone that would be sent in another form than it is written,
        /// and the lines that are refused without asking the server
        #[arg(long, conflicts_with = "refused")]
        check: bool,
    },
    /// Write every contact to a CSV file that `import` reads, oldest first
    ///
    /// Contacts that are made meanwhile are left out; every other one is there once, unless it is
    /// deleted meanwhile.
    Export {
        /// The CSV file; left out, or -: standard output
        file: Option<PathBuf>,
        /// Write texts as they are, also those that a spreadsheet would read as formulas
        ///
        /// Without it a text that begins with =, +, -, @, a tab or a carriage return has a ' before
        /// it, which `import` takes away.
        #[arg(long)]
        raw: bool,
    },
}

/// Runs `postrider contacts`.
pub(crate) async fn run(args: ContactsArgs) -> Result<(), CliError> {
    if let ContactsCommand::Import { file, country, check: true, .. } = &args.command {
        return Ok(import::check_file(file, *country)?);
    }
    let api = Api::new(&args.caller)?;
    let working = async {
        match args.command {
            ContactsCommand::Import { file, refused, country, check: _ } => {
                import::import_file(&api, &file, refused.as_deref(), country).await
            }
            ContactsCommand::Export { file, raw } => {
                export::export_contacts(&api, file.as_deref(), raw).await
            }
        }
    };
    tokio::select! {
        done = working => done,
        _ = tokio::signal::ctrl_c() => Err(CliError::Suspended),
    }
}
