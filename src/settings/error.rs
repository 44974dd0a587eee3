//! Says why settings are refused, and where the refused value was given.

use std::fmt;
use std::path::PathBuf;

/// Where a value was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The compiled-in defaults.
    Defaults,
    /// A file.
    File(PathBuf),
    /// An environment variable.
    Variable(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Defaults => f.write_str("config/default.toml"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Variable(name) => write!(f, "environment variable {name}"),
        }
    }
}

/// Why the settings are refused. No message repeats a value, because a value may be a secret.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The file cannot be read.
    #[error("{file}: cannot be read: {source}", file = .file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The file is not TOML.
    #[error("{origin}: not TOML: {message}")]
    Syntax {
        /// The file.
        origin: Origin,
        /// The syntax error and its line.
        message: String,
    },
    /// No such key exists.
    #[error("{origin}: unknown key `{key}`; allowed: {allowed}")]
    UnknownKey {
        /// Where the key was given.
        origin: Origin,
        /// The key.
        key: String,
        /// The keys that exist in its place.
        allowed: String,
    },
    /// The key does not allow the value.
    #[error("{origin}: bad value of `{key}`: must be {allowed}")]
    BadValue {
        /// Where the key was given.
        origin: Origin,
        /// The key.
        key: String,
        /// The allowed values.
        allowed: String,
    },
}

/// Why a section refuses a value.
pub(super) enum Refusal {
    /// The section has no such key.
    UnknownKey,
    /// The key does not allow the value.
    BadValue {
        /// The allowed values.
        allowed: &'static str,
    },
}
