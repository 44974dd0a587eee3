//! The names of people that the channel itself has reported.
//!
//! [`Table::Aliases`] has, under `workspace ‖ 0`:
//! - `i ‖ id`: the phone that was reported together with the channel's id of a person, whatever
//!   contacts say;
//! - `n ‖ hash of a phone`: the moment and the hash of the id that was last reported with it;
//! - `m ‖ name`: the names that a phone or an id was changed to, by its last notice.
//!
//! All begin with the version (1) and the moment (u64, big endian). In the first and the last the
//! phone (u64, 0 for none) and the id's text follow.
//!
//! With them a message finds its writer whatever is reported first. An older notice does not undo a
//! newer one. A message that was written before a change and arrives after it belongs to the same
//! person.
//!
//! They also prove whose phone it is where the channel hides it: a contact's phone can be edited. A
//! phone is proven for the id that was last reported with it, until its name was changed or its
//! contact deleted.

use std::time::Duration;

use sha2::{Digest, Sha256};

use postrider_domain::unavailable::Unavailable;
use postrider_domain::{PartyId, PartyNames, Phone, Timestamp, UserId, WorkspaceId};
use postrider_store::{StoreError, Table};

use crate::core::command::Context;
use crate::core::view::Reader;
use crate::core::view::unreadable;

const VERSION: u8 = 1;
/// The maximum number of changes that are followed from one name.
///
/// A person with more changes is not found by the first name.
const CHANGES_MAX: usize = 8;
/// The bytes of a name's hash.
const HASH_BYTES: usize = 16;

/// Returns the key of the phone that was reported together with an id.
fn reported_key(workspace: &WorkspaceId, id: &UserId) -> Vec<u8> {
    [workspace.as_str().as_bytes(), b"\0i", id.as_str().as_bytes()].concat()
}

/// Returns the key of the id that was last reported with a phone.
fn named_key(workspace: &WorkspaceId, phone: Phone) -> Vec<u8> {
    let hash = hash(&PartyId::from(phone));
    [workspace.as_str().as_bytes(), b"\0n", &hash].concat()
}

/// Returns the hash of a name, for a record that only compares it and outlives the contact.
fn hash(name: &PartyId) -> [u8; HASH_BYTES] {
    let whole: [u8; 32] = Sha256::digest(name.key_bytes()).into();
    std::array::from_fn(|at| whole[at])
}

/// Returns the key of the names that a name was changed to.
pub(crate) fn moved_key(workspace: &WorkspaceId, name: &PartyId) -> Vec<u8> {
    [workspace.as_str().as_bytes(), b"\0m", &name.key_bytes()].concat()
}

/// Names that were reported at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
struct NameReport {
    at: Timestamp,
    names: PartyNames,
}

impl NameReport {
    fn encode(&self) -> Vec<u8> {
        let phone = self.names.phone.map_or(0, Phone::as_u64).to_be_bytes();
        let id = self.names.user_id.as_ref().map_or("", UserId::as_str);
        [&[VERSION][..], &self.at.as_millis().to_be_bytes(), &phone, id.as_bytes()].concat()
    }

    fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        let damaged = || StoreError::Damaged("names that the channel reported".into());
        let (version, rest) = bytes.split_first().ok_or_else(damaged)?;
        let (at, rest) = rest.split_first_chunk().ok_or_else(damaged)?;
        let (phone, id) = rest.split_first_chunk().ok_or_else(damaged)?;
        let phone = match u64::from_be_bytes(*phone) {
            0 => None,
            digits => Some(Phone::from_digits(digits).map_err(|_| damaged())?),
        };
        let user_id = match std::str::from_utf8(id).map_err(|_| damaged())? {
            "" => None,
            id => Some(id.parse().map_err(|_| damaged())?),
        };
        if *version != VERSION {
            return Err(damaged());
        }
        let at = Timestamp::from_millis(u64::from_be_bytes(*at));
        Ok(Self { at, names: PartyNames { phone, user_id } })
    }
}

fn read(context: &Context<'_>, key: &[u8]) -> Result<Option<NameReport>, Unavailable> {
    let bytes = context.get(Table::Aliases, key)?;
    bytes.map(|bytes| NameReport::decode(&bytes)).transpose().map_err(unreadable)
}

