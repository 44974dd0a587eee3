//! The service window is open for 24 hours after a contact has written to a number.
//!
//! While it is open, the number may answer with free text.
//!
//! [`Table::Windows`] has the last moment for each, under `workspace ‖ 0 ‖ line ‖ phone`: a number
//! that is connected anew has its windows still. One that has passed is forgotten with the message
//! that opened it.

use std::time::Duration;

use postrider_domain::{NumberId, Phone, Timestamp, WorkspaceId};
use postrider_store::{StoreError, Table};

use crate::core::command::Context;
use crate::core::view::unreadable;
use crate::sweep::Look;
use postrider_domain::unavailable::Unavailable;

/// How long it stays open.
const OPEN_FOR: Duration = Duration::from_secs(24 * 3600);

fn key(workspace: &WorkspaceId, line: NumberId, contact: Phone) -> Vec<u8> {
    [workspace.as_str().as_bytes(), &[0], &own_key(line, contact)].concat()
}

/// What names a window within its workspace.
pub(crate) fn own_key(line: NumberId, contact: Phone) -> Vec<u8> {
    [line.as_bytes(), &contact.as_u64().to_be_bytes()[..]].concat()
}

/// The record of the window of this name, if it has passed.
pub(crate) fn passed(
    look: &Look<'_>,
    own_key: &[u8],
) -> Result<Option<(Table, Vec<u8>)>, StoreError> {
    let key = [look.workspace.as_str().as_bytes(), &[0], own_key].concat();
    let Some(last) = look.store.get(Table::Windows, &key)? else { return Ok(None) };
    let is_over = moment(last)?.plus(OPEN_FOR) <= look.now;
    Ok(is_over.then_some((Table::Windows, key)))
}

/// Forgets the windows of a contact with the connected numbers.
pub(crate) fn forget_all(context: &mut Context<'_>, contact: Phone) {
    for number in context.connected {
        for id in [number.line(), number.id] {
            let key = key(&context.core.id, id, contact);
            context.delete(Table::Windows, key);
        }
    }
}

/// Closes the windows of a contact that have not been opened since `at`.
pub(crate) fn close(
    context: &mut Context<'_>,
    contact: Phone,
    at: Timestamp,
) -> Result<(), Unavailable> {
    for number in context.connected {
        for id in [number.line(), number.id] {
            let key = key(&context.core.id, id, contact);
            if read(context, &key)?.is_some_and(|last| last.as_secs() <= at.as_secs()) {
                context.delete(Table::Windows, key);
            }
        }
    }
    Ok(())
}

/// When the contact last wrote to the number.
pub(crate) fn last(
    context: &Context<'_>,
    number: NumberId,
    contact: Phone,
) -> Result<Option<Timestamp>, Unavailable> {
    let line = context.line(number);
    let last = read(context, &key(&context.core.id, line, contact))?;
    if line == number {
        return Ok(last);
    }
    // Earlier versions knew it by the number's own id.
    Ok(last.max(read(context, &key(&context.core.id, number, contact))?))
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

/// Whether the number may answer the contact with free text.
pub(crate) fn is_open(
    context: &Context<'_>,
    number: NumberId,
    contact: Phone,
) -> Result<bool, Unavailable> {
    let last = last(context, number, contact)?;
    Ok(last.is_some_and(|last| context.now() < last.plus(OPEN_FOR)))
}

/// The contact wrote to the number at `at`. Messages may come in any order: the latest counts.
pub(crate) fn open(
    context: &mut Context<'_>,
    number: NumberId,
    contact: Phone,
    at: Timestamp,
) -> Result<(), Unavailable> {
    if last(context, number, contact)?.is_none_or(|last| last < at) {
        let key = key(&context.core.id, context.line(number), contact);
        context.put(Table::Windows, key, at.as_millis().to_be_bytes().to_vec());
    }
    Ok(())
}

#[cfg(test)]
mod golden;
