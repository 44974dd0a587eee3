//! Taking snapshots: the journal, folded into the newest snapshot, becomes the next one.
//!
//! A snapshot is worked out from what is durable, by the code that a restart runs. No actor is
//! asked for its state, so none stalls, and a defect in an actor's memory cannot get into a
//! snapshot.

use std::ops::ControlFlow;

use hashbrown::HashMap;

use std::sync::Arc;

use crate::core::hot::{HotState, StateDecodeError};
use postrider_domain::{Event, WorkspaceId};
use postrider_store::snapshot::{LoadedSnapshot, SnapshotDir, SnapshotError};
use postrider_store::{Frame, Log, Position, Rebase};

/// Hot states as of a position of the journal.
#[derive(Debug, Default)]
pub struct Replay {
    /// The last position that is in.
    pub position: Position,
    states: HashMap<WorkspaceId, HotState>,
    /// Workspaces whose events or snapshot cannot be read.
    damaged: HashMap<WorkspaceId, String>,
    rebases: Rebases,
}

/// The rebases of the clock, which a replay comes past.
#[derive(Debug, Clone, Default)]
pub struct Rebases(Arc<[Rebase]>);

impl From<Vec<Rebase>> for Rebases {
    fn from(all: Vec<Rebase>) -> Self {
        Self(all.into())
    }
}

impl Rebases {
    /// Rebases a state that a replay brings from behind `after` to `to`, as often as the clock was
    /// rebased there.
    pub(crate) fn apply(&self, after: Position, to: Position, state: &mut HotState) {
        self.between(after, to).for_each(|rebase| state.rebase(rebase.to));
    }

    /// What a replay comes past on its way from behind `after` to `to`. A rebase may stand where no
    /// frame does.
    fn between(&self, after: Position, to: Position) -> impl Iterator<Item = &Rebase> {
        self.0.iter().filter(move |rebase| after < rebase.position && rebase.position <= to)
    }
}

impl Replay {
    /// A replay of the whole journal.
    pub fn from_start(rebases: Rebases) -> Self {
        Self { rebases, ..Self::default() }
    }

    /// Applies the next frame.
    pub fn apply(&mut self, frame: &Frame) {
        self.reach(frame.number.previous());
        for section in &frame.sections {
            let id = &section.workspace;
            if is_end(&section.events) {
                self.states.remove(id);
                self.damaged.remove(id);
                continue;
            }
            if self.damaged.contains_key(id) {
                continue;
            }
            if !self.states.contains_key(id) {
                self.states.insert(id.clone(), HotState::default());
            }
            let Some(state) = self.states.get_mut(id) else { continue };
            if let Err(error) = state.replay(&section.events) {
                self.damaged.insert(id.clone(), format!("frame {}: {error}", frame.number.0));
            }
        }
        self.reach(frame.number);
    }

    /// Notes that everything up to here was read.
    pub fn reach(&mut self, to: Position) {
        for rebase in self.rebases.between(self.position, to) {
            self.states.values_mut().for_each(|state| state.rebase(rebase.to));
        }
        self.position = to;
    }

    /// The states that hold something, and the workspaces that cannot be read.
    pub fn into_states(mut self) -> (HashMap<WorkspaceId, HotState>, Vec<WorkspaceId>) {
        self.states.retain(|id, state| !state.is_empty() && !self.damaged.contains_key(id));
        (self.states, self.damaged.into_keys().collect())
    }

    /// Forgets what every workspace would have forgotten by the latest moment in the journal.
    fn settle(&mut self) {
        let latest = self.states.values().map(HotState::now).max().unwrap_or_default();
        self.states.values_mut().for_each(|state| state.forget_until(latest));
        self.states.retain(|_, state| !state.is_empty());
    }
}

/// Whether a section of the journal says that its workspace was deleted. It has a commit, and so a
/// section, of its own.
pub(crate) fn is_end(events: &[u8]) -> bool {
    let mut end = Vec::new();
    Event::WorkspaceDeleted.encode_into(&mut end);
    events == end
}

/// The newest good snapshot.
pub fn load(dir: &SnapshotDir, rebases: Rebases) -> Result<Replay, SnapshotError> {
    Ok(replay_of(&dir.load()?, rebases))
}

/// A replay that stands at a snapshot.
pub fn replay_of(loaded: &LoadedSnapshot, rebases: Rebases) -> Replay {
    // A snapshot may have been taken right before the clock was rebased.
    let before = loaded.position.previous();
    let mut replay = Replay { position: before, ..Replay::from_start(rebases) };
    for (id, bytes) in &loaded.entries {
        match HotState::decode(bytes) {
            Ok(state) => drop(replay.states.insert(id.clone(), state)),
            Err(error) => drop(replay.damaged.insert(id.clone(), format!("its snapshot: {error}"))),
        }
    }
    replay.reach(loaded.position);
    replay
}

/// Why a workspace's part of a snapshot cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum BaseError {
    /// The snapshots cannot be read now.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// Its part cannot be read, now or ever.
    #[error("its snapshot: {0}")]
    Damaged(#[from] StateDecodeError),
}

/// One workspace in the newest good snapshot.
pub fn base_of(dir: &SnapshotDir, id: &WorkspaceId) -> Result<(Position, HotState), BaseError> {
    let loaded = dir.load()?;
    let own = loaded.entries.iter().find(|(of, _)| of == id);
    let state = own.map(|(_, bytes)| HotState::decode(bytes)).transpose()?;
    Ok((loaded.position, state.unwrap_or_default()))
}

/// A snapshot: where it stands, and how large it is.
#[derive(Debug, Clone, Copy, Default)]
pub struct Taken {
    /// The last frame that is in it.
    pub position: Position,
    /// Its size in bytes.
    pub bytes: u64,
}

/// Takes a snapshot and lets go of the journal that two snapshots cover.
pub(crate) fn take(
    dir: &SnapshotDir,
    log: &dyn Log,
    rebases: Rebases,
) -> Result<Taken, Box<dyn std::error::Error + Send + Sync>> {
    let mut replay = load(dir, rebases)?;
    let end = postrider_store::log::replay(log, replay.position, &mut |frame| {
        replay.apply(&frame);
        ControlFlow::Continue(())
    })?;
    // Commits without a frame are read too: they need not be read again.
    replay.reach(end);
    if let Some((id, damage)) = replay.damaged.iter().next() {
        // Its journal is all there is of it: it must not be trimmed.
        return Err(format!("workspace {id} cannot be read: {damage}").into());
    }
    replay.settle();
    let position = replay.position;
    let mut bytes = 0;
    let entries = replay.states.into_iter().map(|(id, state)| {
        let mut entry = Vec::new();
        state.encode_into(&mut entry);
        bytes += entry.len() as u64;
        (id, entry)
    });
    let trim_through = dir.write(position, entries)?;
    log.trim(trim_through)?;
    tracing::info!(position = position.0, bytes, "a snapshot was taken");
    Ok(Taken { position, bytes })
}
