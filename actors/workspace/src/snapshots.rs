//! Taking snapshots: the journal, folded into the newest snapshot, becomes the next one.
//!
//! A snapshot is derived from the durable state, by the code that a restart runs. No actor is asked
//! for its state, so none stalls, and a defect in an actor's memory cannot get into a snapshot. The
//! data of a workspace that cannot be read is kept unchanged.

#[cfg(test)]
mod tests;
mod unreadable;

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use postrider_domain::{Event, WorkspaceId};
use postrider_store::snapshot::{LoadedSnapshot, SnapshotDir, SnapshotError};
use postrider_store::{Frame, Log, Position, Rebase, StoreError};

use crate::core::hot_state::HotState;

/// Hot states as of a position of the journal.
#[derive(Debug, Default)]
pub struct Replay {
    /// The last applied position.
    pub position: Position,
    states: HashMap<WorkspaceId, HotState>,
    /// Workspaces whose events or snapshot cannot be read.
    damaged: HashMap<WorkspaceId, String>,
    rebases: Rebases,
    /// The workspaces of this replay; `None` for all.
    only: Option<HashSet<WorkspaceId>>,
}

/// The rebases of the clock that a replay passes.
#[derive(Debug, Clone, Default)]
pub struct Rebases(Arc<[Rebase]>);

impl From<Vec<Rebase>> for Rebases {
    fn from(all: Vec<Rebase>) -> Self {
        Self(all.into())
    }
}

impl Rebases {
    /// Rebases a state on the way of a replay from behind `after` to `to`.
    ///
    /// It does so for each rebase of the clock there.
    pub(crate) fn apply(&self, after: Position, to: Position, state: &mut HotState) {
        self.between(after, to).for_each(|rebase| state.rebase(rebase.to));
    }

    /// Returns the rebases that a replay passes on its way from behind `after` to `to`.
    ///
    /// A rebase may be at a position without a frame.
    fn between(&self, after: Position, to: Position) -> impl Iterator<Item = &Rebase> {
        self.0.iter().filter(move |rebase| after < rebase.position && rebase.position <= to)
    }
}

impl Replay {
    /// Returns a replay of the whole journal.
    pub fn from_start(rebases: Rebases) -> Self {
        Self { rebases, ..Self::default() }
    }

    /// Excludes all workspaces but these.
    pub(crate) fn only(mut self, of: HashSet<WorkspaceId>) -> Self {
        self.only = Some(of);
        self
    }

    fn is_for(&self, id: &WorkspaceId) -> bool {
        self.only.as_ref().is_none_or(|of| of.contains(id))
    }

    /// Applies the entries of a log after its position. Returns the number of frames.
    ///
    /// # Errors
    /// [`StoreError`]: the log cannot be read, or the next entries are missing from it.
    pub fn catch_up(&mut self, log: &dyn Log) -> Result<u64, StoreError> {
        let (from, mut frames) = (self.position, 0);
        let end = postrider_store::log::replay(log, from, &mut |frame| {
            frames += 1;
            self.apply(&frame);
            ControlFlow::Continue(())
        })?;
        // Commits without a frame are counted too: they need not be read again.
        self.reach(end);
        Ok(frames)
    }

    /// Applies the next frame.
    pub fn apply(&mut self, frame: &Frame) {
        self.reach(frame.number.previous());
        for section in &frame.sections {
            let id = &section.workspace;
            if !self.is_for(id) {
                continue;
            }
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
            let replayed = catch_panic(|| state.replay(&section.events).map_err(|e| e.to_string()));
            if let Err(damage) = replayed {
                self.damaged.insert(id.clone(), format!("frame {}: {damage}", frame.number.0));
            }
        }
        self.reach(frame.number);
    }

    /// Records that everything up to this position was read.
    pub fn reach(&mut self, to: Position) {
        for rebase in self.rebases.between(self.position, to) {
            for (id, state) in &mut self.states {
                let rebased = catch_panic(|| {
                    state.rebase(rebase.to);
                    Ok(())
                });
                if let Err(damage) = rebased {
                    self.damaged.insert(id.clone(), damage);
                }
            }
        }
        self.position = to;
    }

    /// Returns the states that are not empty, and the workspaces that cannot be read.
    pub fn into_states(mut self) -> (HashMap<WorkspaceId, HotState>, Vec<WorkspaceId>) {
        self.states.retain(|id, state| !state.is_empty() && !self.damaged.contains_key(id));
        (self.states, self.damaged.into_keys().collect())
    }

