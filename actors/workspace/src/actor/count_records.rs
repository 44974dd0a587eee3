//! The records of the counts of one-time passwords that a command changes.
//!
//! Their buffers are reused, since each send and check of a code has one.

use postrider_domain::WorkspaceId;
use postrider_store::{ChangeRef, Table};

use crate::core::otp::day_counts::{self, Row};

/// The records that are written with the running command's effects.
#[derive(Debug)]
pub(super) struct CountRecords {
    prefix: Vec<u8>,
    /// The keys of the values, and more that are kept for their memory.
    keys: Vec<Vec<u8>>,
    values: Vec<[u8; day_counts::BYTES]>,
}

impl CountRecords {
    pub(super) fn new(workspace: &WorkspaceId) -> Self {
        Self { prefix: day_counts::prefix(workspace), keys: Vec::new(), values: Vec::new() }
    }

    /// Encodes the rows that changed, in place of the previous ones.
    pub(super) fn encode(&mut self, rows: &[Row]) {
        self.values.clear();
        for (at, (day, code, counts)) in rows.iter().enumerate() {
            self.values.push(counts.encode());
            if self.keys.len() == at {
                self.keys.push(Vec::new());
            }
            day_counts::key_into(&self.prefix, *day, *code, &mut self.keys[at]);
        }
    }

    /// Returns the changes that write them.
    pub(super) fn changes(&self) -> impl ExactSizeIterator<Item = ChangeRef<'_>> {
        self.keys.iter().zip(&self.values).map(|(key, value)| ChangeRef {
            table: Table::Analytics,
            key,
            value: Some(value),
        })
    }
}
