//! Folds a snapshot and the frames after it into the states of all workspaces.

use std::collections::BTreeSet;

use hashbrown::HashMap;
use postrider_domain::WorkspaceId;
use postrider_store::{Frame, LoadedSnapshot, Position, StoreError};

use super::{Rebases, is_end, replay_of, unreadable};
use crate::core::hot::HotState;

/// The encoded states of all workspaces.
pub type States = Vec<(WorkspaceId, Vec<u8>)>;

/// Visits the frames after the snapshot, and returns the position that they reach.
pub type Frames<'a, E> = &'a dyn Fn(&mut dyn FnMut(&Frame)) -> Result<Position, E>;

/// The actors' memory at a position.
#[derive(Debug)]
pub struct Folded {
    /// The position.
    pub position: Position,
    states: HashMap<WorkspaceId, HotState>,
    /// The kept data of unreadable workspaces.
    unreadable: HashMap<WorkspaceId, Vec<u8>>,
}

impl Folded {
    /// Removes all that every workspace would have removed by the latest moment in the journal.
    pub(super) fn settle(&mut self) {
        let latest = self.states.values().map(HotState::now).max().unwrap_or_default();
        self.states.values_mut().for_each(|state| state.forget_until(latest));
        self.states.retain(|_, state| !state.is_empty());
    }

    /// Returns the unreadable workspaces.
    pub(super) fn unreadable(&self) -> BTreeSet<WorkspaceId> {
        self.unreadable.keys().cloned().collect()
    }

    /// Returns the states, in the order of the workspaces.
    #[must_use]
    pub fn encode(self) -> States {
        let encoded = self.states.into_iter().map(|(id, state)| {
            let mut entry = Vec::new();
            state.encode_into(&mut entry);
            (id, entry)
        });
        let mut all: States = encoded.chain(self.unreadable).collect();
        all.sort_unstable_by(|(one, _), (other, _)| one.as_str().cmp(other.as_str()));
        all
    }
}

/// Folds a snapshot and the frames after it.
///
/// The frames are read twice if a workspace cannot be read: its data is then kept unchanged.
///
/// # Errors
/// Those of `frames`.
pub fn fold<E: From<StoreError>>(
    base: &LoadedSnapshot,
    rebases: Rebases,
    frames: Frames<'_, E>,
) -> Result<Folded, E> {
    let mut replay = replay_of(base, rebases);
    let position = frames(&mut |frame| replay.apply(frame))?;
    replay.reach(position);
    let (states, damaged) = replay.into_states();
    let mut unreadable: HashMap<WorkspaceId, Vec<u8>> = HashMap::new();
    for id in damaged {
        tracing::error!(workspace = %id, "it cannot be read; what there is of it is kept");
        let before = base.entries.iter().find(|(of, _)| *of == id);
        let before = before.map(|(_, bytes)| bytes.as_slice()).unwrap_or_default();
        let kept = unreadable::begin(before, base.position);
        unreadable.insert(id, kept);
    }
    if !unreadable.is_empty() {
        frames(&mut |frame| {
            // More may have been committed since.
            for section in frame.sections.iter().filter(|_| frame.number <= position) {
                let Some(kept) = unreadable.get_mut(&section.workspace) else { continue };
                if is_end(&section.events) {
                    *kept = unreadable::begin(&[], frame.number);
                } else {
                    unreadable::add(kept, frame.number, &section.events);
                }
            }
        })?;
    }
    Ok(Folded { position, states, unreadable })
}
