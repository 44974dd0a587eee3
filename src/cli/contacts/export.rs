//! Runs `postrider contacts export`.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use postrider::csv_cell as cell;
use reqwest::Method;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::columns::tags_cell;
use super::error::ImportError;
use super::files::create_private;
use crate::cli::api::{Api, ApiAttempt, RetryBudget, connection_fault};
use crate::cli::error::CliError;
use crate::cli::output::{CommandProgress, Escaping, report};

const COLUMNS: [&str; 8] =
    ["id", "name", "phone", "email", "tags", "custom_fields", "created_at", "updated_at"];

/// A contact as the server exports it.
#[derive(Deserialize)]
struct Exported {
    id: String,
    name: String,
    #[serde(default)]
    phone: Option<String>,
    #[serde(default)]
    email: Option<String>,
    tags: Vec<String>,
    custom_fields: Box<RawValue>,
    created_at: String,
    updated_at: String,
}

/// An export in progress.
struct ExportRun<'a> {
    api: &'a Api,
    out: csv::Writer<Box<dyn Write>>,
    path: PathBuf,
    /// The ID of the last contact that was written.
    last: Option<String>,
    count: u64,
    progress: CommandProgress,
    /// Set if texts are written without escaping.
    raw: bool,
}

/// Exports every contact to a file, or to standard output.
pub(super) async fn export_contacts(
    api: &Api,
    file: Option<&Path>,
    raw: bool,
) -> Result<(), CliError> {
    let file = file.filter(|file| *file != Path::new("-"));
    // Counted first, so that an export that cannot start leaves no file behind.
    let progress = CommandProgress::items(contact_count(api).await?);
    // A partial export must not look like a complete one.
    let part = file.map(|file| {
        let mut part = file.as_os_str().to_owned();
        part.push(".part");
        PathBuf::from(part)
    });
    let out: Box<dyn Write> = match &part {
        Some(part) => {
            let made = create_private(part).map_err(|source| ImportError::io(part, source))?;
            Box::new(BufWriter::new(made))
        }
        None if std::io::stdout().is_terminal() => Box::new(Escaping(std::io::stdout())),
        None => Box::new(std::io::stdout()),
    };
    let path = part.clone().unwrap_or_else(|| "standard output".into());
    let out = csv::Writer::from_writer(out);
    let mut export = ExportRun { api, out, path, last: None, count: 0, progress, raw };
    export.write_all().await?;
    if let (Some(file), Some(part)) = (file, part) {
        let synced = File::open(&part).and_then(|written| written.sync_all());
        let named = synced.and_then(|()| std::fs::rename(&part, file));
        named.map_err(|source| ImportError::io(file, source))?;
    }
    export.progress.end();
    export.progress.print(&format!("{} contacts", export.count));
    Ok(())
}

/// Returns the number of contacts.
async fn contact_count(api: &Api) -> Result<u64, CliError> {
    let mut retries = RetryBudget::new();
    loop {
        let wait = match api.send(api.request(Method::GET, "/contacts?limit=1")).await? {
            ApiAttempt::Done(response) => match response.json::<Value>().await {
                Ok(page) => return Ok(page["total"].as_u64().unwrap_or(0)),
                Err(error) => connection_fault(&error),
            },
            ApiAttempt::Retry(wait) => wait,
        };
        retries.wait(wait, api.server(), report).await?;
    }
}

impl ExportRun<'_> {
    async fn write_all(&mut self) -> Result<(), CliError> {
        self.write(COLUMNS)?;
        let mut retries = RetryBudget::new();
        loop {
            let before = self.count;
            let wait = match self.read_remaining().await? {
                ApiAttempt::Done(()) => break,
                ApiAttempt::Retry(wait) => wait,
            };
            if self.count > before {
                retries = RetryBudget::new();
            }
            retries.wait(wait, self.api.server(), |line| self.progress.print(line)).await?;
        }
        self.out.flush().map_err(|source| ImportError::io(&self.path, source).into())
    }

    /// Reads the remaining contacts once, until the end or until the connection breaks.
    async fn read_remaining(&mut self) -> Result<ApiAttempt<()>, CliError> {
        let path = match &self.last {
            Some(last) => format!("/contacts/export?after={last}"),
            None => "/contacts/export".to_owned(),
        };
        let mut response = match self.api.send(self.api.request(Method::GET, &path)).await? {
            ApiAttempt::Done(response) => response,
            ApiAttempt::Retry(wait) => return Ok(ApiAttempt::Retry(wait)),
        };
        let mut rest = Vec::new();
        loop {
            match response.chunk().await {
                Ok(Some(chunk)) => rest.extend_from_slice(&chunk),
                Ok(None) => return Ok(ApiAttempt::Done(())),
                Err(error) => return Ok(ApiAttempt::Retry(connection_fault(&error))),
            }
            let whole = rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            for line in rest[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                self.contact(line)?;
            }
            rest.drain(..whole);
            self.progress.at(self.count, &format!("{} contacts", self.count));
        }
    }

    fn contact(&mut self, line: &[u8]) -> Result<(), CliError> {
        let contact: Exported = serde_json::from_slice(line).map_err(|error| CliError::Answer {
            server: self.api.server().to_owned(),
            what: error.to_string(),
        })?;
        let fields = match contact.custom_fields.get() {
            "{}" => "",
            fields => fields,
        };
        let tags = tags_cell(&contact.tags);
        self.write([
            &contact.id,
            &self.text(&contact.name),
            contact.phone.as_deref().unwrap_or_default(),
            &self.text(contact.email.as_deref().unwrap_or_default()),
            &self.text(&tags),
            fields,
            &contact.created_at,
            &contact.updated_at,
        ])?;
        self.last = Some(contact.id);
        self.count += 1;
        Ok(())
    }

    /// Returns the cell of a text.
    fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.raw { text.into() } else { cell::text(text) }
    }

    fn write(&mut self, cells: [&str; 8]) -> Result<(), CliError> {
        let written = self.out.write_record(cells);
        written.map_err(|error| ImportError::csv(&self.path, &error).into())
    }
}
