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
    /// The admin token; left out: that of the environment's settings (POSTRIDER__ADMIN__TOKEN) or
    /// the one in the data directory
    #[arg(
        long,
        global = true,
        value_name = "TOKEN",
        env = "POSTRIDER_ADMIN_TOKEN",
        hide_env_values = true
    )]
    pub(crate) token: Option<String>,
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
            .field("at", &self.at)
            .field("token", &self.token.as_ref().map(|_| "…"))
            .field("data_dir", &self.data_dir)
            .field("json", &self.json)
            .finish()
    }
}
