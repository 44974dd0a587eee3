//! The single chain of slices that deletes a workspace's records with a limited retention.
//!
//! The actor asks for a turn, has a slice read on a thread that may block, and submits its
//! deletions. It continues when they are durable. A change by a command meanwhile wins: a slice
//! that would delete such a record is read again.

use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use ractor::ActorRef;
use tokio::sync::OwnedSemaphorePermit;

use postrider_domain::{Timestamp, WorkspaceId};
use postrider_store::{GroupNumber, StoreError, Table};

use crate::actor::WorkspaceActor;
use crate::actor::state::{StateLost, WorkspaceState};
use crate::core::view::{Pending, RecordChanges};
use crate::inbox::{deletion, inbound_messages, old_messages};
use crate::mailbox::message::WorkspaceMessage;
use crate::sweep::{
    KINDS, Look, RecordKeys, RetentionTimes, SweepCursor, SweepCursors, SweepSlice, SweepStep,
};
use crate::{analytics, broadcasts, conversations, idempotency, messages, otp};

/// The pause of a kind whose records cannot be read.
const REST: Duration = Duration::from_secs(60);
/// The maximum number of looks in one turn that find nothing to delete.
const LOOKS_MAX: usize = 20;

/// Reads the keys of some records that have ended, and moves the cursor behind them.
type ReadSlice = fn(&Look<'_>, &mut SweepCursor) -> Result<RecordKeys, StoreError>;
/// Returns the prefix of the keys of a workspace's records.
type PrefixOf = fn(&WorkspaceId) -> Vec<u8>;

/// One kind of records that end by age.
struct SweptKind {
    name: &'static str,
    read: ReadSlice,
    /// The records that may be written behind the cursor.
    late: Option<(Table, PrefixOf)>,
    /// Set if its records end by their age, not by a deletion.
    by_age: bool,
}

impl SweptKind {
    const fn new(name: &'static str, read: ReadSlice) -> Self {
        Self { name, read, late: None, by_age: true }
    }

    const fn late(self, table: Table, prefix: PrefixOf) -> Self {
        Self { late: Some((table, prefix)), ..self }
    }

    const fn on_demand(self) -> Self {
        Self { by_age: false, ..self }
    }
}

/// All kinds, each at the index of its cursor.
static ALL: [SweptKind; KINDS] = [
    SweptKind::new("idempotency keys", idempotency::expired_keys)
        .late(Table::Idempotency, idempotency::ends_prefix),
    SweptKind::new("ids of inbound messages", inbound_messages::long_ago)
        .late(Table::Received, inbound_messages::received),
    SweptKind::new("deleted conversations", deletion::of_deleted)
        .late(Table::Conversations, deletion::marks)
        .on_demand(),
    SweptKind::new("texts to deleted contacts", messages::texts::of_deleted)
        .late(Table::Aliases, messages::texts::marks)
        .on_demand(),
    SweptKind::new("broadcasts", broadcasts::long_over),
    SweptKind::new("recipients of cancelled broadcasts", broadcasts::dropped)
        .late(Table::Broadcasts, broadcasts::marks)
        .on_demand(),
    SweptKind::new("days of campaigns", analytics::long_past::<{ analytics::CAMPAIGNS }>),
    SweptKind::new("days of advertisements", analytics::long_past::<{ analytics::ADS }>),
    SweptKind::new("who came by advertisements", analytics::long_past::<{ analytics::COUNTED }>),
    SweptKind::new("messages", messages::expired_messages),
    SweptKind::new("one-time passwords", otp::expired_otps),
    SweptKind::new("days of one-time passwords", otp::expired_days),
    SweptKind::new("what was written in conversations", old_messages::too_old),
    SweptKind::new("who was counted towards budgets", messages::expired_recipients),
    SweptKind::new("days of conversations", analytics::long_past::<{ conversations::DAYS }>),
];

/// A workspace's sweep: its cursors and the step of its chain.
#[derive(Debug)]
pub(crate) struct Sweeping {
    cursors: SweepCursors,
    chain: SliceChain,
}

/// The step of the chain. There is one chain for each workspace.
#[derive(Debug, Default)]
enum SliceChain {
    #[default]
    Idle,
    /// It waits for its turn.
    Waiting,
    /// A slice is being read, which may not see these changes: set if the change writes its record.
    Reading(HashMap<(Table, Vec<u8>), bool>),
    /// It waits for this group, which has the slice's deletions, to be durable.
    Settling { group: GroupNumber, _turn: SweepTurn },
}

type SweepTurn = OwnedSemaphorePermit;

impl Sweeping {
    pub(crate) const fn new(cursors: SweepCursors) -> Self {
        Self { cursors, chain: SliceChain::Idle }
    }

    pub(crate) const fn is_idle(&self) -> bool {
        matches!(self.chain, SliceChain::Idle)
    }

    pub(crate) const fn cursors(&self) -> &SweepCursors {
        &self.cursors
    }

    /// Ends the chain: nothing can be made durable now. A later tick starts another one.
    pub(crate) fn stop(&mut self) {
        self.chain = SliceChain::Idle;
    }

    /// Records the changes of a command.
    pub(crate) fn changed(&mut self, workspace: &WorkspaceId, changes: &RecordChanges) {
        for (table, key, value) in changes.iter() {
            match &mut self.chain {
                SliceChain::Reading(unseen) => {
                    unseen.insert((table, key.to_vec()), value.is_some());
                }
                _ if value.is_some() => self.written(workspace, table, key),
                _ => {}
            }
        }
    }

    /// Records that `group` is durable. Returns whether the chain waited for it.
    pub(crate) fn committed(&mut self, group: GroupNumber) -> bool {
        let waited = matches!(&self.chain, SliceChain::Settling { group: of, .. } if *of <= group);
        if waited {
            self.stop();
        }
        waited
    }

    /// Moves the cursors back to a record that they would not reach.
    fn written(&mut self, workspace: &WorkspaceId, table: Table, key: &[u8]) {
        for (kind, cursor) in ALL.iter().zip(&mut self.cursors.of) {
            let late = kind.late.filter(|(of, _)| *of == table);
            if late.is_some_and(|(_, prefix)| key.starts_with(&prefix(workspace))) {
                cursor.written(key);
            }
        }
    }

    /// Starts to read a slice, which may not see the `pending` changes.
    fn begin(&mut self, pending: &Pending) -> SweepCursors {
        let unseen = pending.keys().map(|(table, key, writes)| ((table, key.to_vec()), writes));
        self.chain = SliceChain::Reading(unseen.collect());
        self.cursors.clone()
    }

    /// Ends the reading of a slice and returns the records to delete.
    ///
    /// `None` if the slice must be read again, because one of its records has changed meanwhile.
    fn take(
        &mut self,
        workspace: &WorkspaceId,
        slice: Option<SweepSlice>,
        now: Timestamp,
    ) -> Option<RecordKeys> {
        let SliceChain::Reading(unseen) = std::mem::take(&mut self.chain) else { return None };
        let keys = match slice {
            Some(slice) if !slice.keys.iter().any(|key| unseen.contains_key(key)) => {
                self.cursors = slice.cursors;
                Some(slice.keys)
            }
            Some(_) => None,
            None => {
                // The slice panicked, and might panic again.
                self.cursors.of.iter_mut().for_each(|cursor| cursor.postpone(now.plus(REST)));
                Some(Vec::new())
            }
        };
        for ((table, key), _) in unseen.iter().filter(|(_, writes)| **writes) {
            self.written(workspace, *table, key);
        }
        keys
    }
}

impl WorkspaceActor {
    /// Starts a chain of slices if records may have ended, unless a chain is running.
    pub(crate) fn sweep(&self, myself: &ActorRef<WorkspaceMessage>, state: &mut WorkspaceState) {
        if !state.sweeping.is_idle() || !state.sweeping.cursors.is_due(state.core.now()) {
            return;
        }
        state.sweeping.chain = SliceChain::Waiting;
        let (myself, turns) = (myself.clone(), self.shared.sweep_turns.clone());
        drop(tokio::spawn(async move {
            if let Some(turn) = turns.take().await {
                // An actor that has stopped sweeps nothing.
                drop(myself.cast(WorkspaceMessage::Sweep(SweepStep::Turn(turn))));
            }
        }));
    }

    /// Moves the chain one step further.
    pub(crate) fn sweep_on(
        &self,
        myself: &ActorRef<WorkspaceMessage>,
        step: SweepStep,
        state: &mut WorkspaceState,
    ) -> Result<(), StateLost> {
        match step {
            SweepStep::Turn(turn) => {
                self.read_slice(myself, turn, state);
                Ok(())
            }
            SweepStep::Read(slice, turn) => {
                state.delete(slice.map(|slice| *slice), turn)?;
                match state.sweeping.is_idle() {
                    true => self.beat(myself, state),
                    false => Ok(()),
                }
            }
        }
    }

    /// Has a slice read on a thread that may block.
    fn read_slice(
        &self,
        myself: &ActorRef<WorkspaceMessage>,
        turn: SweepTurn,
        state: &mut WorkspaceState,
    ) {
        let mut cursors = state.sweeping.begin(&state.pending);
        let (shared, slot) = (Arc::clone(&self.shared), Arc::clone(&self.slot));
        let (myself, now) = (myself.clone(), state.core.now());
        drop(tokio::spawn(async move {
            let read = move || {
                let broadcasts = shared.broadcasts.options.kept_for;
                let kept = RetentionTimes {
                    broadcasts,
                    messages: shared.messages,
                    otps: shared.otp.kept_for,
                };
                let store = shared.store.as_ref();
                let age_rests = shared.clock.deletion_rests();
                let look = Look { store, workspace: &slot.id, now, kept, age_rests };
                let keys = next_slice(&look, &mut cursors);
                Box::new(SweepSlice { keys, cursors })
            };
            let slice = tokio::task::spawn_blocking(read).await.ok();
            drop(myself.cast(WorkspaceMessage::Sweep(SweepStep::Read(slice, turn))));
        }));
    }
}

impl WorkspaceState {
    /// Submits a slice's deletions.
    ///
    /// The chain continues when they and the changes that the slice could not see are durable.
    fn delete(&mut self, slice: Option<SweepSlice>, turn: SweepTurn) -> Result<(), StateLost> {
        let now = self.core.now();
        let keys = self.sweeping.take(&self.core.id, slice, now);
        let is_done =
            keys.as_ref().is_some_and(Vec::is_empty) && !self.sweeping.cursors.is_due(now);
        for (table, key) in keys.into_iter().flatten() {
            self.effects.changes.set(table, key, None);
        }
        // It does not hold up the commits of others.
        self.effects.deferrable = true;
        self.finish(None)?;
        if let Some(group) = self.gate.last().filter(|_| !is_done) {
            self.sweeping.chain = SliceChain::Settling { group, _turn: turn };
            if !self.barriers.is_empty() {
                self.subscriber.hurry();
            }
        }
        Ok(())
    }
}

/// Reads a slice of the next kind that has something to delete.
fn next_slice(look: &Look<'_>, cursors: &mut SweepCursors) -> RecordKeys {
    let mut looks = 0;
    for _ in 0..KINDS {
        let (kind, cursor) = (&ALL[cursors.turn], &mut cursors.of[cursors.turn]);
        cursors.turn = (cursors.turn + 1) % KINDS;
        if look.age_rests && kind.by_age && cursor.is_due(look.now) {
            cursor.postpone(look.now.plus(REST));
        }
        while cursor.is_due(look.now) && looks < LOOKS_MAX {
            looks += 1;
            let before = cursor.clone();
            match (kind.read)(look, cursor) {
                Ok(keys) if keys.is_empty() => {}
                Ok(keys) => return keys,
                Err(error) => {
                    let workspace = look.workspace;
                    tracing::error!(%workspace, kind = kind.name, %error, "a sweep cannot read");
                    *cursor = before;
                    cursor.postpone(look.now.plus(REST));
                }
            }
        }
    }
    Vec::new()
}
