//! Reads what a command takes from files, standard input or the environment: secrets and JSON.

use std::io::{IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

use postrider::settings::Secret;
use serde_json::Value;

/// The maximum number of bytes of a secret.
const SECRET_BYTES_MAX: u64 = 4096;

/// The maximum number of bytes of JSON: fifty languages of the longest texts are less.
const JSON_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// The possible sources of a secret.
pub(super) struct SecretSource<'a> {
    /// The name of its flag, such as `token`. The flag for a file is `<name>-file`.
    pub(super) flag: &'static str,
    /// The value of the flag: the secret itself, or `-` for standard input.
    pub(super) given: Option<&'a str>,
    /// The file that a flag names.
    pub(super) file: Option<&'a Path>,
    /// The environment variable that may contain it.
    pub(super) variable: &'static str,
}

/// The reason why a secret cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SecretError {
    #[error("{path}: {source}", path = .path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error("--{flag} -: the first line of standard input is empty")]
    Empty { flag: &'static str },
    #[error("--{flag} -: standard input: {source}")]
    Input { flag: &'static str, source: std::io::Error },
    #[error("{0} has a character that is not allowed, such as a space or a line break")]
    Malformed(String),
}

/// Checks a secret, and trims white space around it. `from` names its source.
fn checked_secret(text: &str, from: impl FnOnce() -> String) -> Result<Secret, SecretError> {
    let text = text.trim();
    match text.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(Secret::new(text)),
        false => Err(SecretError::Malformed(from())),
    }
}

impl SecretSource<'_> {
    /// Returns the secret, or `None` when no source has it.
    pub(super) fn read(&self) -> Result<Option<Secret>, SecretError> {
        match (self.given, self.file) {
            (Some("-"), _) => self.standard_input().map(Some),
            (Some(bare), _) => {
                self.warn();
                checked_secret(bare, || format!("--{}", self.flag)).map(Some)
            }
            (None, Some(path)) => {
                let text = std::fs::read_to_string(path)
                    .map_err(|source| SecretError::File { path: path.to_owned(), source })?;
                let line = text.lines().next().unwrap_or_default();
                checked_secret(line, || path.display().to_string()).map(Some)
            }
            (None, None) => {
                let value = std::env::var(self.variable).ok();
                let value = value.filter(|value| !value.trim().is_empty());
                let checked = |text: String| checked_secret(&text, || self.variable.to_owned());
                value.map(checked).transpose()
            }
        }
    }

    fn standard_input(&self) -> Result<Secret, SecretError> {
        let flag = self.flag;
        let input = std::io::stdin();
        if input.is_terminal() {
            // If standard error is closed, the question cannot be shown anywhere.
            drop(write!(std::io::stderr(), "{flag}: "));
        }
        let mut text = String::new();
        let read = if input.is_terminal() {
            input.read_line(&mut text)
        } else {
            input.lock().take(SECRET_BYTES_MAX).read_to_string(&mut text)
        };
        read.map_err(|source| SecretError::Input { flag, source })?;
        match text.lines().next().map(str::trim) {
            None | Some("") => Err(SecretError::Empty { flag }),
            Some(line) => checked_secret(line, || format!("--{flag} -")),
        }
    }

    /// Warns of a secret that every user of this machine can see in the list of processes.
    fn warn(&self) {
        let Self { flag, variable, .. } = self;
        drop(writeln!(
            std::io::stderr(),
            "warning: every user of this machine can see the value of --{flag}; use --{flag}-file \
             FILE, --{flag} - (standard input) or {variable}: the next version accepts only these"
        ));
    }
}

/// The reason why JSON cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JsonFileError {
    #[error("{path}: {source}", path = .path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error("{path} is not JSON: {source}", path = .path.display())]
    Json { path: PathBuf, source: serde_json::Error },
}

/// Reads JSON from a file; `-` is standard input.
pub(super) fn read_json(path: &Path) -> Result<Value, JsonFileError> {
    let mut text = Vec::new();
    let read = if path == Path::new("-") {
        std::io::stdin().lock().take(JSON_BYTES_MAX).read_to_end(&mut text)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(JSON_BYTES_MAX).read_to_end(&mut text))
    };
    read.map_err(|source| JsonFileError::File { path: path.to_owned(), source })?;
    serde_json::from_slice(&text)
        .map_err(|source| JsonFileError::Json { path: path.to_owned(), source })
}
