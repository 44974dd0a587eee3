//! Reads secrets of the command line from a file, standard input or the environment.

use std::io::{IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

use postrider::settings::Secret;

/// Most bytes of a secret.
const BYTES_MAX: u64 = 4096;

/// Where a secret may come from.
pub(super) struct Source<'a> {
    /// The name of its flag, such as `token`. The one that names a file is `<name>-file`.
    pub(super) flag: &'static str,
    /// The value of the flag: the secret itself, or `-` for standard input.
    pub(super) given: Option<&'a str>,
    /// The file that a flag names.
    pub(super) file: Option<&'a Path>,
    /// The environment variable that may hold it.
    pub(super) variable: &'static str,
}

/// A secret cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SecretError {
    #[error("{path}: {source}", path = .path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error("--{flag} -: standard input holds no line")]
    Empty { flag: &'static str },
    #[error("--{flag} -: standard input: {source}")]
    Input { flag: &'static str, source: std::io::Error },
}

impl Source<'_> {
    /// The secret, or `None` when it was given nowhere.
    pub(super) fn read(&self) -> Result<Option<Secret>, SecretError> {
        match (self.given, self.file) {
            (Some("-"), _) => self.standard_input().map(Some),
            (Some(bare), _) => {
                self.warn();
                Ok(Some(Secret::new(bare)))
            }
            (None, Some(path)) => {
                let text = std::fs::read_to_string(path)
                    .map_err(|source| SecretError::File { path: path.to_owned(), source })?;
                Ok(Some(Secret::new(text.lines().next().unwrap_or_default().trim())))
            }
            (None, None) => {
                let value = std::env::var(self.variable).ok();
                Ok(value.filter(|value| !value.is_empty()).map(Secret::new))
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
            input.lock().take(BYTES_MAX).read_to_string(&mut text)
        };
        read.map_err(|source| SecretError::Input { flag, source })?;
        match text.lines().next().map(str::trim) {
            None | Some("") => Err(SecretError::Empty { flag }),
            Some(line) => Ok(Secret::new(line)),
        }
    }

    /// Warns of a secret that every user of this machine can see in the list of processes.
    fn warn(&self) {
        let Self { flag, variable, .. } = self;
        drop(writeln!(
            std::io::stderr(),
            "warning: every user of this machine can see the value of --{flag}; give --{flag}-file \
             FILE, --{flag} - (standard input) or {variable}: the next version takes no other"
        ));
    }
}
