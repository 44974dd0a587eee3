//! Contacts that were merged into another one: their ids name it from then on.
//!
//! [`Table::Contacts`] has, under `workspace ‖ 0`:
//! - `x ‖ place` for each merged contact: the version (1), its id, then the id of the contact that
//!   stays;
//! - `m ‖ place` for a contact that stays: the version and the ids of all that were merged into it.
//!
//! The list is bounded, so that a command that merges or deletes one does a bounded work.

use postrider_domain::contact::TAGS_MAX;
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{ContactId, CustomFields, PartyNames, Tags, Timestamp, WorkspaceId};
use postrider_store::{StoreError, Table, View};

use crate::contacts::index;
use crate::contacts::record::{
    Contact, contact_key, former_ids, key, phone_key, place_of, read_at, user_key,
};
use crate::core::command::Context;
use crate::core::view::Reader;
use crate::core::view::unreadable;

/// The maximum number of contacts that are merged into one.
pub(crate) const MERGED_MAX: usize = 64;
/// The version of both records.
const VERSION: u8 = 1;
const ID_BYTES: usize = 16;

pub(crate) fn merged_key(workspace: &WorkspaceId, place: u64) -> Vec<u8> {
    key(workspace, b'x', place)
}

fn list_key(workspace: &WorkspaceId, place: u64) -> Vec<u8> {
    key(workspace, b'm', place)
}

fn encode(ids: &[ContactId]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(1 + ids.len() * ID_BYTES);
    bytes.push(VERSION);
    ids.iter().for_each(|id| bytes.extend_from_slice(id.as_bytes()));
    bytes
}

fn decode(bytes: &[u8]) -> Result<Vec<ContactId>, StoreError> {
    let damaged = || StoreError::Damaged("ids of merged contacts".into());
    let (version, ids) = bytes.split_first().ok_or_else(damaged)?;
    let (ids, rest) = ids.as_chunks::<ID_BYTES>();
    if *version != VERSION || !rest.is_empty() {
        return Err(damaged());
    }
    Ok(ids.iter().map(|id| ContactId::from_bytes(*id)).collect())
}

/// Returns the contact that has taken over the one with this id, by the record of its place.
pub(crate) fn survivor(
    record: Option<Vec<u8>>,
    id: ContactId,
) -> Result<Option<ContactId>, StoreError> {
    let ids = record.map(|bytes| decode(&bytes)).transpose()?.unwrap_or_default();
    Ok(match ids[..] {
        [merged, survivor] if merged == id => Some(survivor),
        _ => None,
    })
}

/// Returns the contact with the id, or the one that it was merged into, if there is one.
pub(crate) fn read_contact(
    store: &dyn View,
    workspace: &WorkspaceId,
    id: ContactId,
) -> Result<Option<Contact>, StoreError> {
    let found = read_at(store, workspace, place_of(id))?.filter(|contact| contact.id == id);
    if found.is_some() {
        return Ok(found);
    }
    let merged = store.get(Table::Contacts, &merged_key(workspace, place_of(id)))?;
    let Some(id) = survivor(merged, id)? else { return Ok(None) };
    Ok(read_at(store, workspace, place_of(id))?.filter(|contact| contact.id == id))
}

/// Returns the ids of the contacts that were merged into the one at a place.
pub(crate) fn merged_ids(context: &Context<'_>, place: u64) -> Result<Vec<ContactId>, Unavailable> {
    let list = context.get(Table::Contacts, &list_key(&context.core.id, place))?;
    Ok(list.map(|bytes| decode(&bytes)).transpose().map_err(unreadable)?.unwrap_or_default())
}

/// Reads the records for a command that changes or merges the contact at a place.
///
/// # Errors
/// [`StoreError`]: the store cannot be read.
pub(crate) fn read_ahead(
    reader: &mut Reader<'_>,
    workspace: &WorkspaceId,
    place: u64,
) -> Result<(), StoreError> {
    reader.get(Table::Contacts, list_key(workspace, place))?;
    index::read_ahead(reader, workspace, place)
}

/// Returns a contact after it has taken over another one, with these names of the channel.
///
/// Its fields win, it gets the tags of both, and the other contact fills its empty fields.
pub(crate) fn combined(
    survivor: &Contact,
    other: &Contact,
    names: PartyNames,
    now: Timestamp,
) -> Contact {
    let mut tags: Vec<&str> = survivor.tags.iter().collect();
    tags.extend(other.tags.iter().filter(|tag| !survivor.tags.iter().any(|own| own == *tag)));
    tags.truncate(TAGS_MAX);
    let mut fields = other.custom_fields.to_value();
    if let (Some(fields), Some(own)) =
        (fields.as_object_mut(), survivor.custom_fields.to_value().as_object())
    {
        fields.extend(own.clone());
    }
    let PartyNames { phone, user_id } = names;
    // The phone stays in the form that a contact has.
    let phone =
        [survivor.phone, other.phone].into_iter().find(|own| *own == phone).unwrap_or(phone);
    // The ids of the survivor come last: these stay where there are too many.
    let former =
        [other, survivor].into_iter().flat_map(|it| it.former_ids.iter().chain(&it.user_id));
    Contact {
        phone,
        former_ids: former_ids(former.cloned(), user_id.as_ref()),
        user_id,
        username: survivor.username.clone().or_else(|| other.username.clone()),
        renamed_at: survivor.renamed_at.max(other.renamed_at),
        email: survivor.email.clone().or_else(|| other.email.clone()),
        tags: Tags::new(tags.iter()).unwrap_or_else(|_| survivor.tags.clone()),
        // Both together may be too many.
        custom_fields: CustomFields::new(&fields)
            .unwrap_or_else(|_| survivor.custom_fields.clone()),
        updated_at: now,
        ..survivor.clone()
    }
}

