//! Why settings are refused, and where the refused value was given.

use std::fmt;
use std::path::PathBuf;

/// Where a value was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The defaults that are compiled in.
    Defaults,
    /// A file.
    File(PathBuf),
    /// A variable of the environment.
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

/// Why the settings cannot be used. No message repeats a value: it may be a secret.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The file cannot be read.
    #[error("{file}: cannot be read: {source}", file = .file.display())]
    Read {
        /// Which.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is not TOML.
    #[error("{origin}: not TOML: {message}")]
    Syntax {
        /// Which file.
        origin: Origin,
        /// What is wrong, and where.
        message: String,
    },
    /// There is no such setting.
    #[error("{origin}: unknown key `{key}`; allowed: {allowed}")]
    UnknownKey {
        /// Where it was given.
        origin: Origin,
        /// The key.
        key: String,
        /// The keys that exist beside it.
        allowed: String,
    },
    /// The value is not one that the setting may have.
    #[error("{origin}: bad value of `{key}`: must be {allowed}")]
    BadValue {
        /// Where it was given.
        origin: Origin,
        /// The key.
        key: String,
        /// What is allowed.
        allowed: String,
    },
}

/// Why a section does not take a value.
pub(super) enum Refusal {
    /// It has no such key.
    UnknownKey,
    /// The key cannot have this value.
    BadValue {
        /// What it can have.
        allowed: &'static str,
    },
}
