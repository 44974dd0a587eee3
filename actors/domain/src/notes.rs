//! Pure: a sender's notes of a message or a broadcast: its own reference and data.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A sender's notes of a message or a broadcast. Every row and every event about it shows them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SenderNotes {
    /// The sender's reference; several may have the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// The sender's own data.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

impl SenderNotes {
    /// Returns whether there are no notes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.reference.is_none() && self.metadata.is_empty()
    }

    /// Returns both in the form of an event's payload, which leaves absent values out.
    #[must_use]
    pub fn shown(&self) -> (Option<String>, Option<BTreeMap<String, String>>) {
        let metadata = (!self.metadata.is_empty()).then(|| self.metadata.clone());
        (self.reference.clone(), metadata)
    }
}
