//! Declares the argument that names a server, for every command that talks to one.

use clap::Args;

/// Which server.
#[derive(Debug, Args)]
pub(crate) struct ServerArgs {
    /// The server's address
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "POSTRIDER_SERVER",
        default_value = "http://127.0.0.1:8080"
    )]
    server: String,
}

impl ServerArgs {
    /// The server at an address.
    pub(crate) const fn of(server: String) -> Self {
        Self { server }
    }

    /// The address without a slash at its end.
    pub(crate) fn address(&self) -> String {
        self.server.trim_end_matches('/').to_owned()
    }
}
