//! A phone alias is another number by which the provider knows somebody's phone.
//!
//! It differs from the phone that was written to where digits were added to a country's numbers.
//! Messages of such a person come from the alias. In the countries whose rule is known, the two are
//! [equal](Phone) and neither is an alias.
//!
//! [`Table::Aliases`] has the phone that was written to under `workspace ‖ 0 ‖ the provider's
//! name`. It has an empty value under `workspace ‖ 0 ‖ r ‖ phone ‖ the provider's name`, to find
//! the names of a phone.
//!
//! If the contact of a phone was deleted, it has the moment under `workspace ‖ 0 ‖ d ‖ hash of the
//! phone`. The same holds for the channel's id. Reports about earlier messages then have no effect.

use std::ops::ControlFlow;

use postrider_domain::unavailable::Unavailable;
use postrider_domain::{PartyId, Phone, Timestamp, WorkspaceId};
use postrider_store::{StoreError, Table, View};
use sha2::{Digest, Sha256};

use crate::contacts;
use crate::core::command::Context;
use crate::core::view::Reader;
use crate::core::view::unreadable;

/// The maximum number of a phone's names that are read: it has one or two.
const NAMES_MAX: usize = 16;

fn key(workspace: &WorkspaceId, known_as: Phone) -> Vec<u8> {
    [workspace.as_str().as_bytes(), &[0], &known_as.key_bytes()].concat()
}

/// Returns the key of a name by its phone, or the prefix of the keys of all its names.
///
/// No phone is long enough to start with this letter.
fn name_key(workspace: &WorkspaceId, phone: Phone, known_as: Option<Phone>) -> Vec<u8> {
    let (known_as, phone) = (known_as.map(Phone::key_bytes), phone.key_bytes());
    [workspace.as_str().as_bytes(), b"\0r", &phone, known_as.as_ref().map_or(&[], |it| it)].concat()
}

/// Reads the phone that was written to if the provider has another name for it, for a command.
///
/// # Errors
/// [`StoreError`]: the store cannot be read.
pub(crate) fn read_ahead(
    reader: &mut Reader<'_>,
    workspace: &WorkspaceId,
    known_as: Phone,
) -> Result<Option<Phone>, StoreError> {
    let written_to = reader.get(Table::Aliases, key(workspace, known_as))?;
    let digits = written_to.and_then(|bytes| bytes.try_into().ok()).map(u64::from_be_bytes);
    Ok(digits.and_then(|digits| Phone::from_digits(digits).ok()))
}

/// Returns the key of the moment when the contact with a name was deleted.
pub(crate) fn deleted_key(workspace: &WorkspaceId, name: &PartyId) -> Vec<u8> {
    let hash = Sha256::digest(name.key_bytes());
    [workspace.as_str().as_bytes(), b"\0d", &hash[..16]].concat()
}

/// Returns the moment when the contact with a name was deleted; the start of time if it was not.
pub(crate) fn deleted_at(context: &Context<'_>, name: &PartyId) -> Result<Timestamp, Unavailable> {
    let at = context.get(Table::Aliases, &deleted_key(&context.core.id, name))?;
    moment(at).map_err(unreadable)
}

/// Returns the same as it is committed.
pub(crate) fn read_deleted_at(
    store: &dyn View,
    workspace: &WorkspaceId,
    name: &PartyId,
) -> Result<Timestamp, StoreError> {
    moment(store.get(Table::Aliases, &deleted_key(workspace, name))?)
}

fn moment(record: Option<Vec<u8>>) -> Result<Timestamp, StoreError> {
    let at = record.map(|at| at.try_into().map(u64::from_be_bytes)).transpose();
    let damaged = |_| StoreError::Damaged("when a contact was deleted".into());
    Ok(Timestamp::from_millis(at.map_err(damaged)?.unwrap_or_default()))
}

