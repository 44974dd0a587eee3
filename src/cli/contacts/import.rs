//! Runs `postrider contacts import`, also with `--check`.

use std::path::Path;

use csv::Position;
use reqwest::Method;
use serde_json::Value;

use super::error::{ImportError, LineRefusal};
use super::files::{ImportState, RefusedFile, StateFile};
use super::lines::{Lines, file_hash};
use super::phones::Country;
use crate::cli::api::{Api, ApiAttempt, RetryBudget, RetryWait, connection_fault};
use crate::cli::error::CliError;
use crate::cli::output::{CommandProgress, report};

/// The maximum number of lines in a request: the limit of the server.
const BATCH_LINES_MAX: usize = 1000;
/// A request of this size, in bytes, gets no more lines. The limit of the server is twice as high.
const BATCH_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The number of refused lines that are printed one by one.
const REFUSED_SHOWN_MAX: u64 = 20;
/// The number of phones that are printed one by one if the file has them in another form.
const REWRITTEN_SHOWN_MAX: usize = 5;

/// The lines of one request.
#[derive(Default)]
struct LineBatch {
    /// The numbers of the lines that are sent.
    lines: Vec<u64>,
    /// The body of the request so far.
    body: String,
    /// Lines that are refused without being sent.
    refused: Vec<(u64, LineRefusal)>,
    /// The messages about the first phones that are sent in another form.
    rewritten: Vec<String>,
}

impl LineBatch {
    /// Reads the lines of the next request.
    fn read(lines: &mut Lines) -> Result<Self, ImportError> {
        let mut batch = Self::default();
        while batch.lines.len() < BATCH_LINES_MAX
            && batch.refused.len() < BATCH_LINES_MAX
            && batch.body.len() < BATCH_BYTES_MAX
        {
            let Some(line) = lines.next()? else { break };
            match line.contact {
                Ok(contact) => {
                    if let Some(written) = &line.rewritten {
                        batch.rewritten.push(describe_phone(line.number, written, &contact));
                        batch.rewritten.truncate(REWRITTEN_SHOWN_MAX);
                    }
                    batch.body.push(if batch.lines.is_empty() { '[' } else { ',' });
                    batch.body.push_str(&contact.to_string());
                    batch.lines.push(line.number);
                }
                Err(refusal) => batch.refused.push((line.number, refusal)),
            }
        }
        Ok(batch)
    }

    fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.refused.is_empty()
    }
}

/// An import in progress.
struct ImportRun<'a> {
    api: &'a Api,
    state: ImportState,
    kept: StateFile,
    refused_file: Option<RefusedFile>,
    progress: CommandProgress,
}

/// Imports a file, or resumes its import.
pub(super) async fn import_file(
    api: &Api,
    file: &Path,
    refused: Option<&Path>,
    country: Option<Country>,
) -> Result<(), CliError> {
    let (content, size) = file_hash(file)?;
    let kept = StateFile::beside(file);
    if let Some(path) = refused.filter(|path| kept.is_in_use(file, path)) {
        return Err(ImportError::RefusedIsInput { path: path.to_owned() }.into());
    }
    // If the file cannot be read, no import starts.
    drop(Lines::open(file, None, country)?);
    let state = kept.open(&content, &api.key_fingerprint(), country)?;
    let mut progress = CommandProgress::bytes(size);
    progress.start_at(state.byte);
    if state.finished {
        progress.print(&format!(
            "{} was imported before; remove {} to import it again",
            file.display(),
            kept.path().display()
        ));
    } else if state.byte > 0 {
        progress.print(&format!("resuming after {}", progress_text(&state)));
    }
    let refused_file = match refused {
        Some(path) if !state.finished => Some(RefusedFile::open(path, state.refused_bytes)?),
        _ => None,
    };
    let mut import = ImportRun { api, state, kept, refused_file, progress };
    if !import.state.finished {
        import.resume(file, country).await?;
    }
    import.end()
}

