//! The data directory of the engine.

use std::ops::ControlFlow;
use std::path::Path;

use postrider_domain::Timestamp;
use postrider_runtime::random;
use postrider_store::directory::{self, DirectoryError, DirectoryOptions};
use postrider_store::repair::{self, Plan, RepairError, Repaired};
use postrider_store::snapshot::SnapshotDir;
use postrider_store::{LogStore, Rebuilding, Store, Writes, log, rebase};
use postrider_workspace::snapshots::{self, Rebases};

/// Opens the directory.
pub(super) fn open(
    dir: &Path,
    segment_bytes: u64,
    begun_at: Timestamp,
    rebuilding: &Rebuilding,
) -> Result<(LogStore, SnapshotDir), DirectoryError> {
    directory::open_reporting(dir, &options(segment_bytes, begun_at), rebuilding)
}

/// Builds the view anew if a record of it cannot be read. Returns whether it did.
pub(super) fn rebuild_if_unreadable(
    dir: &Path,
    segment_bytes: u64,
    begun_at: Timestamp,
    rebuilding: &Rebuilding,
) -> Result<bool, DirectoryError> {
    directory::rebuild_if_unreadable(dir, &options(segment_bytes, begun_at), rebuilding)
}

fn options(segment_bytes: u64, begun_at: Timestamp) -> DirectoryOptions {
    let program = env!("CARGO_PKG_VERSION").to_owned();
    let writes = Writes { node: "local".into(), incarnation: random::bytes(), program, begun_at };
    let log_id = random::bytes();
    DirectoryOptions { writes, log_id, segment_bytes, view: Default::default() }
}

/// Carries out a repair of a directory that no engine uses: the state that is kept becomes a
/// snapshot and a view, and a new log begins behind it. Blocks.
///
/// # Errors
/// [`RepairError`]: what is whole cannot be read, or nothing can be written.
pub fn repair_directory(dir: &Path, plan: &Plan) -> Result<Repaired, RepairError> {
    repair::carry_out(dir, plan, random::bytes(), &fold)
}

/// Writes the snapshot that takes the place of a journal.
fn fold(dir: &SnapshotDir, journal: &dyn Store) -> Result<(), DirectoryError> {
    let base = dir.load()?;
    let rebases = Rebases::from(rebase::all(journal)?);
    let folded = snapshots::fold(&base, rebases, &|visit| {
        log::replay(journal, base.position, &mut |frame| {
            visit(&frame);
            ControlFlow::Continue(())
        })
    })?;
    let position = folded.position;
    dir.write(position, folded.encode().into_iter())?;
    Ok(())
}
