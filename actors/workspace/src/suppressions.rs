//! Phones, and people without a phone, that have opted out of messages.
//!
//! [`Table::Suppressions`] has, under `workspace ‖ 0`:
//! - for each that has opted out: the phone itself in its canonical form (`+…`), or `@` and the
//!   channel's id;
//! - `w ‖ party`: the moment of the last decision about it;
//! - `c ‖ party`: the last choice that the channel reported;
//! - `n`: the number of those that have opted out.

mod broadcast_exclusion;
mod channel_choice;
mod record;

use std::ops::ControlFlow;

use postrider_domain::event::contact::{OptedInData, OptedOutData};
use postrider_domain::opt_out::{OptOut, OptOutSource};
use postrider_domain::{ContactId, EventData, PartyId, Timestamp, WorkspaceId};
use postrider_store::{Direction, StoreError, Table, View};

use crate::Workspace;
use crate::contacts::{parties_of, party_holder};
use crate::core::command::{Command, Context};
use crate::core::view::Reader;
use crate::core::view::unreadable;
use postrider_domain::unavailable::Unavailable;

pub(crate) use broadcast_exclusion::{excluded_from_broadcasts, excludes_any};
pub(crate) use channel_choice::{Choice, follow, note_choice, share, stopped_marketing};
pub use record::ContactsCount;
use record::{Record, suppression};

const TABLE: Table = Table::Suppressions;

/// The reason of an opt-out by message.
const BY_MESSAGE: &str = "opted out by message";

/// A phone, or a person without one, that has opted out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suppression {
    /// The phone or person.
    pub party: PartyId,
    /// The reason, if one was given.
    pub reason: Option<String>,
    /// The source of the opt-out.
    pub source: OptOutSource,
    /// The time of the opt-out.
    pub created_at: Timestamp,
}

/// A page of phones that have opted out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SuppressionsPage {
    /// The opt-outs of the page, by phone.
    pub suppressions: Vec<Suppression>,
    /// The number on all pages.
    pub total: usize,
}

/// The reason why an opt-out was not removed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnsuppressError {
    /// The phone has not opted out.
    #[error("the phone has not opted out")]
    NotFound,
    /// The workspace cannot accept the change now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl Workspace {
    /// Stores that a phone has opted out.
    ///
    /// An existing opt-out keeps its moment, and its reason if none is given.
    ///
    /// # Errors
    /// [`Unavailable`] when the workspace cannot accept the change now.
    pub async fn suppress(
        &self,
        party: impl Into<PartyId>,
        reason: Option<String>,
    ) -> Result<Suppression, Unavailable> {
        let party = party.into();
        self.perform(Suppress { party, reason }).await
    }

    /// Removes an opt-out.
    ///
    /// # Errors
    /// [`UnsuppressError`]: there is no opt-out, or the workspace is unavailable.
    pub async fn unsuppress(&self, party: impl Into<PartyId>) -> Result<(), UnsuppressError> {
        let party = party.into();
        self.perform(Unsuppress { party }).await
    }

    /// Returns the opt-outs, phones first: `limit` of them after the first `skip`.
    ///
    /// # Errors
    /// [`Unavailable`] when the store cannot be read.
    pub async fn suppressions(
        &self,
        skip: usize,
        limit: usize,
    ) -> Result<SuppressionsPage, Unavailable> {
        self.scan(move |store, workspace| {
            let total = count(store, workspace, store.get(TABLE, &count_key(workspace))?)?;
            let (mut seen, mut found) = (0, Vec::new());
            for prefix in [phones_prefix(workspace), users_prefix(workspace)] {
                store.scan(TABLE, &prefix, None, Direction::Forward, &mut |key, value| {
                    if seen >= skip.saturating_add(limit) {
                        return ControlFlow::Break(());
                    }
                    if seen >= skip {
                        found.push(suppression(&key[prefix.len() - 1..], value));
                    }
                    seen += 1;
                    ControlFlow::Continue(())
                })?;
            }
            let suppressions = found.into_iter().collect::<Result<_, _>>()?;
            Ok(SuppressionsPage { suppressions, total })
        })
        .await
    }
}

struct Suppress {
    party: PartyId,
    reason: Option<String>,
}

impl Command for Suppress {
    type Answer = Suppression;
    type Error = Unavailable;

