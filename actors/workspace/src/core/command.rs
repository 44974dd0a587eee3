//! Pure: the trait of commands beside the hot path, their context, and the draft of their audit
//! record.
//!
//! Each command is a type that says what it does. It travels to the actor in a box and is answered
//! through the output gate like every other one.

use std::sync::Arc;
use std::time::Duration;

use postrider_domain::unavailable::Unavailable;
use postrider_domain::{AuditContext, AuditEntry, AuditId, NumberId, PartyId, Timestamp};
use postrider_number::NumberSlot;
use postrider_number::record::NumberInfo;
use postrider_store::audit_chain::record_change;
use postrider_store::view::codec;
use postrider_store::{Direction, Table, View, Visit};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::core::Core;
use crate::core::effects::Effects;
use crate::core::message_status::Waiters;
use crate::core::portfolio::Portfolios;
use crate::core::senders::pool::LastSender;
use crate::core::view::{ReadAhead, RecordView, unreadable};

/// The effect of a command on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Footprint {
    /// It makes records that are kept.
    Grows,
    /// It settles or changes existing records, such as the check of a code or a callback.
    Settles,
    /// It stops something, records an outcome, or deletes. It is accepted regardless of free space
    /// and of pending writes, because what it ends would write more.
    Ends,
}

/// An operation that a workspace can be asked to carry out.
///
/// It is pure: the moment, the state and the committed records come in with the context. Its
/// effects go into the context's effects, and all random values were drawn before. Its answer is
/// returned once its effects, and everything that it has read, are durable. Effects of a refusal
/// are carried out too.
pub trait Command: Send + 'static {
    /// The answer on success.
    type Answer: Send + 'static;
    /// The reason for a refusal.
    type Error: From<Unavailable> + Send + 'static;

    /// The effect on the disk, by which the command is refused when there is little space.
    const FOOTPRINT: Footprint = Footprint::Settles;

    /// Set if the command sends something, so that it is refused while the engine is held.
    const SENDS: bool = false;

    /// Set if the command is refused in a workspace that has as many bytes as it may.
    const IS_HELD_TO_QUOTA: bool = matches!(Self::FOOTPRINT, Footprint::Grows);

    /// Set if the effects may be submitted together with those of other commands in the same batch.
    /// Such a command must see their changes through [`Context::get`] alone.
    const SHARES_SUBMIT: bool = false;

    /// Carries out the command.
    fn carry_out(self, context: &mut Context<'_>) -> Result<Self::Answer, Self::Error>;
}

/// Finds the number that was last used with a contact, in records that are not the pool's own.
type FindLastSender = fn(&Context<'_>, &PartyId) -> Result<Option<LastSender>, Unavailable>;

/// The state and the records that a command sees and changes.
pub struct Context<'a> {
    /// The state in memory; it has observed the command's moment.
    pub core: &'a mut Core,
    /// The records, with what earlier commands have changed.
    pub(crate) records: RecordView<'a>,
    /// The records that were read for the command before its turn.
    pub(crate) ahead: Option<ReadAhead>,
    /// The effects of the command.
    pub effects: &'a mut Effects,
    /// The connected numbers, oldest first, with what they do.
    pub(crate) numbers: &'a [(NumberId, Arc<NumberSlot>)],
    /// The records of the connected numbers.
    pub(crate) connected: &'a [NumberInfo],
    /// The callers that wait for outcomes of messages that were accepted before.
    pub(crate) waiters: &'a mut Waiters,
    /// The sequence of the entry of the event log that comes next.
    pub(crate) log_next: u64,
    /// Finds the number that was last used with a contact before that was noted.
    pub(crate) last_sender: FindLastSender,
    /// The recipients that count towards the budgets of portfolios.
    pub(crate) portfolios: &'a Portfolios,
}