    /// Returns the state of a workspace, or the reason why it cannot be read.
    pub(crate) fn take(&mut self, id: &WorkspaceId) -> Result<HotState, String> {
        match self.damaged.get(id) {
            Some(damage) => Err(damage.clone()),
            None => Ok(self.states.remove(id).unwrap_or_default()),
        }
    }
}

/// Reads data of one workspace, and counts a panic as damage.
///
/// A retry would panic again, and the replay is for others too. The panic hook has logged it.
fn catch_panic<T>(read: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    // Each reader of a state first checks whether its workspace is damaged. So none sees a
    // half-changed state.
    let read = catch_unwind(AssertUnwindSafe(read));
    read.unwrap_or_else(|_| Err("it cannot be replayed: a defect, or damaged data".to_owned()))
}

/// Returns whether a section of the journal reports the deletion of its workspace.
///
/// The deletion has a commit, and so a section, of its own.
pub(crate) fn is_end(events: &[u8]) -> bool {
    let mut end = Vec::new();
    Event::WorkspaceDeleted.encode_into(&mut end);
    events == end
}

/// Loads the newest good snapshot.
pub fn load(dir: &SnapshotDir, rebases: Rebases) -> Result<Replay, SnapshotError> {
    Ok(replay_of(&dir.load()?, rebases))
}

/// Returns a replay at the position of a snapshot.
pub fn replay_of(loaded: &LoadedSnapshot, rebases: Rebases) -> Replay {
    start_replay(loaded, Replay::from_start(rebases))
}

/// Does the same, for some workspaces only.
pub(crate) fn replay_of_some(
    loaded: &LoadedSnapshot,
    rebases: Rebases,
    of: HashSet<WorkspaceId>,
) -> Replay {
    start_replay(loaded, Replay::from_start(rebases).only(of))
}

fn start_replay(loaded: &LoadedSnapshot, mut replay: Replay) -> Replay {
    // A snapshot may have been taken right before the clock was rebased.
    replay.position = loaded.position.previous();
    for (id, bytes) in &loaded.entries {
        if !replay.is_for(id) {
            continue;
        }
        match catch_panic(|| unreadable::state_of(bytes, replay.position, &replay.rebases)) {
            Ok(state) => drop(replay.states.insert(id.clone(), state)),
            Err(damage) => drop(replay.damaged.insert(id.clone(), damage)),
        }
    }
    replay.reach(loaded.position);
    replay
}

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
    fn settle(&mut self) {
        let latest = self.states.values().map(HotState::now).max().unwrap_or_default();
        self.states.values_mut().for_each(|state| state.forget_until(latest));
        self.states.retain(|_, state| !state.is_empty());
    }

    /// Returns the unreadable workspaces.
    fn unreadable(&self) -> BTreeSet<WorkspaceId> {
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

/// The unreadable workspaces of the newest snapshot that this process took.
///
/// Clones share one set. An actor may still run for one of them: it would not start again.
#[derive(Debug, Clone, Default)]
pub struct KeptAside(Arc<Mutex<BTreeSet<WorkspaceId>>>);

impl KeptAside {
    fn set(&self, all: BTreeSet<WorkspaceId>) {
        *self.0.lock() = all;
    }

    /// Returns the workspaces.
    #[must_use]
    pub fn all(&self) -> BTreeSet<WorkspaceId> {
        self.0.lock().clone()
    }
}

/// The position and the size of a snapshot.
#[derive(Debug, Clone, Copy, Default)]
pub struct TakenSnapshot {
    /// The last frame that it includes.
    pub position: Position,
    /// Its size in bytes.
    pub bytes: u64,
}

/// Takes a snapshot and trims the journal that two snapshots cover.
pub(crate) fn take(
    dir: &SnapshotDir,
    log: &dyn Log,
    rebases: Rebases,
    kept: &KeptAside,
) -> Result<TakenSnapshot, Box<dyn std::error::Error + Send + Sync>> {
    let base = dir.load()?;
    let mut folded = fold::<StoreError>(&base, rebases, &|visit| {
        postrider_store::log::replay(log, base.position, &mut |frame| {
            visit(&frame);
            ControlFlow::Continue(())
        })
    })?;
    drop(base);
    folded.settle();
    let position = folded.position;
    let unreadable = folded.unreadable();
    let entries = folded.encode();
    let bytes = entries.iter().map(|(_, entry)| entry.len() as u64).sum();
    let trim_through = dir.write(position, entries.into_iter())?;
    kept.set(unreadable);
    log.trim(trim_through)?;
    tracing::info!(position = position.0, bytes, "a snapshot was taken");
    Ok(TakenSnapshot { position, bytes })
}
