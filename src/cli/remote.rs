//! Declares the arguments of commands that administer a running server.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::server_args::ServerArgs;

/// Commands that talk to a server.
#[derive(Debug, Args)]
pub(crate) struct Group<C: Subcommand> {
    #[command(flatten)]
    pub(crate) remote: Remote,
    #[command(subcommand)]
    pub(crate) command: C,
}

/// Which server, and how to talk to it.
#[derive(Args)]
pub(crate) struct Remote {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// `-` reads the admin token from standard input; left out: that of POSTRIDER_ADMIN_TOKEN, of
    /// the environment's settings (POSTRIDER__ADMIN__TOKEN) or the one in the data directory
    #[arg(long, global = true, value_name = "-")]
    pub(crate) token: Option<String>,
    /// A file whose first line is the admin token
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "token")]
    pub(crate) token_file: Option<PathBuf>,
    /// The server's data directory, where admin.token is
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Print the server's answer as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remote")
            .field("server", &self.server)
            .field("token", &self.token.as_ref().map(|_| "…"))
            .field("token_file", &self.token_file)
            .field("data_dir", &self.data_dir)
            .field("json", &self.json)
            .finish()
    }
}