    fn carry_out(self, context: &mut Context<'_>) -> Result<Suppression, Unavailable> {
        let (now, why) = (context.now(), (self.reason, OptOutSource::Api));
        // A person with two names has opted out by both.
        for other in parties_of(context, &self.party)?.iter().skip(1) {
            opt_out(context, other, why.clone(), now)?;
        }
        opt_out(context, &self.party, why, now)
    }
}

struct Unsuppress {
    party: PartyId,
}

impl Command for Unsuppress {
    type Answer = ();
    type Error = UnsuppressError;

    fn carry_out(self, context: &mut Context<'_>) -> Result<(), UnsuppressError> {
        let (now, mut was_out) = (context.now(), false);
        for party in parties_of(context, &self.party)? {
            was_out |= opt_in(context, &party, now)?;
        }
        if was_out { Ok(()) } else { Err(UnsuppressError::NotFound) }
    }
}

/// Reads the stored choices of a party, for a command.
///
/// # Errors
/// [`StoreError`]: the store cannot be read.
pub(crate) fn read_ahead(
    reader: &mut Reader<'_>,
    workspace: &WorkspaceId,
    party: &PartyId,
) -> Result<(), StoreError> {
    let choice = channel_choice::choice_key(workspace, party);
    for key in [key(workspace, party), decision_key(workspace, party), choice, count_key(workspace)]
    {
        reader.get(TABLE, key)?;
    }
    Ok(())
}

/// Returns whether a party has opted out.
pub(crate) fn has_opted_out(context: &Context<'_>, party: &PartyId) -> Result<bool, Unavailable> {
    Ok(context.get(TABLE, &key(&context.core.id, party))?.is_some())
}

/// Returns the time of the last decision about a party, in milliseconds; 0 if there was none.
fn last_decision(context: &Context<'_>, party: &PartyId) -> Result<u64, Unavailable> {
    let last = context.get(TABLE, &decision_key(&context.core.id, party))?;
    Ok(last.map(|last| number(&last)).transpose().map_err(unreadable)?.unwrap_or(0))
}

/// Applies the meaning of a message with this text, written at `at`: out, in again, or neither.
///
/// Messages may arrive in any order; the decision with the latest moment counts.
pub(crate) fn apply_opt_out(
    context: &mut Context<'_>,
    party: &PartyId,
    text: &str,
    at: Timestamp,
) -> Result<(), Unavailable> {
    let Some(word) = context.core.opt_out.read(text) else { return Ok(()) };
    if last_decision(context, party)? > at.as_millis() {
        return Ok(());
    }
    match word {
        OptOut::Out => {
            let why = (Some(BY_MESSAGE.to_owned()), OptOutSource::Word);
            opt_out(context, party, why, at).map(drop)
        }
        OptOut::Back => opt_in(context, party, at).map(drop),
    }
}

/// Opts a party out. An existing opt-out keeps its moment, and its reason if none is given.
fn opt_out(
    context: &mut Context<'_>,
    party: &PartyId,
    (reason, source): (Option<String>, OptOutSource),
    at: Timestamp,
) -> Result<Suppression, Unavailable> {
    let old: Option<Record> = context.get_json(TABLE, &key(&context.core.id, party))?;
    let is_new = old.is_none();
    let (created_at, old_reason) = match old {
        Some(old) => (old.created_at, old.reason),
        None => (at, None),
    };
    let (party, reason) = (party.clone(), reason.or(old_reason));
    let suppression = Suppression { party, reason, source, created_at };
    put(context, &suppression, is_new)?;
    decide(context, &suppression.party, at);
    Ok(suppression)
}

/// Writes the record of an opt-out, and emits the event if it is new.
fn put(
    context: &mut Context<'_>,
    suppression: &Suppression,
    is_new: bool,
) -> Result<(), Unavailable> {
    let Suppression { party, reason, source, .. } = suppression;
    if is_new {
        change_count(context, 1, party, |contact_id| {
            let (phone, user_id) = (party.phone(), party.user_id().cloned());
            let (reason, source) = (reason.clone(), *source);
            EventData::ContactOptedOut(OptedOutData { phone, user_id, contact_id, reason, source })
        })?;
    }
    context.put_json(TABLE, key(&context.core.id, party), &Record::of(suppression));
    Ok(())
}

