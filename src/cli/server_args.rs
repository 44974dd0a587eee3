//! Declares the arguments that name a server, and those of commands that administer it.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use reqwest::Url;

/// The default address of a server.
const SERVER: &str = "http://127.0.0.1:8080";
/// The environment variable that names a server.
const VARIABLE: &str = "POSTRIDER_SERVER";
/// The endings that an address may have: the parts of the API, which are below it.
const PARTS: [&str; 2] = ["/v1", "/admin"];

/// Which server.
#[derive(Debug, Args)]
pub(crate) struct ServerArgs {
    /// The address of the server
    #[arg(
        long,
        global = true,
        help_heading = "Server",
        value_name = "URL",
        env = VARIABLE,
        default_value = SERVER,
        value_parser = address
    )]
    server: String,
}

/// The error for a text that is not the address of a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not the address of a server, such as {SERVER} (--server or {VARIABLE})")]
pub(crate) struct AddressError(String);

impl ServerArgs {
    /// Returns the server of the environment, or the default server if nothing is given.
    ///
    /// # Errors
    /// [`AddressError`]: the environment does not name a server.
    pub(crate) fn of_environment() -> Result<Self, AddressError> {
        let given = std::env::var(VARIABLE).ok().filter(|text| !text.is_empty());
        Ok(Self { server: address(given.as_deref().unwrap_or(SERVER))? })
    }

    /// Returns the server at an address that [`address`] has parsed.
    pub(crate) const fn of(server: String) -> Self {
        Self { server }
    }

    /// Returns the address without a slash at its end.
    pub(crate) fn address(&self) -> String {
        self.server.clone()
    }
}

/// Parses the address of a server as people write it.
///
/// It may lack `http://`, and may end in a slash and in the part of the API that is called.
///
/// # Errors
/// [`AddressError`]: the text is not an address.
pub(crate) fn address(text: &str) -> Result<String, AddressError> {
    let given = text.trim();
    let url = if given.contains("://") { given.to_owned() } else { format!("http://{given}") };
    let none = || AddressError(text.to_owned());
    let parsed = Url::parse(&url).map_err(|_| none())?;
    let is_web = matches!(parsed.scheme(), "http" | "https") && parsed.has_host();
    if !is_web || given.starts_with('/') || parsed.query().is_some() || parsed.fragment().is_some()
    {
        return Err(none());
    }
    let mut address = url.as_str();
    loop {
        let before = address;
        address = address.trim_end_matches('/');
        for part in PARTS {
            address = address.strip_suffix(part).unwrap_or(address);
        }
        if address == before {
            return Ok(address.to_owned());
        }
    }
}

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
    /// With `--token -`, read the admin token from standard input. Without this option, the command
    /// uses POSTRIDER_ADMIN_TOKEN, POSTRIDER__ADMIN__TOKEN or admin.token in the data directory
    #[arg(long, global = true, help_heading = "Server", value_name = "-")]
    pub(crate) token: Option<String>,
    /// Read the admin token from the first line of this file
    #[arg(
        long,
        global = true,
        help_heading = "Server",
        value_name = "FILE",
        conflicts_with = "token"
    )]
    pub(crate) token_file: Option<PathBuf>,
    /// The data directory of the server, which contains admin.token
    #[arg(long, global = true, help_heading = "Server", value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Print the server's answer as JSON
    #[arg(long, global = true, help_heading = "Output")]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_taken_as_people_write_it() {
        for (text, expected) in [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("localhost:8080", "http://localhost:8080"),
            ("postrider.example.com", "http://postrider.example.com"),
            ("https://pr.example.com/", "https://pr.example.com"),
            ("https://pr.example.com/v1", "https://pr.example.com"),
            ("https://pr.example.com/v1/", "https://pr.example.com"),
            ("https://pr.example.com/admin/v1", "https://pr.example.com"),
            ("https://example.com/postrider/v1", "https://example.com/postrider"),
            (" http://[::1]:8080\n", "http://[::1]:8080"),
        ] {
            assert_eq!(address(text).as_deref(), Ok(expected), "{text}");
        }
        for bad in
            ["", "http://", "ftp://example.com", "http://a b", "http://x:99999", "x?y", "/v1"]
        {
            assert!(address(bad).is_err(), "{bad}");
        }
    }
}
