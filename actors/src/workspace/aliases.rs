//! Other names of phones: what the provider calls somebody can differ from the phone that was
//! written to, as with the digits that Brazil and Mexico have added to their numbers. What such a
//! person writes comes from the provider's name for them.
//!
//! [`Table::Aliases`] has the phone that was written to under `workspace ‖ 0 ‖ the provider's name`.

use crate::domain::{NumberId, Phone, WorkspaceId};
use crate::store::{StoreError, Table};

use super::command::Context;
use super::messages::Unavailable;
use super::view::unreadable;
use super::{contacts, suppressions, window};

fn key(workspace: &WorkspaceId, known_as: Phone) -> Vec<u8> {
    [workspace.as_str().as_bytes(), &[0], &known_as.as_u64().to_be_bytes()].concat()
}

/// The phone that was written to, where the provider's name for it is another.
fn written_to(context: &Context<'_>, known_as: Phone) -> Result<Option<Phone>, Unavailable> {
    let Some(bytes) = context.get(Table::Aliases, &key(&context.core.id, known_as))? else {
        return Ok(None);
    };
    let phone = bytes.try_into().ok().map(u64::from_be_bytes);
    let phone = phone.and_then(|digits| Phone::from_digits(digits).ok());
    let damaged = || unreadable(StoreError::Damaged("another name of a phone".into()));
    phone.map(Some).ok_or_else(damaged)
}

/// What was written to `phone` through `number` went to somebody whom the provider calls
/// `known_as`. If they have written already, what that meant holds for the phone too.
pub(super) fn learn(
    context: &mut Context<'_>,
    number: NumberId,
    phone: Phone,
    known_as: Phone,
) -> Result<(), Unavailable> {
    if phone == known_as || written_to(context, known_as)? == Some(phone) {
        return Ok(());
    }
    suppressions::follow(context, phone, known_as)?;
    if let Some(at) = window::last(context, number, known_as)? {
        window::open(context, number, phone, at)?;
    }
    let key = key(&context.core.id, known_as);
    context.put(Table::Aliases, key, phone.as_u64().to_be_bytes().to_vec());
    Ok(())
}

/// Somebody who writes.
pub(super) struct Writer {
    /// The phone that the workspace knows them by.
    pub(super) phone: Phone,
    /// The other phone that is theirs, if there is one.
    pub(super) other: Option<Phone>,
}

/// Who it is whom the provider calls `from`: the phone that was written to, unless only `from` is
/// in a contact.
pub(super) fn writer(context: &Context<'_>, from: Phone) -> Result<Writer, Unavailable> {
    let Some(phone) = written_to(context, from)? else {
        return Ok(Writer { phone: from, other: None });
    };
    let has_contact = |phone| contacts::holder(context, phone).map(|holder| holder.is_some());
    Ok(if has_contact(from)? && !has_contact(phone)? {
        Writer { phone: from, other: Some(phone) }
    } else {
        Writer { phone, other: Some(from) }
    })
}
