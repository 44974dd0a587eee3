//! The source of a copy: the directory of a stopped server, or a running server.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use postrider::StoppedData;
use postrider_actors::copies::{Contents, CopyError, check_space};
use postrider_actors::store::blobs::BlobHash;
use postrider_actors::store::{LogId, Position};
use reqwest::{Method, Response};
use serde_json::Value;
use tokio::runtime::Handle;

use crate::cli::client::{AdminClient, innermost_cause};
use crate::cli::error::CliError;
use crate::cli::server_args::{Remote, ServerArgs, address};

/// Names the source.
#[derive(Args)]
pub(crate) struct SourceArgs {
    /// Read the data directory of a stopped server, instead of a running server
    #[arg(long, value_name = "DIR", conflicts_with = "server")]
    data_dir: Option<PathBuf>,
    /// The address of a running server. By default, it is POSTRIDER_SERVER or
    /// http://127.0.0.1:8080
    #[arg(long, help_heading = "Server", value_name = "URL", value_parser = address)]
    server: Option<String>,
    /// With `--token -`, read the admin token from standard input. Without this option, the command
    /// uses POSTRIDER_ADMIN_TOKEN, POSTRIDER__ADMIN__TOKEN or admin.token in the data directory
    #[arg(long, help_heading = "Server", value_name = "-", conflicts_with = "data_dir")]
    token: Option<String>,
    /// Read the admin token from the first line of this file
    #[arg(
        long,
        help_heading = "Server",
        value_name = "FILE",
        conflicts_with_all = ["token", "data_dir"]
    )]
    token_file: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
}

impl std::fmt::Debug for SourceArgs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SourceArgs")
            .field("data_dir", &self.data_dir)
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

/// The source of a copy.
pub(super) enum CopySource {
    Stopped(Box<StoppedData>),
    Running(AdminClient, Handle),
}

impl SourceArgs {
    pub(super) const fn json(&self) -> bool {
        self.json
    }

    /// Opens the directory, or finds the token of the server. Must run within a runtime.
    pub(super) fn open(&self) -> Result<CopySource, CliError> {
        match (&self.data_dir, &self.server) {
            (Some(dir), _) => Ok(CopySource::Stopped(Box::new(StoppedData::open(dir)?))),
            (None, server) => {
                let server = match server {
                    Some(server) => ServerArgs::of(server.clone()),
                    None => ServerArgs::of_environment()?,
                };
                let remote = Remote {
                    server,
                    token: self.token.clone(),
                    token_file: self.token_file.clone(),
                    data_dir: None,
                    json: self.json,
                };
                Ok(CopySource::Running(AdminClient::new(&remote)?, Handle::current()))
            }
        }
    }
}

impl CopySource {
    /// Fails unless an archive has room beside `file`.
    ///
    /// The size of an archive of a running server is known only after its transfer.
    pub(super) fn check_space_for_archive(&self, file: &Path) -> Result<(), CopyError> {
        match self {
            Self::Stopped(data) => check_space(parent_folder(file), data.source().archive_bytes()?),
            Self::Running(..) => Ok(()),
        }
    }

    /// Fails unless the log after a position has room beside `file`.
    pub(super) fn check_space_for_log(
        &self,
        file: &Path,
        after: Position,
    ) -> Result<(), CopyError> {
        match self {
            Self::Stopped(data) => {
                check_space(parent_folder(file), data.source().log_bytes(after)?)
            }
            Self::Running(..) => Ok(()),
        }
    }

    /// Writes an archive that a backup can extend: the newest checkpoint, if there is one.
    pub(super) fn write_base(&self, out: &mut dyn Write) -> Result<(), CopyError> {
        match self {
            Self::Stopped(data) => data.source().write_base(None, out),
            Self::Running(client, runtime) => {
                runtime.block_on(fetch(client, "/archive?checkpoint=true", out))
            }
        }
    }

    /// Writes an archive of the source.
    pub(super) fn write_archive(&self, out: &mut dyn Write) -> Result<(), CopyError> {
        match self {
            Self::Stopped(data) => data.source().write_archive(None, out).map(drop),
            Self::Running(client, runtime) => runtime.block_on(fetch(client, "/archive", out)),
        }
    }