/// Reads the names that were reported together with a name, for a command: for an id its phone.
///
/// # Errors
/// [`StoreError`]: the store or a record cannot be read.
pub(crate) fn read_ahead(
    reader: &mut Reader<'_>,
    workspace: &WorkspaceId,
    name: &PartyId,
) -> Result<Option<Phone>, StoreError> {
    match name {
        PartyId::Phone(phone) => {
            reader.get(Table::Aliases, named_key(workspace, *phone))?;
            Ok(None)
        }
        PartyId::User(id) => {
            let reported = reader.get(Table::Aliases, reported_key(workspace, id))?;
            let reported = reported.map(|bytes| NameReport::decode(&bytes)).transpose()?;
            Ok(reported.and_then(|reported| reported.names.phone))
        }
    }
}

/// Returns the phone that was reported together with an id, and the moment of the report.
pub(crate) fn phone_of(
    context: &Context<'_>,
    id: &UserId,
) -> Result<Option<(Phone, Timestamp)>, Unavailable> {
    let reported = read(context, &reported_key(&context.core.id, id))?;
    Ok(reported.and_then(|reported| Some((reported.names.phone?, reported.at))))
}

/// Returns the phone that is proven for an id: the channel last named them together.
pub(crate) fn proven_phone(
    context: &Context<'_>,
    id: &UserId,
) -> Result<Option<Phone>, Unavailable> {
    let Some((phone, _)) = phone_of(context, id)? else { return Ok(None) };
    let named = named_with(context, phone)?;
    let is_theirs = named.is_some_and(|(of, _)| of == hash(&id.clone().into()));
    Ok(is_theirs.then_some(phone))
}

/// Returns the hash of the id that was last reported with a phone, and the moment.
fn named_with(
    context: &Context<'_>,
    phone: Phone,
) -> Result<Option<([u8; HASH_BYTES], Timestamp)>, Unavailable> {
    let key = named_key(&context.core.id, phone);
    let Some(bytes) = context.get(Table::Aliases, &key)? else { return Ok(None) };
    let damaged = || unreadable(StoreError::Damaged("the id that was named with a phone".into()));
    let (version, rest) = bytes.split_first().ok_or_else(damaged)?;
    let (at, of) = rest.split_first_chunk().ok_or_else(damaged)?;
    let of = of.try_into().map_err(|_| damaged())?;
    if *version != VERSION {
        return Err(damaged());
    }
    Ok(Some((of, Timestamp::from_millis(u64::from_be_bytes(*at)))))
}

/// Checks whether the channel has named a phone after a moment with an id other than these. Then it
/// is another person's phone since.
pub(crate) fn is_passed_on(
    context: &Context<'_>,
    phone: Phone,
    at: Timestamp,
    ids: [Option<&UserId>; 2],
) -> Result<bool, Unavailable> {
    let is = |of, id: &UserId| hash(&id.clone().into()) == of;
    let named = named_with(context, phone)?.filter(|(_, named_at)| *named_at > at);
    Ok(named.is_some_and(|(of, _)| !ids.into_iter().flatten().any(|id| is(of, id))))
}

/// The channel reported at that moment that a phone and an id are one person's. Returns whether
/// that is news. What a later report says stays.
pub(crate) fn remember(
    context: &mut Context<'_>,
    phone: Phone,
    id: &UserId,
    at: Timestamp,
) -> Result<bool, Unavailable> {
    let before = phone_of(context, id)?;
    if before.is_some_and(|(_, reported_at)| reported_at > at) {
        return Ok(false);
    }
    if named_with(context, phone)?.is_none_or(|(_, named_at)| named_at <= at) {
        let (key, of) = (named_key(&context.core.id, phone), hash(&id.clone().into()));
        let value = [&[VERSION][..], &at.as_millis().to_be_bytes(), &of].concat();
        context.put(Table::Aliases, key, value);
    }
    let key = reported_key(&context.core.id, id);
    let names = PartyNames { phone: Some(phone), user_id: None };
    context.put(Table::Aliases, key, NameReport { at, names }.encode());
    Ok(before.is_none_or(|(known, _)| known != phone))
}

/// Returns the names that a name was changed to, and the moment of the change.
pub(crate) fn changed_to(
    context: &Context<'_>,
    name: &PartyId,
) -> Result<Option<(PartyNames, Timestamp)>, Unavailable> {
    let reported = read(context, &moved_key(&context.core.id, name))?;
    Ok(reported.map(|reported| (reported.names, reported.at)))
}

