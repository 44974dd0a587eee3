//! Idempotency keys: a command under a key returns the same answer again for a day.
//!
//! The answer is written in the same commit as the change that it reports, so a crash keeps both or
//! neither. [`Table::Idempotency`] has two records for each key. `workspace ‖ 0 ‖ k ‖ route ‖ hash`
//! holds the answer, `workspace ‖ 0 ‖ t ‖ moment ‖ route ‖ hash` ends it.

use std::ops::ControlFlow;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use postrider_domain::{Timestamp, WorkspaceId};
use postrider_store::{StoreError, Table};

use crate::core::command::{Command, Context, Footprint};
use crate::core::quota;
use crate::core::view::unreadable;
use crate::handle::Workspace;
use crate::sweep::{Look, RecordKeys, SLICE_MAX, SweepCursor};
use postrider_domain::unavailable::{Unavailable, UnavailableReason};

/// The time for which an answer is kept.
const KEPT: Duration = Duration::from_secs(24 * 3600);

/// The data that makes a command idempotent: the client's key and the request that it was used for.
#[derive(Debug, Clone, Copy)]
pub struct IdempotencyKey {
    route: Route,
    key: [u8; 32],
    fingerprint: [u8; 32],
}

/// The operations that take a key, each with keys of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// Sending a one-time password.
    SendOtp,
    /// Sending a message.
    SendMessage,
    /// Creating a broadcast.
    CreateBroadcast,
    /// Creating a contact.
    CreateContact,
    /// Creating many contacts.
    CreateContacts,
    /// Replying in a conversation.
    Reply,
}

impl IdempotencyKey {
    /// Returns the key `key` for a request with this body.
    #[must_use]
    pub fn new(route: Route, key: &str, body: &[u8]) -> Self {
        Self { route, key: Sha256::digest(key).into(), fingerprint: Sha256::digest(body).into() }
    }

    /// Returns the key for a request about one object: its use for another counts as another body.
    pub(crate) fn about(self, id: &[u8]) -> Self {
        let fingerprint = Sha256::new_with_prefix(self.fingerprint).chain_update(id).finalize();
        Self { fingerprint: fingerprint.into(), ..self }
    }

    /// Returns the key of one of several commands of a request.
    pub(crate) fn part(&self, number: usize) -> Self {
        let mut key = Sha256::new_with_prefix(self.key);
        key.update((number as u64).to_be_bytes());
        Self { key: key.finalize().into(), ..*self }
    }

    /// Returns the key of the record that holds the answer.
    pub(crate) fn record_key(&self, workspace: &WorkspaceId) -> Vec<u8> {
        record_key(workspace, b'k', &self.name())
    }

    fn name(&self) -> Vec<u8> {
        let mut name = vec![self.route as u8];
        name.extend_from_slice(&self.key);
        name
    }
}

/// An answer, and whether it is that of an earlier command under the same key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replayable<T> {
    /// The answer.
    pub answer: T,
    /// Set if nothing was done now.
    pub replayed: bool,
}

/// The reason why a command under a key was not carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdempotentError<E> {
    /// The key was used with another body.
    #[error("this Idempotency-Key was used with another body")]
    Mismatch,
    /// A command under the same key is still running.
    #[error("a request with this Idempotency-Key is still under way")]
    UnderWay,
    /// The command was refused; the key may be used again.
    #[error(transparent)]
    Refused(E),
}

impl<E: From<Unavailable>> From<Unavailable> for IdempotentError<E> {
    fn from(why: Unavailable) -> Self {
        Self::Refused(why.into())
    }
}

/// The record under a key.
#[derive(Serialize, Deserialize)]
struct AnswerRecord {
    fingerprint: [u8; 32],
    at: Timestamp,
    /// The answer in postcard's format.
    answer: Vec<u8>,
}

impl AnswerRecord {
    /// Returns whether the answer still applies to a request with the key.
    fn holds<E>(&self, key: &IdempotencyKey, now: Timestamp) -> Result<bool, IdempotentError<E>> {
        match self.at.plus(KEPT) > now {
            false => Ok(false),
            true if self.fingerprint == key.fingerprint => Ok(true),
            true => Err(IdempotentError::Mismatch),
        }
    }
}

impl Workspace {
    /// Returns the committed answer under the key.
    ///
    /// It serves a command that needs much work before it can be sent; the command itself checks
    /// again.
    pub(crate) fn answered_before<T: DeserializeOwned, E: From<Unavailable>>(
        &self,
        key: &IdempotencyKey,
    ) -> Result<Option<T>, IdempotentError<E>> {
        let of_key = key.record_key(self.id());
        let stored = self.shared.store.get(Table::Idempotency, &of_key).map_err(unreadable)?;
        let Some(stored) = stored else { return Ok(None) };
        let record: AnswerRecord = decoded(&stored)?;
        match record.holds(key, self.shared.clock.now())? {
            true => Ok(Some(decoded(&record.answer)?)),
            false => Ok(None),
        }
    }
}

/// A command under a key.
pub struct Idempotent<C> {
    /// The key, if the caller gave one.
    pub key: Option<IdempotencyKey>,
    /// The command that it protects.
    pub command: C,
}