    /// Writes the entries of the log after a position, if it is this log.
    pub(super) fn write_log(
        &self,
        log: LogId,
        after: Position,
        out: &mut dyn Write,
    ) -> Result<(), CopyError> {
        match self {
            Self::Stopped(data) if data.source().log_id() != log => Err(other_log_error()),
            Self::Stopped(data) => data.source().write_log(after, out).map(drop),
            Self::Running(client, runtime) => {
                let log: String = log.0.iter().map(|byte| format!("{byte:02x}")).collect();
                let path = format!("/archive/log?after={after}&log={log}");
                runtime.block_on(fetch(client, &path, out))
            }
        }
    }
}

impl Contents for CopySource {
    fn all(&self) -> Result<Vec<BlobHash>, CopyError> {
        let (client, runtime) = match self {
            Self::Stopped(data) => return data.contents().all(),
            Self::Running(client, runtime) => (client, runtime),
        };
        let mut text = Vec::new();
        match runtime.block_on(fetch(client, "/archive/files", &mut text)) {
            // The server stores no files.
            Err(CopyError::Lost(_)) => return Ok(Vec::new()),
            fetched => fetched?,
        }
        let text = String::from_utf8(text).unwrap_or_default();
        let none = || CopyError::Io("the server sent an invalid list of files".into());
        text.lines().map(|line| BlobHash::parse(line).ok_or_else(none)).collect()
    }

    fn copy(&self, hash: &BlobHash, out: &mut dyn Write) -> Result<bool, CopyError> {
        match self {
            Self::Stopped(data) => data.contents().copy(hash, out),
            Self::Running(client, runtime) => runtime.block_on(fetch_content(client, hash, out)),
        }
    }
}

/// Returns the directory of a file that is to be made.
fn parent_folder(file: &Path) -> &Path {
    match file.parent() {
        Some(dir) if dir != Path::new("") => dir,
        _ => Path::new("."),
    }
}

fn other_log_error() -> CopyError {
    let what = "the backup is of another log: an imported or restored directory has a new log and \
                needs a new backup directory";
    CopyError::NotEmpty(what.into())
}

/// Writes the body of an answer.
async fn fetch(client: &AdminClient, path: &str, out: &mut dyn Write) -> Result<(), CopyError> {
    let response = request(client, path).await?;
    copy_body(response, &mut 0, out).await?.map_err(read_error)
}

/// Writes the content of a file. Returns whether it exists.
///
/// A content whose answer breaks off twice is damaged. The server breaks off at unreadable data,
/// and reports no cause.
async fn fetch_content(
    client: &AdminClient,
    hash: &BlobHash,
    out: &mut dyn Write,
) -> Result<bool, CopyError> {
    let path = format!("/archive/files/{hash}");
    let mut written = 0;
    for _ in 0..2 {
        let response = match request(client, &path).await {
            Err(CopyError::Lost(_)) => return Ok(false),
            asked => asked?,
        };
        if copy_body(response, &mut written, out).await?.is_ok() {
            return Ok(true);
        }
    }
    Err(CopyError::Damaged(format!("{hash}: the server's answer ended early")))
}

async fn request(client: &AdminClient, path: &str) -> Result<Response, CopyError> {
    let response = client.request(Method::GET, path).send().await.map_err(read_error)?;
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let answer: Value = response.json().await.unwrap_or_default();
    let message = answer["message"].as_str().unwrap_or("an unexpected answer");
    let message = format!("the server answers {}: {message}", status.as_u16());
    Err(match answer["reason"].as_str() {
        Some("other_log") => other_log_error(),
        Some("trimmed") => CopyError::Trimmed(message),
        Some("ahead" | "no_such_file" | "no_files") => CopyError::Lost(message),
        Some("unreadable_file") => CopyError::Damaged(message),
        _ => CopyError::Io(message),
    })
}

/// Writes a body except for its first `written` bytes, and counts the bytes.
///
/// Returns the error if the body breaks off.
async fn copy_body(
    mut response: Response,
    written: &mut u64,
    out: &mut dyn Write,
) -> Result<Result<(), reqwest::Error>, CopyError> {
    let mut known = *written;
    loop {
        let chunk = match response.chunk().await {
            Ok(Some(chunk)) => chunk,
            Ok(None) => return Ok(Ok(())),
            Err(error) => return Ok(Err(error)),
        };
        let skipped = known.min(chunk.len() as u64);
        known -= skipped;
        let new = &chunk[skipped as usize..];
        out.write_all(new)?;
        *written += new.len() as u64;
    }
}

fn read_error(error: reqwest::Error) -> CopyError {
    CopyError::Io(format!("the server cannot be read: {}", innermost_cause(&error)))
}
