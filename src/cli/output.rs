//! Prints the answer to a command: as a table, or with `--json` as JSON.

use std::borrow::Cow;
use std::io::{IsTerminal, Write};

use serde_json::Value;

use super::client::Client;
use super::error::CliError;
use super::table::{self, Column};
use super::terminal::escaped;

/// Fetches every row of a list below `/admin/v1/workspaces`.
///
/// Returns the answer as JSON and as a table.
pub(super) async fn listed(
    client: &Client,
    path: &str,
    columns: &[Column],
) -> Result<(Value, String), CliError> {
    listed_of_server(client, &format!("/workspaces{path}"), columns).await
}

/// Fetches every row of a list below `/admin/v1`, like [`listed`].
pub(super) async fn listed_of_server(
    client: &Client,
    path: &str,
    columns: &[Column],
) -> Result<(Value, String), CliError> {
    let answer = client.list(path).await?;
    let rows = answer["data"].as_array().map(Vec::as_slice).unwrap_or_default();
    let shown = table::rows(rows, columns);
    Ok((answer, shown))
}

/// Writes `answer` as JSON, or `shown`, to standard output.
pub(super) fn print(as_json: bool, answer: &Value, shown: &str) -> Result<(), CliError> {
    let mut out = std::io::stdout().lock();
    let text = if as_json { format!("{answer:#}\n").into() } else { Cow::Borrowed(shown) };
    let text = if out.is_terminal() { escaped(&text).into_owned() } else { text.into_owned() };
    let written = out.write_all(text.as_bytes());
    written.map_err(|source| CliError::Io { what: "standard output", source })
}

/// Writes a line to standard error.
pub(crate) fn report(line: &str) {
    // If standard error is closed, the line cannot be shown anywhere.
    drop(writeln!(std::io::stderr().lock(), "{}", escaped(line)));
}
