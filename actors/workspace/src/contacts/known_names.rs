//! What the channel has reported of names that no contact has, or has no more.
//!
//! [`Table::Aliases`] has, under `workspace ‖ 0`: `i ‖ id` the phone that was reported together
//! with the channel's id of a person, when no contact had either; and `m ‖ name` what a phone or
//! an id was changed to, by the last notice of it. Both begin with the version (1) and the moment
//! (u64, big endian); then come the phone (u64, 0 for none) and the id's text.
//!
//! With them a message finds its writer whatever is reported first: an older notice does not undo a
//! newer one, and what was written before a change and comes after it belongs to the same person.

use postrider_domain::unavailable::Unavailable;
use postrider_domain::{PartyId, PartyNames, Phone, Timestamp, UserId, WorkspaceId};
use postrider_store::{StoreError, Table};

use crate::core::command::Context;
use crate::core::view::unreadable;

const VERSION: u8 = 1;
/// Changes that are followed from one name: who has more of them is not found by the first.
const CHANGES_MAX: usize = 8;

/// The key of the phone that was reported together with an id.
pub(crate) fn reported_key(workspace: &WorkspaceId, id: &UserId) -> Vec<u8> {
    [workspace.as_str().as_bytes(), b"\0i", id.as_str().as_bytes()].concat()
}

/// The key of what a name was changed to.
pub(crate) fn moved_key(workspace: &WorkspaceId, name: &PartyId) -> Vec<u8> {
    [workspace.as_str().as_bytes(), b"\0m", &name.key_bytes()].concat()
}

/// Names that were reported at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ReportedNames {
    at: Timestamp,
    names: PartyNames,
}

impl ReportedNames {
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

fn read(context: &Context<'_>, key: &[u8]) -> Result<Option<ReportedNames>, Unavailable> {
    let bytes = context.get(Table::Aliases, key)?;
    bytes.map(|bytes| ReportedNames::decode(&bytes)).transpose().map_err(unreadable)
}

/// The phone that was reported together with an id, and when.
pub(crate) fn phone_of(
    context: &Context<'_>,
    id: &UserId,
) -> Result<Option<(Phone, Timestamp)>, Unavailable> {
    let reported = read(context, &reported_key(&context.core.id, id))?;
    Ok(reported.and_then(|reported| Some((reported.names.phone?, reported.at))))
}

/// A phone and an id are one person's, whom no contact is of. Returns whether that is news.
pub(crate) fn remember(
    context: &mut Context<'_>,
    phone: Phone,
    id: &UserId,
    at: Timestamp,
) -> Result<bool, Unavailable> {
    let before = phone_of(context, id)?;
    if before.is_some_and(|(known, reported_at)| known == phone || reported_at > at) {
        return Ok(false);
    }
    let key = reported_key(&context.core.id, id);
    let names = PartyNames { phone: Some(phone), user_id: None };
    context.put(Table::Aliases, key, ReportedNames { at, names }.encode());
    Ok(true)
}

/// What a name was changed to, and when.
pub(crate) fn changed_to(
    context: &Context<'_>,
    name: &PartyId,
) -> Result<Option<(PartyNames, Timestamp)>, Unavailable> {
    let reported = read(context, &moved_key(&context.core.id, name))?;
    Ok(reported.map(|reported| (reported.names, reported.at)))
}

/// A name was changed to these at that moment. What a later notice reported stays.
pub(crate) fn change(
    context: &mut Context<'_>,
    name: &PartyId,
    names: &PartyNames,
    at: Timestamp,
) -> Result<(), Unavailable> {
    if changed_to(context, name)?.is_none_or(|(_, last)| last <= at) {
        let key = moved_key(&context.core.id, name);
        context.put(Table::Aliases, key, ReportedNames { at, names: names.clone() }.encode());
        if let PartyId::User(id) = name {
            let key = reported_key(&context.core.id, id);
            context.delete(Table::Aliases, key);
        }
    }
    Ok(())
}

/// What names of `at` are now, by all notices of later moments: those of a notice, or of something
/// that was written.
pub(crate) fn later(
    context: &Context<'_>,
    mut names: PartyNames,
    at: Timestamp,
) -> Result<PartyNames, Unavailable> {
    for _ in 0..CHANGES_MAX {
        let mut later = None;
        for name in names.parties() {
            let changed = changed_to(context, &name)?.filter(|(_, changed_at)| *changed_at > at);
            later = later.or(changed.map(|(new, _)| (name, new)));
        }
        let Some((name, new)) = later else { break };
        // A phone that a new id is reported without is theirs no more.
        let user_id = match name {
            PartyId::Phone(_) => new.user_id.or(names.user_id),
            PartyId::User(_) => new.user_id,
        };
        names = PartyNames { phone: new.phone, user_id };
    }
    Ok(names)
}

/// Forgets what was reported of a name: its contact is deleted.
pub(crate) fn forget(context: &mut Context<'_>, name: &PartyId) {
    let moved = moved_key(&context.core.id, name);
    context.delete(Table::Aliases, moved);
    if let PartyId::User(id) = name {
        let reported = reported_key(&context.core.id, id);
        context.delete(Table::Aliases, reported);
    }
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
        sheet.text("moved phone", &moved_key(&workspace, &phone.into()));
        sheet.text("moved id", &moved_key(&workspace, &id.into()));
        let all = [
            both.clone(),
            PartyNames { phone: None, ..both.clone() },
            PartyNames { user_id: None, ..both },
        ];
        for names in all {
            let reported = ReportedNames { at: AT, names };
            sheet.bytes("names", &reported.encode());
            assert_eq!(ReportedNames::decode(&reported.encode()), Ok(reported));
        }
        sheet.is(expect![[r#"
            reported: acme\x00iUS.13491208
            moved phone: acme\x00m\x00\x00\x00\x03\x9e\xdc\r\xc0
            moved id: acme\x00muUS.13491208
            names: 010000018bcfe5687b000000039edc0dc055532e3133343931323038
            names: 010000018bcfe5687b000000000000000055532e3133343931323038
            names: 010000018bcfe5687b000000039edc0dc0
        "#]]);
        for damaged in [&[][..], &[2; 17], &[VERSION; 16], &[VERSION; 18]] {
            assert!(ReportedNames::decode(damaged).is_err(), "{damaged:?}");
        }
    }
}
