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
    /// Import contacts from a CSV file
    ///
    /// The first line names the columns, in any order:
    ///
    ///   name            required; 1 to 200 characters
    ///   phone           in any usual form, such as +1 (555) 012-3456; unique
    ///   email           an e-mail address
    ///   tags            separated by `;`, or a JSON array of texts
    ///   custom_fields   a JSON object
    ///   custom.KEY      one custom field, such as custom.plan, as text
    ///   id, created_at, updated_at   ignored, so that an export can be imported
    ///
    /// `export` writes a ' before a text that starts with =, +, -, @, a tab or a carriage return,
    /// so that spreadsheets do not read the text as a formula. The import removes this '.
    ///
    /// A cell in double quotes may contain commas, line breaks and doubled quotes. The import
    /// ignores empty cells. The file must be UTF-8.
    ///
    /// The import converts phones to E.164, such as +15550123456. It removes spaces and
    /// punctuation, replaces a leading 00 with +, and adds the calling code of --country to
    /// national numbers. --check shows the converted phones.
    ///
    /// Each line creates one contact or is refused on its own. The command reports the number, the
    /// field and the reason of each refused line. If it refuses a line, it exits with status 1.
    ///
    /// The command stores its progress in FILE.import. After an interruption, run the same command
    /// again to resume. If you resume within 24 hours, the command imports each line once. Later,
    /// it may import a line without a phone twice, if the answer to this line was lost. After a
    /// complete import, it imports the file again only if you delete FILE.import or change the
    /// file.
    #[command(verbatim_doc_comment)]
    Import {
        /// The CSV file
        file: PathBuf,
        /// Also write refused lines to this CSV file, with their line, field and reason
        #[arg(long, value_name = "FILE")]
        refused: Option<PathBuf>,
        /// The country of phones without + and a calling code: two letters, such as DE
        #[arg(long)]
        country: Option<Country>,
        /// Send nothing to the server. The command shows the converted phones and the lines that it
        /// refuses itself
        #[arg(long, conflicts_with = "refused")]
        check: bool,
    },
    /// Export all contacts to a CSV file, oldest first
    ///
    /// `import` can read the file. The file omits contacts that are created during the export. It
    /// may also omit contacts that are deleted during the export.
    Export {
        /// The CSV file. Without it or with `-`, the command writes to standard output
        file: Option<PathBuf>,
        /// Write texts unchanged, even if a spreadsheet would read them as formulas
        ///
        /// Without this option, the export writes a ' before a text that starts with =, +, -, @, a
        /// tab or a carriage return. `import` removes this '.
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
