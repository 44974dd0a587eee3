//! Pure: names of nodes and of clusters, and the identity of a node's process.

use std::fmt;
use std::sync::Arc;

/// The maximum number of characters of a name.
const NAME_CHARS_MAX: usize = 32;

/// The name of a node or of a cluster: 1 to 32 of `a` to `z`, `0` to `9` and `-`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeName(Arc<str>);

/// A name is empty, is too long or has a forbidden character.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a name has 1 to {NAME_CHARS_MAX} of a-z, 0-9 and -, but this is {0:?}")]
pub struct NameError(String);

impl NodeName {
    /// Checks a name.
    ///
    /// # Errors
    /// [`NameError`] with the given text.
    pub fn new(name: &str) -> Result<Self, NameError> {
        let is_fit = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if name.is_empty() || name.len() > NAME_CHARS_MAX || !name.bytes().all(is_fit) {
            return Err(NameError(name.to_owned()));
        }
        Ok(Self(name.into()))
    }

    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The identity of a process: an id of its data directory, and an id of the process alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity {
    /// 16 random bytes of the data directory, which outlive a restart.
    pub directory: [u8; 16],
    /// 16 random bytes of the process.
    pub incarnation: [u8; 16],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_short_plain_names_are_names() {
        for name in ["a", "pr-1", "0123456789abcdefghijklmnopqrstuv"] {
            assert_eq!(NodeName::new(name).unwrap().as_str(), name);
        }
        for name in ["", "A", "pr_1", "pr.1", "ä", "a b", "0123456789abcdefghijklmnopqrstuvw"] {
            let error = NodeName::new(name).unwrap_err();
            assert!(error.to_string().contains("a-z, 0-9 and -"), "{error}");
        }
    }
}