/// Returns the phone that was written to if the provider has another name for it.
pub(crate) fn written_to(
    context: &Context<'_>,
    known_as: Phone,
) -> Result<Option<Phone>, Unavailable> {
    let Some(bytes) = context.get(Table::Aliases, &key(&context.core.id, known_as))? else {
        return Ok(None);
    };
    let phone = bytes.try_into().ok().map(u64::from_be_bytes);
    let phone = phone.and_then(|digits| Phone::from_digits(digits).ok());
    let damaged = || unreadable(StoreError::Damaged("another name of a phone".into()));
    phone.map(Some).ok_or_else(damaged)
}

/// Stores that the provider knows `phone` as `known_as`, which named the phone `before` so far.
pub(crate) fn put(context: &mut Context<'_>, phone: Phone, known_as: Phone, before: Option<Phone>) {
    let key = key(&context.core.id, known_as);
    context.put(Table::Aliases, key, phone.as_u64().to_be_bytes().to_vec());
    if let Some(before) = before {
        let name = name_key(&context.core.id, before, Some(known_as));
        context.delete(Table::Aliases, name);
    }
    let name = name_key(&context.core.id, phone, Some(known_as));
    context.put(Table::Aliases, name, Vec::new());
}

/// The names of a phone.
pub(crate) struct PhoneNames {
    pub(crate) phone: Phone,
    /// The provider's names of it.
    pub(crate) known_as: Vec<Phone>,
    /// The phone that was written to, if this phone is itself a name.
    written_to: Option<Phone>,
}

/// Returns the names of a phone, as far as they are committed.
pub(crate) fn names_of(context: &Context<'_>, phone: Phone) -> Result<PhoneNames, Unavailable> {
    let written_to = written_to(context, phone)?;
    let mut known_as = Vec::new();
    let prefix = name_key(&context.core.id, phone, None);
    context.scan(Table::Aliases, &prefix, &mut |key, _| {
        let name = key.last_chunk().map(|name| u64::from_be_bytes(*name));
        known_as.extend(name.and_then(|name| Phone::from_digits(name).ok()));
        if known_as.len() < NAMES_MAX { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(PhoneNames { phone, known_as, written_to })
}

/// Deletes the names of a phone.
pub(crate) fn forget(context: &mut Context<'_>, names: &PhoneNames) {
    let PhoneNames { phone, known_as, written_to } = names;
    let workspace = context.core.id.clone();
    for name in known_as {
        context.delete(Table::Aliases, key(&workspace, *name));
        context.delete(Table::Aliases, name_key(&workspace, *phone, Some(*name)));
    }
    if let Some(written_to) = written_to {
        context.delete(Table::Aliases, key(&workspace, *phone));
        context.delete(Table::Aliases, name_key(&workspace, *written_to, Some(*phone)));
    }
}

/// Stores that the contact with a name was deleted now.
pub(crate) fn note_deleted(context: &mut Context<'_>, name: &PartyId) {
    let now = context.now().as_millis().to_be_bytes();
    let key = deleted_key(&context.core.id, name);
    context.put(Table::Aliases, key, now.to_vec());
}

/// The writer of a message.
pub(crate) struct MessageWriter {
    /// The phone that the workspace knows them by.
    pub(crate) phone: Phone,
    /// Their other phone, if there is one.
    pub(crate) other: Option<Phone>,
}

impl MessageWriter {
    /// Returns all their phones, the one that the workspace knows them by last.
    pub(crate) fn phones(&self) -> Vec<PartyId> {
        self.other.into_iter().chain([self.phone]).map(PartyId::from).collect()
    }
}

/// Returns the person whom the provider calls `from`.
///
/// It is the phone that was written to, unless only `from` is in a contact.
pub(crate) fn writer(context: &Context<'_>, from: Phone) -> Result<MessageWriter, Unavailable> {
    let Some(phone) = written_to(context, from)? else {
        return Ok(MessageWriter { phone: from, other: None });
    };
    let has_contact = |phone| contacts::holder(context, phone).map(|holder| holder.is_some());
    Ok(if has_contact(from)? && !has_contact(phone)? {
        MessageWriter { phone: from, other: Some(phone) }
    } else {
        MessageWriter { phone, other: Some(from) }
    })
}

#[cfg(test)]
mod golden;