impl ImportRun<'_> {
    async fn resume(&mut self, file: &Path, country: Option<Country>) -> Result<(), CliError> {
        let from = (self.state.byte > 0).then(|| {
            let mut from = Position::new();
            from.set_byte(self.state.byte).set_line(self.state.line).set_record(self.state.record);
            from
        });
        let mut lines = Lines::open(file, from, country)?;
        let mut shown = 0;
        loop {
            let begins = self.state.line;
            let batch = LineBatch::read(&mut lines)?;
            if batch.is_empty() {
                break;
            }
            let next = lines.position();
            for line in batch.rewritten.iter().take(REWRITTEN_SHOWN_MAX - shown) {
                self.progress.print(line);
                shown += 1;
                if shown == REWRITTEN_SHOWN_MAX {
                    self.progress.print("more phones may be converted: --check shows all of them");
                }
            }
            let mut refused = batch.refused;
            if !batch.lines.is_empty() {
                let body = format!("{{\"contacts\":{}]}}", batch.body);
                let rows = self.send(begins, &body).await?;
                if rows.len() != batch.lines.len() {
                    return Err(self.unexpected("the numbers of rows and contacts differ"));
                }
                let rows = batch.lines.iter().zip(&rows);
                let by_server: Vec<_> =
                    rows.filter_map(|(line, row)| Some((*line, server_refusal(row)?))).collect();
                self.state.made += (batch.lines.len() - by_server.len()) as u64;
                refused.extend(by_server);
            }
            self.record(refused, &next)?;
        }
        self.state.finished = true;
        self.kept.save(&self.state)?;
        Ok(())
    }

    /// Sends a request until it succeeds or is refused.
    ///
    /// Its idempotency key contains its first line, so the server executes it once however often it
    /// is sent.
    async fn send(&self, begins: u64, body: &str) -> Result<Vec<Value>, CliError> {
        let key = format!("import-{}-{begins}", self.state.run);
        let mut retries = RetryBudget::new();
        loop {
            match self.try_send(&key, body).await? {
                ApiAttempt::Done(rows) => return Ok(rows),
                ApiAttempt::Retry(wait) => {
                    let say = |line: &str| self.progress.print(line);
                    retries.wait(wait, self.api.server(), say).await?;
                }
            }
        }
    }

    async fn try_send(&self, key: &str, body: &str) -> Result<ApiAttempt<Vec<Value>>, CliError> {
        let request = self.api.request(Method::POST, "/contacts/batch");
        let request = request.header("Idempotency-Key", key).body(body.to_owned());
        let request = request.header("Content-Type", "application/json");
        let response = match self.api.send(request).await? {
            ApiAttempt::Done(response) => response,
            ApiAttempt::Retry(wait) => return Ok(ApiAttempt::Retry(wait)),
        };
        let bytes = match response.bytes().await {
            Ok(bytes) => bytes,
            Err(error) => return Ok(ApiAttempt::Retry(connection_fault(&error))),
        };
        let mut answer: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let Value::Array(rows) = answer["data"].take() else {
            return Err(self.unexpected("no rows"));
        };
        // The outcome of rows with 5xx is unknown. The same request returns it, or creates them.
        let unknown = rows.iter().find(|row| row["status"].as_u64().is_some_and(|it| it >= 500));
        Ok(match unknown {
            Some(row) => ApiAttempt::Retry(RetryWait {
                reason: row["error"]["message"].as_str().unwrap_or("not now").to_owned(),
                pause: std::time::Duration::from_secs(1),
                is_limit: false,
            }),
            None => ApiAttempt::Done(rows),
        })
    }

    /// Records the results of the lines before `next`, durably.
    fn record(
        &mut self,
        mut refused: Vec<(u64, LineRefusal)>,
        next: &Position,
    ) -> Result<(), CliError> {
        refused.sort_by_key(|(line, _)| *line);
        for ((line, refusal), count) in refused.iter().zip(self.state.refused..REFUSED_SHOWN_MAX) {
            self.progress.print(&describe_refusal(*line, refusal));
            if count + 1 == REFUSED_SHOWN_MAX {
                self.progress
                    .print("further refused lines are only counted: --refused FILE lists all");
            }
        }
        if let (Some(file), false) = (&mut self.refused_file, refused.is_empty()) {
            self.state.refused_bytes = file.add(&refused)?;
        }
        self.state.refused += refused.len() as u64;
        (self.state.byte, self.state.line) = (next.byte(), next.line());
        self.state.record = next.record();
        // Saved last: unrecorded lines are sent again under the same idempotency key.
        self.kept.save(&self.state)?;
        self.progress.at(self.state.byte, &progress_text(&self.state));
        Ok(())
    }

    fn end(self) -> Result<(), CliError> {
        self.progress.end();
        self.progress.print(&progress_text(&self.state));
        match self.state.refused {
            0 => Ok(()),
            refused => Err(ImportError::Refused { refused }.into()),
        }
    }

    fn unexpected(&self, what: &str) -> CliError {
        CliError::Answer { server: self.api.server().to_owned(), what: what.to_owned() }
    }
}

fn progress_text(state: &ImportState) -> String {
    format!("{} contacts created, {} lines refused", state.made, state.refused)
}

/// Returns the reason why the server refused a contact, if it did.
fn server_refusal(row: &Value) -> Option<LineRefusal> {
    let message = row["error"]["message"].as_str()?;
    // A message about a field starts with its name.
    let named = message.strip_prefix('`').and_then(|rest| rest.split_once('`'));
    Some(match (named, row["status"].as_u64()) {
        (Some((field, reason)), _) => LineRefusal::new(field, reason.trim()),
        (None, Some(409)) => LineRefusal::new("phone", message),
        (None, _) => LineRefusal::new("", message),
    })
}

/// Reports the phones that would be sent in another form, and the lines that would be refused.
///
/// Nothing is sent.
pub(super) fn check_file(file: &Path, country: Option<Country>) -> Result<(), ImportError> {
    let mut lines = Lines::open(file, None, country)?;
    let (mut good, mut refused) = (0_u64, 0_u64);
    while let Some(line) = lines.next()? {
        match (line.contact, line.rewritten) {
            (Ok(contact), written) => {
                good += 1;
                if let Some(written) = written {
                    report(&describe_phone(line.number, &written, &contact));
                }
            }
            (Err(refusal), _) => {
                refused += 1;
                report(&describe_refusal(line.number, &refusal));
            }
        }
    }
    report(&format!("{good} contacts would be sent, {refused} lines refused"));
    if refused == 0 { Ok(()) } else { Err(ImportError::Refused { refused }) }
}

/// Describes a phone that is sent in another form than it is written.
fn describe_phone(line: u64, written: &str, contact: &Value) -> String {
    let sent = contact["phone"].as_str().unwrap_or_default();
    format!("line {line}: phone: {written} is sent as {sent}")
}

/// Describes a refused line.
fn describe_refusal(line: u64, refusal: &LineRefusal) -> String {
    match refusal.field.as_str() {
        "" => format!("line {line}: {}", refusal.reason),
        field => format!("line {line}: {field}: {}", refusal.reason),
    }
}
