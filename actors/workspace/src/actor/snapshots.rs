//! The actor that takes snapshots, on a thread of their own, when the journal has grown enough.

use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef};

use crate::snapshots::{self, KeptAside, Rebases, TakenSnapshot};
use postrider_store::snapshot::SnapshotDir;
use postrider_store::{Log, Position, StoreError};

/// The messages of the snapshots' actor.
#[derive(Debug)]
pub enum SnapshotMessage {
    /// Check whether a snapshot is due, and take it.
    Consider,
    /// The attempt in progress has ended.
    Ended(SnapshotOutcome),
}

/// The outcome of a check for a due snapshot.
#[derive(Debug, Clone, Copy)]
pub enum SnapshotOutcome {
    /// None is due yet.
    NotDue,
    /// One was taken.
    Taken(TakenSnapshot),
    /// One is due and could not be taken.
    Failed,
}

/// The snapshots' actor.
#[derive(Clone)]
pub struct Snapshots {
    /// The directory of the snapshots.
    pub dir: Arc<SnapshotDir>,
    /// The log that they are folded from.
    pub log: Arc<dyn Log>,
    /// The minimum bytes of journal since the last snapshot at which the next one is due.
    pub journal_bytes_min: u64,
    /// The bytes of the whole log above which a snapshot is due after any new entry.
    ///
    /// A full log does not grow any more.
    pub whole_log_bytes_max: Option<u64>,
    /// The position of the newest snapshot at the start.
    pub newest: Position,
    /// The rebases of the clock that the log passes.
    pub rebases: Rebases,
    /// The workspaces that the newest snapshot keeps unchanged.
    pub kept: KeptAside,
}

/// The maximum number of beats that are skipped after failures: about a quarter of an hour.
const PASSED_OVER_MAX: u32 = 1024;

/// The state of the snapshots' actor.
#[derive(Debug, Default)]
pub struct Schedule {
    under_way: bool,
    /// The last snapshot: the journal must outgrow it before the next one.
    last: TakenSnapshot,
    /// The number of beats to skip after the next failure.
    ///
    /// An attempt reads the whole journal, so one that fails, as on a full disk, is not repeated at
    /// every beat.
    patience: u32,
    passed_over: u32,
}

impl Schedule {
    /// Returns whether to check for a due snapshot at this beat.
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

    fn end(&mut self, ending: SnapshotOutcome) {
        self.under_way = false;
        match ending {
            SnapshotOutcome::NotDue => {}
            SnapshotOutcome::Taken(taken) => *self = Self { last: taken, ..Self::default() },
            SnapshotOutcome::Failed => {
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
        let last = TakenSnapshot { position: self.newest, bytes: 0 };
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
                    let mut ended = EndNotice { actor: myself, ending: SnapshotOutcome::Failed };
                    ended.ending = snapshots.take_if_due(last);
                }));
            }
            SnapshotMessage::Ended(ending) => schedule.end(ending),
        }
        Ok(())
    }
}

/// Notifies the actor that an attempt has ended, also after a panic.
struct EndNotice {
    actor: ActorRef<SnapshotMessage>,
    ending: SnapshotOutcome,
}

impl Drop for EndNotice {
    fn drop(&mut self) {
        // The actor has stopped if the engine has.
        drop(self.actor.cast(SnapshotMessage::Ended(self.ending)));
    }
}

impl Snapshots {
    fn is_due(&self, last: TakenSnapshot) -> Result<bool, StoreError> {
        let grown = self.log.bytes_after(last.position)?;
        if grown > self.journal_bytes_min.max(last.bytes) {
            return Ok(true);
        }
        let Some(whole_max) = self.whole_log_bytes_max else { return Ok(false) };
        let whole = self.log.bytes_after(self.log.begins_after()?)?;
        Ok(whole > whole_max && self.log.last_position()? > last.position)
    }

    fn take_if_due(&self, last: TakenSnapshot) -> SnapshotOutcome {
        match self.is_due(last) {
            Ok(false) => return SnapshotOutcome::NotDue,
            Ok(true) => {}
            Err(error) => {
                tracing::warn!(%error, "it is not known whether a snapshot is due");
                return SnapshotOutcome::Failed;
            }
        }
        match snapshots::take(&self.dir, self.log.as_ref(), self.rebases.clone(), &self.kept) {
            Ok(taken) => SnapshotOutcome::Taken(taken),
            Err(error) => {
                tracing::warn!(%error, "a snapshot was not taken; the journal grows");
                SnapshotOutcome::Failed
            }
        }
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
            schedule.end(SnapshotOutcome::Failed);
            waits.push(beats);
        }
        assert_eq!(waits[..5], [0, 1, 2, 4, 8]);
        assert_eq!(waits[13], PASSED_OVER_MAX);
        while !schedule.begin() {}
        let taken = TakenSnapshot { position: Position(7), bytes: 5 };
        schedule.end(SnapshotOutcome::Taken(taken));
        assert_eq!(schedule.last.position, Position(7));
        for _ in 0..3 {
            assert!(schedule.begin(), "it looks at every beat again");
            schedule.end(SnapshotOutcome::NotDue);
        }
    }
}
