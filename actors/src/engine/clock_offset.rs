//! The stored offset by which engine time is ahead of the system's.

use std::time::Duration;

use postrider_store::{Change, StoreError, Table, View};

/// The key of the offset in milliseconds, in [`Table::Meta`].
pub(crate) const KEY: &[u8] = b"clock_offset";

/// Returns the stored offset; zero if time was never moved.
pub(super) fn read(store: &dyn View) -> Result<Duration, StoreError> {
    let Some(bytes) = store.get(Table::Meta, KEY)? else { return Ok(Duration::ZERO) };
    let millis = bytes.try_into().map(u64::from_be_bytes);
    let millis = millis.map_err(|_| StoreError::Damaged("the clock's offset".into()))?;
    Ok(Duration::from_millis(millis))
}

/// Returns the change that stores an offset.
pub(crate) fn change(offset: Duration) -> Change {
    let millis = u64::try_from(offset.as_millis()).unwrap_or(u64::MAX);
    Change::put(Table::Meta, KEY, millis.to_be_bytes())
}
