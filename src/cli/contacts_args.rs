//! What can be typed of contacts.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Commands that call a workspace's own interface.
#[derive(Debug, Args)]
pub(crate) struct ContactsArgs {
    #[command(flatten)]
    pub(crate) caller: CallerArgs,
    #[command(subcommand)]
    pub(crate) command: ContactsCommand,
}

/// Which server, and with which API key.
#[derive(Args)]
pub(crate) struct CallerArgs {
    /// The server's address
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "POSTRIDER_SERVER",
        default_value = "http://127.0.0.1:8080"
    )]
    pub(crate) server: String,
    /// An API key of the workspace; left out: the demo key in the data directory
    #[arg(
        long,
        global = true,
        value_name = "KEY",
        env = "POSTRIDER_API_KEY",
        hide_env_values = true
    )]
    pub(crate) key: Option<String>,
    /// The server's data directory, where demo.key is
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
}

impl std::fmt::Debug for CallerArgs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallerArgs")
            .field("server", &self.server)
            .field("key", &self.key.as_ref().map(|_| "…"))
            .field("data_dir", &self.data_dir)
            .finish()
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum ContactsCommand {
    /// Make contacts of the lines of a CSV file
    ///
    /// The first line names the columns, in any order:
    ///
    ///   name            required; 1 to 200 characters
    ///   phone           E.164, such as +15550123456; one contact each
    ///   email           an e-mail address
    ///   tags            separated by `;`, or a JSON array of texts
    ///   custom_fields   a JSON object
    ///   custom.KEY      one custom field, such as custom.plan, as text
    ///   id, created_at, updated_at   ignored, so that an export can be imported
    ///
    /// Cells may be in double quotes and then hold commas, lines and doubled quotes. An empty cell
    /// is nothing. The file is UTF-8.
    ///
    /// Each line makes one contact or is refused by itself; refused lines are told with their number,
    /// the field and the reason, and the command ends with status 1 if there are any.
    ///
    /// How far it has come is kept beside the file, in FILE.import. After an interruption of any kind
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
    },
    /// Write every contact to a CSV file that `import` reads, oldest first
    ///
    /// Contacts that are made meanwhile are left out; every other one is there once, unless it is
    /// deleted meanwhile.
    Export {
        /// The CSV file; left out, or -: standard output
        file: Option<PathBuf>,
    },
}
