//! Pure: what a sender notes of what it sends: a name of its own, and what it keeps with it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What a sender notes of a message or a broadcast. Every row and every event about it shows it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SenderNotes {
    /// What its sender calls it; several may have the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// What its sender keeps with it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

impl SenderNotes {
    /// Whether nothing is noted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.reference.is_none() && self.metadata.is_empty()
    }

    /// Both as the payload of an event has them, where what is not there is left out.
    #[must_use]
    pub fn shown(&self) -> (Option<String>, Option<BTreeMap<String, String>>) {
        let metadata = (!self.metadata.is_empty()).then(|| self.metadata.clone());
        (self.reference.clone(), metadata)
    }
}