/// Writes that a contact has taken over another one, and the contacts merged into it before.
///
/// The contact itself is already written.
pub(crate) fn take_over(
    context: &mut Context<'_>,
    survivor: &Contact,
    other: &Contact,
    (own, others): (Vec<ContactId>, Vec<ContactId>),
) {
    let workspace = context.core.id.clone();
    let moved: Vec<_> = others.into_iter().chain([other.id]).collect();
    for id in &moved {
        let key = merged_key(&workspace, place_of(*id));
        context.put(Table::Contacts, key, encode(&[*id, survivor.id]));
    }
    let all: Vec<_> = own.into_iter().chain(moved).collect();
    context.put(Table::Contacts, list_key(&workspace, survivor.place()), encode(&all));
    context.delete(Table::Contacts, list_key(&workspace, other.place()));
    context.delete(Table::Contacts, contact_key(&workspace, other.place()));
    if let Some(phone) = other.phone.filter(|phone| survivor.phone != Some(*phone)) {
        context.delete(Table::Contacts, phone_key(&workspace, phone));
    }
    for id in other.ids().filter(|id| !survivor.ids().any(|kept| kept == *id)) {
        context.delete(Table::Contacts, user_key(&workspace, id));
    }
}

/// Deletes the records of the contacts that were merged into a deleted contact.
pub(crate) fn forget_merged(context: &mut Context<'_>, place: u64, merged: &[ContactId]) {
    let workspace = context.core.id.clone();
    for id in merged {
        context.delete(Table::Contacts, merged_key(&workspace, place_of(*id)));
    }
    context.delete(Table::Contacts, list_key(&workspace, place));
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::contacts::golden::contact;
    use postrider_domain::golden::{AT, Sheet, UNIQUE};

    #[test]
    fn the_ids_of_merged_contacts_are_stored_as_ever() {
        let workspace: WorkspaceId = "acme".parse().unwrap();
        let [merged, stays] =
            [1, 2].map(|place| crate::contacts::record::contact_id(AT, place, UNIQUE));
        let mut sheet = Sheet::default();
        sheet.text("merged key", &merged_key(&workspace, 1));
        sheet.text("list key", &list_key(&workspace, 2));
        sheet.bytes("ids", &encode(&[merged, stays]));
        sheet.is(expect![[r#"
            merged key: acme\x00x\x00\x00\x00\x00\x00\x00\x00\x01
            list key: acme\x00m\x00\x00\x00\x00\x00\x00\x00\x02
            ids: 01018bcfe5687b0000000001060708090a018bcfe5687b0000000002060708090a
        "#]]);
        let record = || Some(encode(&[merged, stays]));
        assert_eq!(survivor(record(), merged), Ok(Some(stays)));
        assert_eq!(survivor(record(), stays), Ok(None));
        assert_eq!(survivor(None, merged), Ok(None));
        for damaged in [&[][..], &[2], &[VERSION, 7]] {
            assert!(decode(damaged).is_err(), "{damaged:?}");
        }
    }

    #[test]
    fn what_a_contact_lacks_comes_from_the_other() {
        let fields = |json| CustomFields::new(&json).unwrap();
        let tags = |tags: &[&str]| Tags::new(tags.iter()).unwrap();
        let survivor = Contact {
            email: None,
            tags: tags(&["vip", "b"]),
            custom_fields: fields(serde_json::json!({"plan": "gold"})),
            ..contact()
        };
        let other = Contact {
            name: postrider_domain::ContactName::new("Other").unwrap(),
            username: Some("ann".into()),
            tags: tags(&["b", "c"]),
            custom_fields: fields(serde_json::json!({"plan": "free", "age": 3})),
            ..contact()
        };
        let names = PartyNames { phone: survivor.phone, user_id: "US.1".parse().ok() };
        let merged = combined(&survivor, &other, names.clone(), AT);
        assert_eq!((merged.phone, &merged.user_id), (names.phone, &names.user_id));
        assert_eq!((&merged.name, &merged.email), (&survivor.name, &other.email));
        assert_eq!(merged.tags, tags(&["vip", "b", "c"]));
        assert_eq!(merged.custom_fields.to_value(), serde_json::json!({"plan": "gold", "age": 3}));
        let many: Vec<_> = (0..TAGS_MAX).map(|number| number.to_string()).collect();
        let full = Contact { tags: Tags::new(many.iter()).unwrap(), ..survivor };
        assert_eq!(combined(&full, &other, names, AT).tags, full.tags);
    }
}