/// Opts a party in again. Returns whether it was out.
///
/// A choice that the channel reported for a later moment stays.
fn opt_in(context: &mut Context<'_>, party: &PartyId, at: Timestamp) -> Result<bool, Unavailable> {
    let old: Option<Record> = context.get_json(TABLE, &key(&context.core.id, party))?;
    let was_out = old.is_some();
    if let Some(Record { created_at, .. }) = old {
        match channel_choice::stopped_after(context, party, at)? {
            Some(stopped) => put(context, &Suppression { created_at, ..stopped }, false)?,
            None => remove(context, party)?,
        }
    }
    decide(context, party, at);
    Ok(was_out)
}

/// Removes the record of an opt-out, and emits the event.
fn remove(context: &mut Context<'_>, party: &PartyId) -> Result<(), Unavailable> {
    change_count(context, -1, party, |contact_id| {
        let (phone, user_id) = (party.phone(), party.user_id().cloned());
        EventData::ContactOptedIn(OptedInData { phone, user_id, contact_id })
    })?;
    let key = key(&context.core.id, party);
    context.delete(TABLE, key);
    Ok(())
}

/// Stores the time of the last decision about a party.
fn decide(context: &mut Context<'_>, party: &PartyId, at: Timestamp) {
    let key = decision_key(&context.core.id, party);
    context.put(TABLE, key, at.as_millis().to_be_bytes().to_vec());
}

/// Changes the count of opt-outs by one, and emits the event.
///
/// Reads that can fail come before any write.
fn change_count(
    context: &mut Context<'_>,
    change: i64,
    party: &PartyId,
    event: impl FnOnce(Option<ContactId>) -> EventData,
) -> Result<(), Unavailable> {
    let contact_id = party_holder(context, party)?.map(|contact| contact.id);
    let key = count_key(&context.core.id);
    let kept = context.get(TABLE, &key)?;
    let count = count(context.store(), &context.core.id, kept).map_err(unreadable)?;
    let count = (count as u64).saturating_add_signed(change);
    context.put(TABLE, key, count.to_be_bytes().to_vec());
    context.effects.emit(context.now(), event(contact_id));
    Ok(())
}

/// Returns the number of opt-outs: the stored one, or a count if none is stored yet.
fn count(
    store: &dyn View,
    workspace: &WorkspaceId,
    kept: Option<Vec<u8>>,
) -> Result<usize, StoreError> {
    if let Some(kept) = kept {
        return Ok(number(&kept)? as usize);
    }
    let mut count = 0;
    for prefix in [phones_prefix(workspace), users_prefix(workspace)] {
        store.scan(TABLE, &prefix, None, Direction::Forward, &mut |_, _| {
            count += 1;
            ControlFlow::Continue(())
        })?;
    }
    Ok(count)
}

fn prefix(workspace: &WorkspaceId) -> Vec<u8> {
    [workspace.as_str().as_bytes(), &[0]].concat()
}

/// Returns the prefix of the keys of phones that have opted out.
fn phones_prefix(workspace: &WorkspaceId) -> Vec<u8> {
    [prefix(workspace).as_slice(), b"+"].concat()
}

/// Returns the prefix of the keys of people with a channel's id who have opted out.
fn users_prefix(workspace: &WorkspaceId) -> Vec<u8> {
    [prefix(workspace).as_slice(), b"@"].concat()
}

/// Returns the key of a party's record.
fn key(workspace: &WorkspaceId, party: &PartyId) -> Vec<u8> {
    let name = match party {
        PartyId::Phone(_) => party.key_text(),
        PartyId::User(id) => format!("@{id}"),
    };
    [prefix(workspace).as_slice(), name.as_bytes()].concat()
}

fn decision_key(workspace: &WorkspaceId, party: &PartyId) -> Vec<u8> {
    [prefix(workspace).as_slice(), b"w", &party.key_bytes()].concat()
}

fn count_key(workspace: &WorkspaceId) -> Vec<u8> {
    [prefix(workspace).as_slice(), b"n"].concat()
}

fn number(bytes: &[u8]) -> Result<u64, StoreError> {
    let number = bytes.try_into().map(u64::from_be_bytes);
    number.map_err(|_| StoreError::Damaged("a number beside the opt-outs".into()))
}

#[cfg(test)]
mod golden;
