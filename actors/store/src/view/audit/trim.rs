//! Pure: finds the records of the audit log whose retention has ended.

use std::ops::ControlFlow;

use super::{DamagedRow, TRIMMED_KEY, decode, sequence_of, trimmed};
use crate::{Change, Direction, StoreError, Table, View};
use postrider_domain::Timestamp;

/// The oldest records, whose retention has ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExpiredRecords {
    /// The changes that remove them, and record the position.
    pub changes: Vec<Change>,
    /// The unreadable ones among them.
    pub damaged: Vec<DamagedRow>,
}

/// Returns the oldest records from before `moment`, about `max` of them at the most.
///
/// An unreadable one is removed with the next readable one: no earlier one has a later moment.
///
/// # Errors
/// [`StoreError`]: the store cannot be read.
pub fn expired(
    store: &dyn View,
    moment: Timestamp,
    max: usize,
) -> Result<ExpiredRecords, StoreError> {
    // The removed records are not passed again.
    let from = (trimmed(store)?.sequence + 1).to_be_bytes();
    let (mut found, mut newest, mut unread) = (ExpiredRecords::default(), None, Vec::new());
    store.scan(Table::Audit, &[], Some(&from), Direction::Forward, &mut |key, value| {
        let Some(sequence) = sequence_of(key) else { return ControlFlow::Continue(()) };
        match decode(sequence, value) {
            Ok(row) if row.mark.at < moment && found.changes.len() < max => newest = Some(row.mark),
            Ok(_) => return ControlFlow::Break(()),
            Err(damaged) => {
                unread.push(damaged);
                return ControlFlow::Continue(());
            }
        }
        for damaged in unread.drain(..) {
            found.changes.push(Change::delete(Table::Audit, damaged.sequence.to_be_bytes()));
            found.damaged.push(damaged);
        }
        found.changes.push(Change::delete(Table::Audit, key));
        ControlFlow::Continue(())
    })?;
    if let Some(newest) = newest {
        found.changes.push(Change::put(Table::Meta, TRIMMED_KEY, newest.encode()));
    }
    Ok(found)
}
