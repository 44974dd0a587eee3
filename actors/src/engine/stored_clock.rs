//! The clock of an engine that does not run, from its data: shown, and rebased.

use std::path::Path;
use std::time::Duration;

use hashbrown::HashMap;

use postrider_domain::{AuditContext, AuditEntry, Timestamp, WorkspaceId};
use postrider_runtime::clock::Clock;
use postrider_store::directory;
use postrider_store::snapshot::SnapshotDir;
use postrider_store::{Store, StoreError, View, rebase, writer};
use postrider_workspace::core::hot::HotState;
use postrider_workspace::rebase as records;
use postrider_workspace::snapshots::Rebases;

use super::opening::{catch_up, newest_replay, snapshot_error};
use super::{StartError, clock_offset};
use crate::access;
use crate::audit::record_of;

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

/// The latest moment of what is durable. The journal counts for itself: a version that stored no
/// moment may have written it.
pub(super) fn latest_moment(
    store: &dyn View,
    hot: &HashMap<WorkspaceId, HotState>,
) -> Result<Option<Timestamp>, StoreError> {
    let of_journal = hot.values().map(HotState::latest).max();
    Ok(of_journal.max(writer::last_moment(store)?))
}

/// Data that no engine uses.
struct Data {
    store: Box<dyn Store>,
    /// The latest moment of what is durable.
    durable: Option<Timestamp>,
}

impl Data {
    fn open(dir: &Path) -> Result<Self, StartError> {
        let store = directory::open_stopped(dir)?;
        let snapshots = SnapshotDir::open(dir.join("snapshots")).map_err(snapshot_error)?;
        let durable = durable(store.as_ref(), Some(&snapshots))?;
        Ok(Self { store, durable })
    }
}

/// The latest moment of what is durable, read from the store and the snapshots.
fn durable(
    store: &dyn Store,
    snapshots: Option<&SnapshotDir>,
) -> Result<Option<Timestamp>, StartError> {
    let rebases = Rebases::from(rebase::all(store)?);
    let mut replay = newest_replay(snapshots, rebases)?;
    catch_up(store, &mut replay)?;
    Ok(latest_moment(store, &replay.into_states().0)?)
}

/// Reads the clock of the data in a directory that no engine uses. Blocks.
///
/// # Errors
/// [`StartError`]: the store is in use, damaged or out of reach.
pub fn stored_clock(dir: &Path) -> Result<StoredClock, StartError> {
    let Data { store, durable } = Data::open(dir)?;
    let clock = Clock::system();
    clock.advance(clock_offset::read(store.as_ref())?);
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
    let Data { store, durable } = Data::open(dir)?;
    let rebased = rebase_data(store.as_ref(), durable, &Clock::system())?;
    store.close()?;
    Ok(rebased)
}

fn rebase_data(
    store: &dyn Store,
    durable: Option<Timestamp>,
    clock: &Clock,
) -> Result<Option<ClockRebase>, StartError> {
    clock.advance(clock_offset::read(store)?.saturating_sub(clock.offset()));
    let to = clock.now();
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
pub(super) fn rebase_stopped(
    store: &dyn Store,
    snapshots: Option<&Path>,
    clock: &Clock,
) -> Option<ClockRebase> {
    let snapshots = snapshots.map(|dir| SnapshotDir::open(dir).unwrap());
    let durable = durable(store, snapshots.as_ref()).unwrap();
    rebase_data(store, durable, clock).unwrap()
}
