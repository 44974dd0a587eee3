//! The service window, which is open for 24 hours after a contact has written to a number.
//!
//! While it is open, the number may answer with free text.
//!
//! [`Table::Windows`] has the last moment for each, under `workspace ‖ 0 ‖ line ‖ party`: a number
//! that is reconnected still has its windows. A party is a phone, or the channel's id of a person;
//! a person who is known by both has a window for each. A window that has passed is deleted with
//! the message that opened it.

use std::time::Duration;

use postrider_domain::unavailable::Unavailable;
use postrider_domain::{NumberId, PartyId, Timestamp, WorkspaceId};
use postrider_number::record::NumberInfo;
use postrider_store::{StoreError, Table, View};

use crate::core::command::Context;
use crate::core::senders::sticky_sender;
use crate::core::view::unreadable;
use crate::sweep::{Look, RecordKeys};

/// The time for which it stays open.
const OPEN_FOR: Duration = Duration::from_secs(24 * 3600);

/// Returns the key of the window of a contact with a number.
pub(crate) fn window_key(workspace: &WorkspaceId, line: NumberId, contact: &PartyId) -> Vec<u8> {
    [workspace.as_str().as_bytes(), &[0], &own_key(line, contact)].concat()
}

/// Returns the name of a window within its workspace.
pub(crate) fn own_key(line: NumberId, contact: &PartyId) -> Vec<u8> {
    [&line.as_bytes()[..], &contact.key_bytes()].concat()
}

/// The bytes of a phone's [`own_key`].
const PHONE_KEY_BYTES: usize = 24;

/// Splits concatenated names of windows: phones' first, then a person's id.
fn split(mut own_keys: &[u8]) -> Vec<&[u8]> {
    let mut names = Vec::new();
    while let Some((phone, rest)) = own_keys.split_at_checked(PHONE_KEY_BYTES)
        && phone.get(size_of::<NumberId>()) != Some(&b'u')
    {
        names.push(phone);
        own_keys = rest;
    }
    names.extend(Some(own_keys).filter(|rest| !rest.is_empty()));
    names
}

/// Returns the phones among the names of windows, as their keys have them.
pub(crate) fn phones(own_keys: &[u8]) -> impl Iterator<Item = [u8; 8]> {
    let phones = split(own_keys).into_iter().filter(|name| name.len() == PHONE_KEY_BYTES);
    phones.filter_map(|name| name.last_chunk().copied()).collect::<Vec<_>>().into_iter()
}

/// Returns the records of the windows with these names that have passed.
pub(crate) fn passed(look: &Look<'_>, own_keys: &[u8]) -> Result<RecordKeys, StoreError> {
    let mut keys = Vec::new();
    for name in split(own_keys) {
        let key = [look.workspace.as_str().as_bytes(), &[0], name].concat();
        let Some(last) = look.store.get(Table::Windows, &key)? else { continue };
        if moment(last)?.plus(OPEN_FOR) <= look.now {
            keys.push((Table::Windows, key));
        }
    }
    Ok(keys)
}

/// Forgets the windows of a contact with the connected numbers, and the number that was used last.
pub(crate) fn forget_all(context: &mut Context<'_>, contact: &PartyId) {
    for number in context.connected {
        let key = window_key(&context.core.id, number.line(), contact);
        context.delete(Table::Windows, key);
    }
    sticky_sender::forget(context, contact);
}

/// Closes the windows of a contact that have not been opened since `at`.
pub(crate) fn close(
    context: &mut Context<'_>,
    contact: &PartyId,
    at: Timestamp,
) -> Result<(), Unavailable> {
    for number in context.connected {
        let key = window_key(&context.core.id, number.line(), contact);
        if read(context, &key)?.is_some_and(|last| last.as_secs() <= at.as_secs()) {
            context.delete(Table::Windows, key);
        }
    }
    Ok(())
}

/// Returns when the contact last wrote to the number.
pub(crate) fn last(
    context: &Context<'_>,
    number: NumberId,
    contact: &PartyId,
) -> Result<Option<Timestamp>, Unavailable> {
    read(context, &window_key(&context.core.id, context.line(number), contact))
}

/// Returns when a contact's window with a number closes, or has closed, as committed.
pub(crate) fn window_end(
    store: &dyn View,
    workspace: &WorkspaceId,
    number: &NumberInfo,
    contact: &PartyId,
) -> Result<Option<Timestamp>, StoreError> {
    latest_end(store, workspace, &[number.line()], contact)
}

/// When the last of a contact's windows with the numbers of these lines closes, or has closed.
pub(crate) fn latest_end(
    store: &dyn View,
    workspace: &WorkspaceId,
    lines: &[NumberId],
    contact: &PartyId,
) -> Result<Option<Timestamp>, StoreError> {
    let mut latest = None;
    for line in lines {
        let found = store.get(Table::Windows, &window_key(workspace, *line, contact))?;
        latest = latest.max(found.map(moment).transpose()?);
    }
    Ok(latest.map(|last| last.plus(OPEN_FOR)))
}

fn read(context: &Context<'_>, key: &[u8]) -> Result<Option<Timestamp>, Unavailable> {
    let Some(bytes) = context.get(Table::Windows, key)? else { return Ok(None) };
    moment(bytes).map(Some).map_err(unreadable)
}

fn moment(bytes: Vec<u8>) -> Result<Timestamp, StoreError> {
    let millis = bytes.try_into().map(u64::from_be_bytes);
    let damaged = |_| StoreError::Damaged("a conversation window".into());
    millis.map(Timestamp::from_millis).map_err(damaged)
}

/// Returns whether the number may answer the contact with free text.
pub(crate) fn is_open(
    context: &Context<'_>,
    number: NumberId,
    contact: &PartyId,
) -> Result<bool, Unavailable> {
    let last = last(context, number, contact)?;
    Ok(last.is_some_and(|last| context.now() < last.plus(OPEN_FOR)))
}

/// Notes that the contact wrote to the number at `at`.
///
/// Messages may come in any order: the latest counts.
pub(crate) fn open(
    context: &mut Context<'_>,
    number: NumberId,
    contact: &PartyId,
    at: Timestamp,
) -> Result<(), Unavailable> {
    if last(context, number, contact)?.is_none_or(|last| last < at) {
        let key = window_key(&context.core.id, context.line(number), contact);
        context.put(Table::Windows, key, at.as_millis().to_be_bytes().to_vec());
    }
    Ok(())
}

#[cfg(test)]
mod golden;
