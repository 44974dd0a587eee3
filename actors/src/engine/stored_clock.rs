//! The clock of an engine that does not run, as its data has it.

use std::path::Path;
use std::time::Duration;

use hashbrown::HashMap;

use postrider_domain::{Timestamp, WorkspaceId};
use postrider_runtime::clock::Clock;
use postrider_store::fjall::FjallStore;
use postrider_store::snapshot::SnapshotDir;
use postrider_store::{StoreError, View, writer};
use postrider_workspace::core::hot::HotState;
use postrider_workspace::snapshots;

use super::start::{catch_up, snapshot_error};
use super::{StartError, clock_offset};

/// What the clocks of an engine that does not run would show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredClock {
    /// The machine's clock. Real time begins as this.
    pub wall: Timestamp,
    /// What engine time would begin as, if the engine was started now.
    pub engine: Timestamp,
    /// The latest moment of what is durable.
    pub durable: Option<Timestamp>,
    /// What engine time would be ahead by so that it is behind nothing durable.
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

/// Reads the clock of the data in a directory that no engine uses. Blocks.
///
/// # Errors
/// [`StartError`]: the store is in use, damaged or out of reach.
pub fn stored_clock(dir: &Path) -> Result<StoredClock, StartError> {
    let store = FjallStore::open(&dir.join("store"), Default::default())?;
    let snapshots = SnapshotDir::open(dir.join("snapshots")).map_err(snapshot_error)?;
    let mut replay = snapshots::load(&snapshots).map_err(snapshot_error)?;
    catch_up(&store, &mut replay)?;
    let durable = latest_moment(&store, &replay.into_states().0)?;
    let clock = Clock::system();
    clock.advance(clock_offset::read(&store)?);
    durable.into_iter().for_each(|durable| clock.start_after(durable));
    let ahead = clock.health().lead;
    Ok(StoredClock { wall: clock.wall(), engine: clock.now(), durable, ahead })
}
