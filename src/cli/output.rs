//! Prints the answer to a command, as a table or as JSON, and its progress.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

use indicatif::{HumanBytes, ProgressBar, ProgressStyle};
use postrider_actors::domain::printable;
use serde_json::Value;

use super::client::AdminClient;
use super::error::CliError;
use super::table::{self, Column};

/// The number of lines that report the progress without a terminal.
const PROGRESS_LINES: u64 = 20;

/// Fetches every row of a list below `/admin/v1/workspaces`.
///
/// Returns the answer as JSON and as a table.
pub(super) async fn listed(
    client: &AdminClient,
    path: &str,
    columns: &[Column],
) -> Result<(Value, String), CliError> {
    listed_of_server(client, &format!("/workspaces{path}"), columns).await
}

/// Fetches every row of a list below `/admin/v1`, like [`listed`].
pub(super) async fn listed_of_server(
    client: &AdminClient,
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

/// Formats a number of bytes for people, such as `1.50 MiB`.
pub(super) const fn size(bytes: u64) -> HumanBytes {
    HumanBytes(bytes)
}

/// Writes a line to standard error.
pub(crate) fn report(line: &str) {
    // If standard error is closed, the line cannot be shown anywhere.
    drop(writeln!(std::io::stderr().lock(), "{}", escaped(line)));
}

/// Returns whether a character must be escaped for a terminal.
fn is_risky(char: char) -> bool {
    (char.is_control() && char != '\n') || printable::turns_text(char)
}

/// Escapes characters that would control a terminal, such as to `\u{1b}`. Line breaks stay.
fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(is_risky) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        if is_risky(char) { out.extend(char.escape_unicode()) } else { out.push(char) }
    }
    out.into()
}

/// A writer to a terminal that escapes its input. Each write must be whole UTF-8.
pub(super) struct Escaping<W>(pub(super) W);

impl<W: Write> Write for Escaping<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // An incomplete character is left for the next call.
        let whole = match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) if error.valid_up_to() > 0 => {
                std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default()
            }
            Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
        };
        self.0.write_all(escaped(whole).as_bytes())?;
        Ok(whole.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Shows the progress of a command on standard error.
pub(super) struct CommandProgress {
    bar: ProgressBar,
    total: u64,
    /// The last part that a line reported.
    reported: u64,
}

impl CommandProgress {
    /// Starts the progress through `total` bytes.
    pub(super) fn bytes(total: u64) -> Self {
        let bar = ProgressBar::new(total);
        bar.set_style(bar_style("{bar:40} {bytes}/{total_bytes} {msg} ({eta})"));
        Self { bar, total, reported: 0 }
    }

    /// Starts the progress through `total` items.
    pub(super) fn items(total: u64) -> Self {
        let bar = ProgressBar::new(total);
        bar.set_style(bar_style("{bar:40} {human_pos}/{human_len} {msg} ({eta})"));
        Self { bar, total, reported: 0 }
    }

    /// Sets the starting point.
    pub(super) fn start_at(&mut self, at: u64) {
        self.bar.set_position(at);
        self.bar.reset_eta();
        self.reported = self.part(at);
    }

    /// Reports the position. `what` describes the work done so far.
    pub(super) fn at(&mut self, at: u64, what: &str) {
        self.bar.set_position(at);
        self.bar.set_message(what.to_owned());
        let part = self.part(at);
        if self.bar.is_hidden() && part > self.reported {
            self.reported = part;
            self.print(&format!("{} %: {what}", part * 100 / PROGRESS_LINES));
        }
    }

    /// Prints a line above the bar.
    pub(super) fn print(&self, line: &str) {
        // If standard error is closed, the line cannot be shown anywhere.
        self.bar.suspend(|| drop(writeln!(std::io::stderr().lock(), "{}", escaped(line))));
    }

    /// Removes the bar.
    pub(super) fn end(&self) {
        self.bar.finish_and_clear();
    }

    fn part(&self, at: u64) -> u64 {
        at.saturating_mul(PROGRESS_LINES).checked_div(self.total).unwrap_or(0)
    }
}

fn bar_style(template: &str) -> ProgressStyle {
    // The templates above are valid; otherwise the default style is used.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_not_controlled() {
        let text = "Ana\u{1b}[2J\u{202e},é\r\n";
        let shown = "Ana\\u{1b}[2J\\u{202e},é\\u{d}\n";
        assert_eq!(escaped(text), shown);
        assert!(matches!(escaped("Ana, é\n"), Cow::Borrowed(_)));
        let mut out = Vec::new();
        Escaping(&mut out).write_all(text.as_bytes()).unwrap();
        assert_eq!(out, shown.as_bytes());
    }
}