/// Stores that a name was changed to these at that moment. A later notice stays.
pub(crate) fn change(
    context: &mut Context<'_>,
    name: &PartyId,
    names: &PartyNames,
    at: Timestamp,
) -> Result<(), Unavailable> {
    if changed_to(context, name)?.is_none_or(|(_, last)| last <= at) {
        let key = moved_key(&context.core.id, name);
        context.put(Table::Aliases, key, NameReport { at, names: names.clone() }.encode());
        let reported_at = match name {
            PartyId::Phone(phone) => named_with(context, *phone)?.map(|(_, named_at)| named_at),
            PartyId::User(id) => phone_of(context, id)?.map(|(_, reported_at)| reported_at),
        };
        // A later report is of the person who has the name since.
        if reported_at.is_some_and(|reported_at| reported_at <= at) {
            forget_report(context, name);
        }
    }
    Ok(())
}

/// Returns the current names for the names of `at`, by all notices of later moments.
///
/// `names` are those of a notice or of a message's writer.
pub(crate) fn current_names(
    context: &Context<'_>,
    mut names: PartyNames,
    mut at: Timestamp,
) -> Result<PartyNames, Unavailable> {
    for _ in 0..CHANGES_MAX {
        let mut later = None;
        for name in names.parties() {
            let changed = changed_to(context, &name)?.filter(|(_, changed_at)| *changed_at > at);
            later = later.or(changed.map(|(new, changed_at)| (name, new, changed_at)));
        }
        let Some((name, new, changed_at)) = later else { break };
        // This change does not revert an earlier one.
        at = changed_at.minus(Duration::from_millis(1));
        // A phone that is reported without the new id no longer belongs to the person.
        let user_id = match name {
            PartyId::Phone(_) => new.user_id.or(names.user_id),
            PartyId::User(_) => new.user_id,
        };
        names = PartyNames { phone: new.phone, user_id };
    }
    Ok(names)
}

/// Deletes the reports of a name: its contact is deleted.
pub(crate) fn forget(context: &mut Context<'_>, name: &PartyId) {
    let moved = moved_key(&context.core.id, name);
    context.delete(Table::Aliases, moved);
    forget_report(context, name);
}

/// Deletes the proof of a name.
fn forget_report(context: &mut Context<'_>, name: &PartyId) {
    let key = match name {
        PartyId::Phone(phone) => named_key(&context.core.id, *phone),
        PartyId::User(id) => reported_key(&context.core.id, id),
    };
    context.delete(Table::Aliases, key);
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use postrider_domain::golden::{AT, Sheet};

    #[test]
    fn names_are_stored_as_ever() {
        let workspace = "acme".parse().unwrap();
        let (phone, id): (Phone, UserId) =
            ("+15550123456".parse().unwrap(), "US.13491208".parse().unwrap());
        let both = PartyNames { phone: Some(phone), user_id: Some(id.clone()) };
        let mut sheet = Sheet::default();
        sheet.text("reported", &reported_key(&workspace, &id));
        sheet.text("named", &named_key(&workspace, phone));
        sheet.bytes("hash", &hash(&id.clone().into()));
        sheet.text("moved phone", &moved_key(&workspace, &phone.into()));
        sheet.text("moved id", &moved_key(&workspace, &id.into()));
        let all = [
            both.clone(),
            PartyNames { phone: None, ..both.clone() },
            PartyNames { user_id: None, ..both },
        ];
        for names in all {
            let reported = NameReport { at: AT, names };
            sheet.bytes("names", &reported.encode());
            assert_eq!(NameReport::decode(&reported.encode()), Ok(reported));
        }
        sheet.is(expect![[r#"
            reported: acme\x00iUS.13491208
            named: acme\x00n\xd8rHt\x98r\x04,t\xb3\x9a\xd6\xb9\x98\xb4\x15
            hash: 7a9739a6677ed523cf824c81727d9ea4
            moved phone: acme\x00m\x00\x00\x00\x03\x9e\xdc\r\xc0
            moved id: acme\x00muUS.13491208
            names: 010000018bcfe5687b000000039edc0dc055532e3133343931323038
            names: 010000018bcfe5687b000000000000000055532e3133343931323038
            names: 010000018bcfe5687b000000039edc0dc0
        "#]]);
        for damaged in [&[][..], &[2; 17], &[VERSION; 16], &[VERSION; 18]] {
            assert!(NameReport::decode(damaged).is_err(), "{damaged:?}");
        }
    }
}
