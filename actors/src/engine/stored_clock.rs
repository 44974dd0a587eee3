//! The clock of an engine that does not run, from its data: shown, and rebased.
//!
//! The data has the offset by which engine time is ahead of the system's.

use std::path::Path;
use std::time::Duration;

use postrider_domain::{AuditContext, AuditEntry, Timestamp};
use postrider_runtime::clock::Clock;
use postrider_store::{Change, Store, StoreError, Table, View, directory, rebase, writer};
use postrider_workspace::rebase as records;

use super::StartError;
use crate::access;
use crate::audit::record_of;

/// The key of the offset in milliseconds, in [`Table::Meta`].
pub(crate) const CLOCK_OFFSET_KEY: &[u8] = b"clock_offset";

/// The clocks that an engine would show if it ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredClock {
    /// The machine's clock. Real time starts at it.
    pub wall: Timestamp,
    /// The engine time at which the engine would start now.
    pub engine: Timestamp,
    /// The latest time in the durable data.
    pub durable: Option<Timestamp>,
    /// The offset of engine time that puts it behind nothing durable.
    pub ahead: Duration,
}

/// Reads the clock of the data in a directory that no engine uses. Blocks.
///
/// # Errors
/// [`StartError`]: the store is in use, damaged or out of reach.
pub fn stored_clock(dir: &Path) -> Result<StoredClock, StartError> {
    let store = directory::open_stopped(dir)?;
    let durable = writer::last_moment(&store)?;
    let clock = Clock::system();
    clock.advance(read_clock_offset(&store)?);
    durable.into_iter().for_each(|durable| clock.start_after(durable));
    let ahead = clock.health().lead;
    Ok(StoredClock { wall: clock.wall(), engine: clock.now(), durable, ahead })
}

/// The result of a rebase of the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockRebase {
    /// The latest time in the durable data before the rebase.
    pub from: Timestamp,
    /// The time that replaces later ones: the machine's time and the sandbox's offset.
    pub to: Timestamp,
}

/// Rebases the data in a directory whose clock was ahead: its later times count as the present.
///
/// Codes end their expiry after it, windows count it as just now, and the next engine starts there.
/// No engine may use the directory. It is one commit, with a record in the audit log. Returns
/// `None` and changes nothing if nothing durable is later than the present. Blocks.
///
/// # Errors
/// [`StartError`]: the store is in use, damaged or out of reach.
pub fn rebase_clock(dir: &Path) -> Result<Option<ClockRebase>, StartError> {
    let store = directory::open_stopped(dir)?;
    let rebased = rebase_data(&store, &Clock::system())?;
    store.close()?;
    Ok(rebased)
}

fn rebase_data(store: &dyn Store, clock: &Clock) -> Result<Option<ClockRebase>, StartError> {
    clock.advance(read_clock_offset(store)?.saturating_sub(clock.offset()));
    let to = clock.now();
    let durable = writer::last_moment(store)?;
    let Some(from) = durable.filter(|from| *from > to) else { return Ok(None) };
    let entry = AuditEntry::new("clock.rebase")
        .change("from", from.to_string())
        .change("to", to.to_string());
    let record = record_of(to, &AuditContext::system(), entry);
    let mut changes = records::changes(store, to)?;
    changes.extend(access::rebased(store, to)?);
    rebase::commit(store, to, record, changes)?;
    Ok(Some(ClockRebase { from, to }))
}

/// Rebases the clock of an engine that has stopped, to the time of this clock.
#[cfg(test)]
pub(super) fn rebase_stopped(store: &dyn Store, clock: &Clock) -> Option<ClockRebase> {
    rebase_data(store, clock).unwrap()
}

/// Returns the stored offset; zero if time was never moved.
pub(super) fn read_clock_offset(store: &dyn View) -> Result<Duration, StoreError> {
    let Some(bytes) = store.get(Table::Meta, CLOCK_OFFSET_KEY)? else { return Ok(Duration::ZERO) };
    let millis = bytes.try_into().map(u64::from_be_bytes);
    let millis = millis.map_err(|_| StoreError::Damaged("the clock's offset".into()))?;
    Ok(Duration::from_millis(millis))
}

/// Returns the change that stores an offset.
pub(crate) fn clock_offset_change(offset: Duration) -> Change {
    let millis = u64::try_from(offset.as_millis()).unwrap_or(u64::MAX);
    Change::put(Table::Meta, CLOCK_OFFSET_KEY, millis.to_be_bytes())
}
