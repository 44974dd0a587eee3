//! The data directory of the engine.

use std::ops::ControlFlow;
use std::path::Path;

use hashbrown::HashMap;

use postrider_domain::WorkspaceId;
use postrider_runtime::random;
use postrider_store::directory::{self, DirectoryError, DirectoryOptions};
use postrider_store::repair::{self, Plan, RepairError, Repaired};
use postrider_store::snapshot::SnapshotDir;
use postrider_store::{LogStore, Store, Writes, log, rebase};
use postrider_workspace::snapshots::{self, Rebases};

use super::start::catch_up;

/// What a snapshot has of a workspace whose events cannot be read begins with this, which begins no
/// hot state. The events follow.
const UNREADABLE: u8 = 0xff;

/// Opens the directory, and converts it if an earlier version wrote it.
pub(super) fn open(
    dir: &Path,
    segment_bytes: u64,
) -> Result<(LogStore, SnapshotDir), DirectoryError> {
    let program = env!("CARGO_PKG_VERSION").to_owned();
    let writes = Writes { node: "local".into(), incarnation: random::bytes(), program };
    let log_id = random::bytes();
    let options = DirectoryOptions { writes, log_id, segment_bytes, view: Default::default() };
    directory::open(dir, &options, &fold)
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
    let rebases = Rebases::from(rebase::all(journal)?);
    let mut replay = snapshots::load(dir, rebases)?;
    let from = replay.position;
    catch_up(journal, &mut replay)?;
    let position = replay.position;
    let (states, damaged) = replay.into_states();
    let mut unreadable: HashMap<WorkspaceId, Vec<u8>> = HashMap::new();
    for id in damaged {
        tracing::error!(workspace = %id, "its events cannot be read; they are kept as they are");
        unreadable.insert(id, vec![UNREADABLE]);
    }
    if !unreadable.is_empty() {
        log::replay(journal, from, &mut |frame| {
            for section in &frame.sections {
                if let Some(kept) = unreadable.get_mut(&section.workspace) {
                    kept.extend_from_slice(&section.events);
                }
            }
            ControlFlow::Continue(())
        })?;
    }
    let states = states.into_iter().map(|(id, state)| {
        let mut entry = Vec::new();
        state.encode_into(&mut entry);
        (id, entry)
    });
    dir.write(position, states.chain(unreadable))?;
    Ok(())
}
