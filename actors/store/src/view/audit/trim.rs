//! Pure: finds the records of the audit log that are older than they have to be kept.

use std::ops::ControlFlow;

use super::{DamagedRow, TRIMMED_KEY, decode, sequence_of, trimmed};
use crate::{Change, Direction, StoreError, Table, View};
use postrider_domain::Timestamp;

/// The oldest records, which need not be kept.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExpiredRecords {
    /// The changes that remove them, and note up to where.
    pub changes: Vec<Change>,
    /// Those of them that cannot be read.
    pub damaged: Vec<DamagedRow>,
}

/// The oldest records from before `moment`, about `max` of them at the most. One that cannot be
/// read goes with the next one that can: no earlier one is later than that.
///
/// # Errors
/// [`StoreError`]: the store cannot be read.
pub fn expired(
    store: &dyn View,
    moment: Timestamp,
    max: usize,
) -> Result<ExpiredRecords, StoreError> {
    // What was removed is not passed again.
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
