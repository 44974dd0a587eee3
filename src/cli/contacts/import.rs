//! `postrider contacts import`

use std::path::Path;

use csv::Position;
use reqwest::Method;
use serde_json::Value;

use super::columns::Refusal;
use super::error::ImportError;
use super::lines::{Lines, hash};
use super::refused::{RefusedFile, told};
use super::state::{State, StateFile};
use crate::cli::api::{Api, Patience, Tried, Wait, fault};
use crate::cli::error::CliError;
use crate::cli::progress::Progress;

/// Most lines of a call, which is what the server takes.
const CALL_LINES_MAX: usize = 1000;
/// A call with more bytes than this takes no more lines: the server takes twice that.
const CALL_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Refused lines that are told one by one.
const TOLD_MAX: u64 = 20;

/// Lines that are sent with one call.
#[derive(Default)]
struct Part {
    /// Their numbers.
    lines: Vec<u64>,
    /// The call's body, as far as it is written.
    body: String,
    /// Lines among them that are not sent.
    refused: Vec<(u64, Refusal)>,
}

impl Part {
    /// Reads the next lines.
    fn read(lines: &mut Lines) -> Result<Self, ImportError> {
        let mut part = Self::default();
        while part.lines.len() < CALL_LINES_MAX
            && part.refused.len() < CALL_LINES_MAX
            && part.body.len() < CALL_BYTES_MAX
        {
            let Some(line) = lines.next()? else { break };
            match line.contact {
                Ok(contact) => {
                    part.body.push(if part.lines.is_empty() { '[' } else { ',' });
                    part.body.push_str(&contact.to_string());
                    part.lines.push(line.number);
                }
                Err(refusal) => part.refused.push((line.number, refusal)),
            }
        }
        Ok(part)
    }

    fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.refused.is_empty()
    }
}

/// An import under way.
struct Import<'a> {
    api: &'a Api,
    state: State,
    kept: StateFile,
    refused_file: Option<RefusedFile>,
    progress: Progress,
}

/// Imports a file, or the rest of it.
pub(super) async fn run(api: &Api, file: &Path, refused: Option<&Path>) -> Result<(), CliError> {
    let (content, size) = hash(file)?;
    let kept = StateFile::beside(file);
    if let Some(path) = refused.filter(|path| kept.is_in_use(file, path)) {
        return Err(ImportError::RefusedIsInput { path: path.to_owned() }.into());
    }
    // What cannot be read at all begins no import.
    drop(Lines::open(file, None)?);
    let state = kept.open(&content, &api.key_fingerprint())?;
    let mut progress = Progress::bytes(size);
    progress.start_at(state.byte);
    if state.finished {
        progress.say(&format!(
            "{} was imported before; remove {} to import it again",
            file.display(),
            kept.path().display()
        ));
    } else if state.byte > 0 {
        progress.say(&format!("going on after {}", counted(&state)));
    }
    let refused_file = match refused {
        Some(path) if !state.finished => Some(RefusedFile::open(path, state.refused_bytes)?),
        _ => None,
    };
    let mut import = Import { api, state, kept, refused_file, progress };
    if !import.state.finished {
        import.go_on(file).await?;
    }
    import.end()
}

