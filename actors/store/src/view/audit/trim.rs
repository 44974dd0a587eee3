//! Pure: finds the records of the audit log that are older than they have to be kept.

use std::ops::ControlFlow;

use super::{TRIMMED_KEY, decode, sequence_of, trimmed};
use crate::{Change, Direction, StoreError, Table, View};
use postrider_domain::Timestamp;

/// The changes that remove the oldest records from before `moment`, `max` of them at the most, and
/// note up to where. Nothing, if there are none.
///
/// # Errors
/// [`StoreError`]: the store cannot be read, or a record is damaged.
pub fn expired(store: &dyn View, moment: Timestamp, max: usize) -> Result<Vec<Change>, StoreError> {
    // What was removed is not passed again.
    let from = (trimmed(store)?.sequence + 1).to_be_bytes();
    let (mut changes, mut newest, mut damage) = (Vec::new(), None, None);
    store.scan(Table::Audit, &[], Some(&from), Direction::Forward, &mut |key, value| {
        let Some(sequence) = sequence_of(key) else { return ControlFlow::Continue(()) };
        match decode(sequence, value) {
            Ok(row) if row.mark.at < moment && changes.len() < max => newest = Some(row.mark),
            Ok(_) => return ControlFlow::Break(()),
            Err(error) => {
                damage = Some(error);
                return ControlFlow::Break(());
            }
        }
        changes.push(Change::delete(Table::Audit, key));
        ControlFlow::Continue(())
    })?;
    if let Some(newest) = newest {
        changes.push(Change::put(Table::Meta, TRIMMED_KEY, newest.encode()));
    }
    match damage {
        // What is before the damaged record still goes.
        Some(error) if changes.is_empty() => Err(error),
        _ => Ok(changes),
    }
}
