//! What actors keep in memory, as of a position, worked out from what is durable.

use hashbrown::HashMap;

use postrider_domain::WorkspaceId;
use postrider_store::{Frame, LoadedSnapshot, Position, StoreError};
use postrider_workspace::snapshots::{self, Rebases};

/// What a snapshot has of a workspace whose events cannot be read begins with this, which begins no
/// hot state. What there was of it before and the events follow.
const UNREADABLE: u8 = 0xff;

/// The encoded states of all workspaces.
pub(crate) type States = Vec<(WorkspaceId, Vec<u8>)>;

/// Visits the frames after the snapshot, and returns the position that they reach.
pub(crate) type Frames<'a, E> = &'a dyn Fn(&mut dyn FnMut(&Frame)) -> Result<Position, E>;

/// Folds a snapshot and the frames after it. The frames are read twice if a workspace cannot be
/// read: what there is of it is then kept as it is.
pub(crate) fn fold<E: From<StoreError>>(
    base: &LoadedSnapshot,
    rebases: Rebases,
    frames: Frames<'_, E>,
) -> Result<(Position, States), E> {
    let mut replay = snapshots::replay_of(base, rebases);
    let end = frames(&mut |frame| replay.apply(frame))?;
    replay.reach(end);
    let (states, damaged) = replay.into_states();
    let mut unreadable: HashMap<WorkspaceId, Vec<u8>> = HashMap::new();
    for id in damaged {
        tracing::error!(workspace = %id, "its events cannot be read; they are kept as they are");
        let before = base.entries.iter().find(|(of, _)| *of == id);
        let before = before.map(|(_, bytes)| bytes.as_slice()).unwrap_or_default();
        let before = before.strip_prefix(&[UNREADABLE]).unwrap_or(before);
        unreadable.insert(id, [&[UNREADABLE], before].concat());
    }
    if !unreadable.is_empty() {
        frames(&mut |frame| {
            for section in &frame.sections {
                if let Some(kept) = unreadable.get_mut(&section.workspace) {
                    kept.extend_from_slice(&section.events);
                }
            }
        })?;
    }
    let encoded = states.into_iter().map(|(id, state)| {
        let mut entry = Vec::new();
        state.encode_into(&mut entry);
        (id, entry)
    });
    let mut all: States = encoded.chain(unreadable).collect();
    all.sort_unstable_by(|(one, _), (other, _)| one.as_str().cmp(other.as_str()));
    Ok((end, all))
}