impl Context<'_> {
    /// The command's moment.
    pub const fn now(&self) -> Timestamp {
        self.core.now()
    }

    /// Returns the line of a number, the id of its windows, which outlives its connection.
    pub(crate) fn line(&self, number: NumberId) -> NumberId {
        let known = self.connected.iter().find(|known| known.id == number);
        known.map_or(number, NumberInfo::line)
    }

    /// Returns the entry of a number, if it is connected.
    pub fn number(&self, number: NumberId) -> Option<&NumberSlot> {
        let found = self.numbers.iter().find(|(id, _)| *id == number);
        found.map(|(_, slot)| &**slot)
    }

    /// Returns how long a number is still down because it keeps failing.
    pub fn down_for(&self, number: NumberId) -> Option<Duration> {
        self.number(number)?.down_for(self.now())
    }

    /// Returns for how long a number has been failing, if it is down now.
    pub(crate) fn down_since(&self, number: NumberId) -> Option<Duration> {
        self.number(number)?.down_since(self.now())
    }

    /// Returns a record's value, with the changes by this and earlier commands.
    ///
    /// # Errors
    /// [`Unavailable`]: the store cannot be read.
    pub fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, Unavailable> {
        match self.effects.changes.get(table, key) {
            Some(value) => Ok(value.map(<[u8]>::to_vec)),
            None => self.records.get(self.ahead.as_ref(), table, key),
        }
    }

    /// Returns a record that is stored as JSON.
    ///
    /// # Errors
    /// [`Unavailable`]: the store or the record cannot be read.
    pub fn get_json<T: DeserializeOwned>(
        &self,
        table: Table,
        key: &[u8],
    ) -> Result<Option<T>, Unavailable> {
        let value = self.get(table, key)?;
        value.map(|json| codec::decode(&json).map_err(unreadable)).transpose()
    }

    /// Returns a record of [`Table::Templates`], whose decoded form is kept in memory.
    ///
    /// # Errors
    /// Those of [`get_json`](Self::get_json).
    pub(crate) fn get_template<T: DeserializeOwned + Send + Sync + 'static>(
        &self,
        key: &[u8],
    ) -> Result<Option<Arc<T>>, Unavailable> {
        let table = Table::Templates;
        if self.is_pending(table, key) {
            return Ok(self.get_json(table, key)?.map(Arc::new));
        }
        let known = self.records.decoded.get(key);
        if known.is_some() {
            return Ok(known);
        }
        let found = self.get_json(table, key)?.map(Arc::new);
        if let Some(found) = &found {
            self.records.decoded.set(key, Arc::clone(found));
        }
        Ok(found)
    }

    /// Visits the committed records whose key starts with `prefix`, from the smallest key up.
    /// Changes on their way are not among them.
    ///
    /// # Errors
    /// [`Unavailable`]: the store cannot be read.
    pub fn scan(&self, table: Table, prefix: &[u8], visit: Visit<'_>) -> Result<(), Unavailable> {
        let store = self.records.store;
        store.scan(table, prefix, None, Direction::Forward, visit).map_err(unreadable)
    }

    /// Returns the number of records that the command has read from the store, one by one.
    pub(crate) fn reads(&self) -> usize {
        self.records.reads.get()
    }

    /// Returns the store, for what is committed.
    pub fn store(&self) -> &dyn View {
        self.records.store
    }

    /// Returns whether a change of the record, by this or an earlier command, is not durable yet.
    pub fn is_pending(&self, table: Table, key: &[u8]) -> bool {
        self.effects.changes.get(table, key).is_some()
            || self.records.pending.get(table, key).is_some()
    }

    /// Returns the value of a record that is written and not durable yet.
    pub(crate) fn pending_value(&self, table: Table, key: &[u8]) -> Option<&[u8]> {
        let changed = self.effects.changes.get(table, key);
        changed.or_else(|| self.records.pending.get(table, key)).flatten()
    }

    /// Returns the key suffixes after `prefix` of records that are written and not durable yet.
    pub(crate) fn pending_keys(&self, table: Table, prefix: &[u8]) -> Vec<Vec<u8>> {
        let submitted = self.records.pending.keys().map(|(of, key, _)| (of, key));
        let changed = self.effects.changes.iter().map(|(of, key, _)| (of, key));
        let of_table = submitted.chain(changed).filter(|(of, _)| *of == table);
        of_table.filter_map(|(_, key)| key.strip_prefix(prefix).map(<[u8]>::to_vec)).collect()
    }

    /// Writes a record.
    pub fn put(&mut self, table: Table, key: Vec<u8>, value: Vec<u8>) {
        self.effects.changes.set(table, key, Some(value));
    }

    /// Writes a record as JSON.
    pub fn put_json<T: Serialize>(&mut self, table: Table, key: Vec<u8>, value: &T) {
        self.put(table, key, codec::encode(value));
    }

    /// Deletes a record, if it exists.
    pub fn delete(&mut self, table: Table, key: Vec<u8>) {
        self.effects.changes.set(table, key, None);
    }
}

/// The draft of the audit record, which is written if the command is carried out.
#[derive(Debug)]
pub struct AuditDraft {
    context: Arc<AuditContext>,
    entry: AuditEntry,
    unique: u128,
}

impl AuditDraft {
    /// The record of `entry` by the caller of `context`. `unique` has 80 random bits.
    #[must_use]
    pub const fn new(context: Arc<AuditContext>, entry: AuditEntry, unique: u128) -> Self {
        Self { context, entry, unique }
    }

    /// Adds the record to the effects of the command.
    pub(crate) fn add_to(mut self, effects: &mut Effects, now: Timestamp) {
        for (name, from) in effects.replaced.drain(..) {
            self.entry.replaces(&name, from);
        }
        let id = AuditId::from_parts(now, self.unique);
        let change = record_change(now, &self.entry.record(id, &self.context));
        effects.changes.set(change.table, change.key, change.value);
    }
}
