//! Taking snapshots: the journal, folded into the newest snapshot, becomes the next one.
//!
//! A snapshot is worked out from what is durable, by the code that a restart runs, on a thread of
//! its own. No actor is asked for its state, so none stalls, and a defect in an actor's memory
//! cannot get into a snapshot.

use std::ops::ControlFlow;
use std::sync::Arc;

use hashbrown::HashMap;
use ractor::{Actor, ActorProcessingErr, ActorRef};

use crate::core::hot::HotState;
use postrider_domain::WorkspaceId;
use postrider_domain::event::EventDecodeError;
use postrider_store::snapshot::{SnapshotDir, SnapshotError};
use postrider_store::{Frame, Log, Position};

/// Hot states as of a position of the journal.
#[derive(Debug, Default)]
pub struct Replay {
    /// The last frame that is in.
    pub position: Position,
    states: HashMap<WorkspaceId, HotState>,
    /// Workspaces whose events or snapshot cannot be read.
    damaged: HashMap<WorkspaceId, String>,
}

impl Replay {
    /// Applies the next frame.
    pub fn apply(&mut self, frame: &Frame) {
        for section in &frame.sections {
            let id = &section.workspace;
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
        self.position = frame.number;
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

/// The newest good snapshot.
pub fn load(dir: &SnapshotDir) -> Result<Replay, SnapshotError> {
    let loaded = dir.load()?;
    let mut replay = Replay { position: loaded.position, ..Replay::default() };
    for (id, bytes) in loaded.entries {
        match HotState::decode(&bytes) {
            Ok(state) => drop(replay.states.insert(id, state)),
            Err(error) => drop(replay.damaged.insert(id, format!("its snapshot: {error}"))),
        }
    }
    Ok(replay)
}

/// Why a workspace's part of a snapshot cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum BaseError {
    /// The snapshots cannot be read now.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// Its part cannot be read, now or ever.
    #[error("its snapshot: {0}")]
    Damaged(#[from] EventDecodeError),
}

/// One workspace in the newest good snapshot.
pub fn base_of(dir: &SnapshotDir, id: &WorkspaceId) -> Result<(Position, HotState), BaseError> {
    let loaded = dir.load()?;
    let own = loaded.entries.iter().find(|(of, _)| of == id);
    let state = own.map(|(_, bytes)| HotState::decode(bytes)).transpose()?;
    Ok((loaded.position, state.unwrap_or_default()))
}

/// What the snapshots' actor is told.
#[derive(Debug)]
pub enum SnapshotMessage {
    /// See whether a snapshot is due, and take it.
    Consider,
    /// What was under way has ended.
    Ended(Ending),
}

/// How considering a snapshot ended.
#[derive(Debug, Clone, Copy)]
pub enum Ending {
    /// None is due yet.
    NotDue,
    /// One was taken.
    Taken(Taken),
    /// One is due and could not be taken.
    Failed,
}

/// A snapshot: where it stands, and how large it is.
#[derive(Debug, Clone, Copy, Default)]
pub struct Taken {
    /// The last frame that is in it.
    pub position: Position,
    /// Its size in bytes.
    pub bytes: u64,
}

/// The snapshots' actor.
#[derive(Clone)]
pub struct Snapshots {
    /// Where snapshots are kept.
    pub dir: Arc<SnapshotDir>,
    /// The log that they are folded from.
    pub log: Arc<dyn Log>,
    /// Bytes of journal since the last snapshot at which the next one is due, at the least.
    pub journal_bytes_min: u64,
    /// Where the newest snapshot stands at the start.
    pub newest: Position,
}

/// Most beats that are passed over after failures: about a quarter of an hour.
const PASSED_OVER_MAX: u32 = 1024;

/// What the snapshots' actor remembers.
#[derive(Debug, Default)]
pub struct Schedule {
    under_way: bool,
    /// The last snapshot: the journal must outgrow it before the next one.
    last: Taken,
    /// Beats to pass over after the next failure. An attempt reads all there is, so one that
    /// fails, as it does while a workspace is damaged, is not repeated at every beat.
    patience: u32,
    passed_over: u32,
}

impl Schedule {
    /// Whether to see to a snapshot at this beat.
    const fn begin(&mut self) -> bool {
        if self.under_way {
            return false;
        }
        if self.passed_over > 0 {
            self.passed_over -= 1;
            return false;
        }
        self.under_way = true;
        true
    }

    fn end(&mut self, ending: Ending) {
        self.under_way = false;
        match ending {
            Ending::NotDue => {}
            Ending::Taken(taken) => *self = Self { last: taken, ..Self::default() },
            Ending::Failed => {
                self.patience = (self.patience * 2).clamp(1, PASSED_OVER_MAX);
                self.passed_over = self.patience;
            }
        }
    }
}

impl Actor for Snapshots {
    type Msg = SnapshotMessage;
    type State = Schedule;
    type Arguments = ();

    async fn pre_start(
        &self,
        _myself: ActorRef<Self::Msg>,
        (): (),
    ) -> Result<Schedule, ActorProcessingErr> {
        let last = Taken { position: self.newest, bytes: 0 };
        Ok(Schedule { last, ..Schedule::default() })
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        message: Self::Msg,
        schedule: &mut Schedule,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            SnapshotMessage::Consider => {
                if !schedule.begin() {
                    return Ok(());
                }
                let (snapshots, last) = (self.clone(), schedule.last);
                drop(tokio::task::spawn_blocking(move || {
                    let mut ended = Ended { actor: myself, ending: Ending::Failed };
                    ended.ending = snapshots.take_if_due(last);
                }));
            }
            SnapshotMessage::Ended(ending) => schedule.end(ending),
        }
        Ok(())
    }
}

/// Tells the actor that a snapshot has ended, also when it ended in a panic.
struct Ended {
    actor: ActorRef<SnapshotMessage>,
    ending: Ending,
}

impl Drop for Ended {
    fn drop(&mut self) {
        // The actor is gone when the engine is.
        drop(self.actor.cast(SnapshotMessage::Ended(self.ending)));
    }
}

impl Snapshots {
    fn take_if_due(&self, last: Taken) -> Ending {
        match self.log.bytes_after(last.position) {
            Ok(bytes) if bytes <= self.journal_bytes_min.max(last.bytes) => return Ending::NotDue,
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(%error, "whether a snapshot is due cannot be told");
                return Ending::Failed;
            }
        }
        match self.take() {
            Ok(taken) => Ending::Taken(taken),
            Err(error) => {
                tracing::warn!(%error, "a snapshot was not taken; the journal grows");
                Ending::Failed
            }
        }
    }

    /// Takes a snapshot and lets go of the journal that two snapshots cover.
    fn take(&self) -> Result<Taken, Box<dyn std::error::Error + Send + Sync>> {
        let mut replay = load(&self.dir)?;
        postrider_store::log::replay(self.log.as_ref(), replay.position, &mut |frame| {
            replay.apply(&frame);
            ControlFlow::Continue(())
        })?;
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
        let trim_through = self.dir.write(position, entries)?;
        self.log.trim(trim_through)?;
        tracing::info!(position = position.0, bytes, "a snapshot was taken");
        Ok(Taken { position, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_repeated_less_and_less_often() {
        let mut schedule = Schedule::default();
        let mut waits = Vec::new();
        for _ in 0..14 {
            let mut beats = 0;
            while !schedule.begin() {
                beats += 1;
            }
            assert!(!schedule.begin(), "one at a time");
            schedule.end(Ending::Failed);
            waits.push(beats);
        }
        assert_eq!(waits[..5], [0, 1, 2, 4, 8]);
        assert_eq!(waits[13], PASSED_OVER_MAX);
        while !schedule.begin() {}
        let taken = Taken { position: Position(7), bytes: 5 };
        schedule.end(Ending::Taken(taken));
        assert_eq!(schedule.last.position, Position(7));
        for _ in 0..3 {
            assert!(schedule.begin(), "it looks at every beat again");
            schedule.end(Ending::NotDue);
        }
    }
}