impl<C> Command for Idempotent<C>
where
    C: Command,
    C::Answer: Serialize + DeserializeOwned,
{
    type Answer = Replayable<C::Answer>;
    type Error = IdempotentError<C::Error>;

    const FOOTPRINT: Footprint = C::FOOTPRINT;
    const SENDS: bool = C::SENDS;
    const SHARES_SUBMIT: bool = C::SHARES_SUBMIT;
    // An earlier result is returned again, whatever has changed since.
    const IS_HELD_TO_QUOTA: bool = false;

    fn carry_out(self, context: &mut Context<'_>) -> Result<Self::Answer, Self::Error> {
        let Some(key) = self.key else {
            let answer = within_quota(self.command, context)?;
            return Ok(Replayable { answer, replayed: false });
        };
        let name = key.name();
        let of_key = key.record_key(&context.core.id);
        if let Some(answer) = known(context, &key, &of_key)? {
            return Ok(Replayable { answer, replayed: true });
        }
        let answer = within_quota(self.command, context)?;
        let at = context.now();
        let record = AnswerRecord { fingerprint: key.fingerprint, at, answer: encoded(&answer) };
        context.put(Table::Idempotency, of_key, encoded(&record));
        let by_time = [&at.as_millis().to_be_bytes(), name.as_slice()].concat();
        let by_time = record_key(&context.core.id, b't', &by_time);
        context.put(Table::Idempotency, by_time, Vec::new());
        Ok(Replayable { answer, replayed: false })
    }
}

/// Carries out the command, if the quota of its workspace allows that where it applies.
fn within_quota<C: Command>(
    command: C,
    context: &mut Context<'_>,
) -> Result<C::Answer, IdempotentError<C::Error>> {
    if C::IS_HELD_TO_QUOTA {
        quota::check_bytes(context)?;
    }
    command.carry_out(context).map_err(IdempotentError::Refused)
}

/// Returns the answer that is kept under the key, if there is one.
fn known<T: DeserializeOwned, E: From<Unavailable>>(
    context: &Context<'_>,
    key: &IdempotencyKey,
    record_key: &[u8],
) -> Result<Option<T>, IdempotentError<E>> {
    let Some(record) = context.get(Table::Idempotency, record_key)? else { return Ok(None) };
    let record: AnswerRecord = decoded(&record)?;
    if !record.holds(key, context.now())? {
        return Ok(None);
    }
    let is_waited_for = context.waiters.wait_for(record_key);
    if is_waited_for || context.is_pending(Table::Idempotency, record_key) {
        return Err(IdempotentError::UnderWay);
    }
    Ok(Some(decoded(&record.answer)?))
}

/// Replaces the answer in an existing record with the final one.
pub(crate) fn replace<T: Serialize>(
    context: &mut Context<'_>,
    record_key: &[u8],
    answer: &T,
) -> Result<(), Unavailable> {
    let Some(record) = context.get(Table::Idempotency, record_key)? else { return Ok(()) };
    let record = AnswerRecord { answer: encoded(answer), ..decoded(&record)? };
    context.put(Table::Idempotency, record_key.to_vec(), encoded(&record));
    Ok(())
}

/// Returns the record with the moment `to`, if its own is later, as by a clock that was ahead.
pub(crate) fn rebased(record: &[u8], to: Timestamp) -> Option<Vec<u8>> {
    let record: AnswerRecord = postcard::from_bytes(record).ok()?;
    (record.at > to).then(|| encoded(&AnswerRecord { at: to, ..record }))
}

fn encoded<T: Serialize>(value: &T) -> Vec<u8> {
    let mut bytes = Vec::new();
    postrider_domain::event::encode(value, &mut bytes);
    bytes
}

fn decoded<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Unavailable> {
    postcard::from_bytes(bytes).map_err(|_| {
        tracing::error!("the answer under an idempotency key cannot be read");
        Unavailable::because(UnavailableReason::Storage)
    })
}

fn record_key(workspace: &WorkspaceId, kind: u8, name: &[u8]) -> Vec<u8> {
    [workspace.as_str().as_bytes(), &[0, kind], name].concat()
}

/// Finds the answers that have ended, with the records that end them.
pub(crate) fn expired_keys(
    look: &Look<'_>,
    cursor: &mut SweepCursor,
) -> Result<RecordKeys, StoreError> {
    let prefix = ends_prefix(look.workspace);
    // A later answer ends later.
    let (mut ended, mut next) = (Vec::new(), look.now.plus(KEPT));
    look.scan(Table::Idempotency, &prefix, &cursor.from, &mut |key, _| {
        let Some((at, name)) = key[prefix.len()..].split_first_chunk() else {
            return ControlFlow::Continue(());
        };
        let ends = Timestamp::from_millis(u64::from_be_bytes(*at)).plus(KEPT);
        if ends > look.now || ended.len() == SLICE_MAX {
            next = ends;
            return ControlFlow::Break(());
        }
        ended.push((key.to_vec(), record_key(look.workspace, b'k', name), ends));
        ControlFlow::Continue(())
    })?;
    let mut keys = Vec::new();
    for (by_time, of_key, ends) in ended {
        // The key may have been used again since.
        let record = look.store.get(Table::Idempotency, &of_key)?;
        let record = record.and_then(|bytes| postcard::from_bytes::<AnswerRecord>(&bytes).ok());
        if record.is_some_and(|record| record.at.plus(KEPT) <= ends) {
            keys.push((Table::Idempotency, of_key));
        }
        cursor.pass(&by_time);
        keys.push((Table::Idempotency, by_time));
    }
    cursor.rest_until(next);
    Ok(keys)
}

/// Returns the prefix of the keys of the records that end answers.
pub(crate) fn ends_prefix(workspace: &WorkspaceId) -> Vec<u8> {
    record_key(workspace, b't', &[])
}

#[cfg(test)]
mod golden;