impl Import<'_> {
    async fn go_on(&mut self, file: &Path) -> Result<(), CliError> {
        let from = (self.state.byte > 0).then(|| {
            let mut from = Position::new();
            from.set_byte(self.state.byte).set_line(self.state.line).set_record(self.state.record);
            from
        });
        let mut lines = Lines::open(file, from)?;
        loop {
            let begins = self.state.line;
            let part = Part::read(&mut lines)?;
            if part.is_empty() {
                break;
            }
            let next = lines.position();
            let mut refused = part.refused;
            if !part.lines.is_empty() {
                let body = format!("{{\"contacts\":{}]}}", part.body);
                let rows = self.send(begins, &body).await?;
                if rows.len() != part.lines.len() {
                    return Err(self.odd("another number of rows than contacts"));
                }
                let rows = part.lines.iter().zip(&rows);
                let by_server: Vec<_> =
                    rows.filter_map(|(line, row)| Some((*line, refusal(row)?))).collect();
                self.state.made += (part.lines.len() - by_server.len()) as u64;
                refused.extend(by_server);
            }
            self.note(refused, &next)?;
        }
        self.state.finished = true;
        self.kept.save(&self.state)?;
        Ok(())
    }

    /// Sends a call until it is answered for good. It is known to the server by where it begins, so
    /// it is carried out once however often it is sent.
    async fn send(&self, begins: u64, body: &str) -> Result<Vec<Value>, CliError> {
        let key = format!("import-{}-{begins}", self.state.run);
        let mut patience = Patience::new();
        loop {
            match self.try_send(&key, body).await? {
                Tried::Done(rows) => return Ok(rows),
                Tried::Later(wait) => {
                    self.progress.say(&format!("waiting: {}", wait.why));
                    patience.wait(wait, self.api.server()).await?;
                }
            }
        }
    }

    async fn try_send(&self, key: &str, body: &str) -> Result<Tried<Vec<Value>>, CliError> {
        let request = self.api.request(Method::POST, "/contacts/batch");
        let request = request.header("Idempotency-Key", key).body(body.to_owned());
        let request = request.header("Content-Type", "application/json");
        let response = match self.api.send(request).await? {
            Tried::Done(response) => response,
            Tried::Later(wait) => return Ok(Tried::Later(wait)),
        };
        let bytes = match response.bytes().await {
            Ok(bytes) => bytes,
            Err(error) => return Ok(Tried::Later(fault(&error))),
        };
        let mut answer: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let Value::Array(rows) = answer["data"].take() else {
            return Err(self.odd("no rows"));
        };
        // Of some it is not known whether they were made. The same call says, or makes them.
        let unknown = rows.iter().find(|row| row["status"].as_u64().is_some_and(|it| it >= 500));
        Ok(match unknown {
            Some(row) => Tried::Later(Wait {
                why: row["error"]["message"].as_str().unwrap_or("not now").to_owned(),
                pause: std::time::Duration::from_secs(1),
                is_limit: false,
            }),
            None => Tried::Done(rows),
        })
    }

    /// Notes what became of the lines before `next`.
    fn note(&mut self, mut refused: Vec<(u64, Refusal)>, next: &Position) -> Result<(), CliError> {
        refused.sort_by_key(|(line, _)| *line);
        for ((line, refusal), count) in refused.iter().zip(self.state.refused..TOLD_MAX) {
            self.progress.say(&told(*line, refusal));
            if count + 1 == TOLD_MAX {
                self.progress.say("more refused lines are counted, and told to --refused FILE");
            }
        }
        if let (Some(file), false) = (&mut self.refused_file, refused.is_empty()) {
            self.state.refused_bytes = file.add(&refused)?;
        }
        self.state.refused += refused.len() as u64;
        (self.state.byte, self.state.line) = (next.byte(), next.line());
        self.state.record = next.record();
        // Last: what is not noted is sent again, and known.
        self.kept.save(&self.state)?;
        self.progress.at(self.state.byte, &counted(&self.state));
        Ok(())
    }

    fn end(self) -> Result<(), CliError> {
        self.progress.end();
        self.progress.say(&counted(&self.state));
        match self.state.refused {
            0 => Ok(()),
            refused => Err(ImportError::Refused { refused }.into()),
        }
    }

    fn odd(&self, what: &str) -> CliError {
        CliError::Answer { server: self.api.server().to_owned(), what: what.to_owned() }
    }
}

fn counted(state: &State) -> String {
    format!("{} contacts made, {} lines refused", state.made, state.refused)
}

/// Why the server refused a contact, if it did.
fn refusal(row: &Value) -> Option<Refusal> {
    let message = row["error"]["message"].as_str()?;
    // A message about a field begins with its name.
    let named = message.strip_prefix('`').and_then(|rest| rest.split_once('`'));
    Some(match (named, row["status"].as_u64()) {
        (Some((field, reason)), _) => Refusal::new(field, reason.trim()),
        (None, Some(409)) => Refusal::new("phone", message),
        (None, _) => Refusal::new("", message),
    })
}
