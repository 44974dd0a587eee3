//! The reasons why settings are refused, and the origins of refused values.

use std::fmt;
use std::path::PathBuf;

/// The origin of a value.
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

/// The reason why the settings are refused. No message repeats a value, as it may be a secret.
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
        /// The origin of the key.
        origin: Origin,
        /// The key.
        key: String,
        /// The keys that exist in its place.
        allowed: String,
    },
    /// The key does not allow the value.
    #[error("{origin}: bad value of `{key}`: must be {allowed}")]
    BadValue {
        /// The origin of the key.
        origin: Origin,
        /// The key.
        key: String,
        /// The allowed values.
        allowed: String,
    },
}

/// The reason why a section refuses a value.
pub(super) enum Refusal {
    /// The section has no such key.
    UnknownKey,
    /// The key does not allow the value.
    BadValue {
        /// The allowed values.
        allowed: &'static str,
    },
}
