//! Pure: the id of a workspace, and its syntax.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The maximum characters of a workspace's id. Formats on disk keep this length in one byte.
pub const CHARS_MAX: usize = 40;
const _: () = assert!(CHARS_MAX <= u8::MAX as usize);

/// A workspace's id: 1 to 40 of `a-z`, `0-9` and `-`. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct WorkspaceId(Arc<str>);

/// The text is not a valid workspace id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be 1 to 40 characters of a-z, 0-9 and -")]
pub struct WorkspaceIdError;

impl WorkspaceId {
    /// Returns the id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for WorkspaceId {
    type Err = WorkspaceIdError;

    fn from_str(text: &str) -> Result<Self, WorkspaceIdError> {
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if (1..=CHARS_MAX).contains(&text.len()) && text.bytes().all(allowed) {
            Ok(Self(text.into()))
        } else {
            Err(WorkspaceIdError)
        }
    }
}

impl TryFrom<String> for WorkspaceId {
    type Error = WorkspaceIdError;

    fn try_from(text: String) -> Result<Self, WorkspaceIdError> {
        text.parse()
    }
}

impl From<WorkspaceId> for String {
    fn from(id: WorkspaceId) -> Self {
        id.as_str().to_owned()
    }
}

impl fmt::Display for WorkspaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for WorkspaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_the_documented_form_only() {
        for good in ["a", "acme", "acme-2", "0", &"x".repeat(40)] {
            assert!(good.parse::<WorkspaceId>().is_ok(), "{good}");
        }
        for bad in ["", "Acme", "a_b", "a b", "a/b", "ä", &"x".repeat(41)] {
            assert!(bad.parse::<WorkspaceId>().is_err(), "{bad}");
        }
    }
}
