//! A contact, and the records that hold it.
//!
//! All are in [`Table::Contacts`] under `workspace ‖ 0 ‖ kind`:
//! - `c ‖ place` holds the contact as JSON;
//! - `p ‖ phone` and `u ‖ user id` hold the place of the contact that has the phone or id, or had
//!   the id;
//! - `n` holds the next free place.
//!
//! Places are numbers that count up in the order in which contacts are created. No place is used
//! again.

use postrider_store::view::codec;
use serde::{Deserialize, Serialize};

use postrider_domain::event::contact::ContactData;
use postrider_domain::{
    ContactId, ContactName, CustomFields, Email, PartyId, PartyNames, Phone, Tags, Timestamp,
    UserId, WorkspaceId,
};
use postrider_store::{StoreError, Table, View};

use crate::core::view::Reader;

/// The bits of an identifier that are the contact's place.
const PLACE_BITS: u32 = 40;

/// The maximum number of former ids that a contact keeps.
pub(crate) const FORMER_IDS_MAX: usize = 8;

/// A contact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contact {
    /// The id that names the contact in every call.
    pub id: ContactId,
    /// The name.
    pub name: ContactName,
    /// Its phone, as it was written; no other contact of the workspace has the same in any form.
    pub phone: Option<Phone>,
    /// The channel's id of the person; no other contact of the workspace has the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<UserId>,
    /// Ids that the channel gave the person before, or gives it elsewhere, the last one last.
    ///
    /// A message that arrives under one of them is the contact's too. No other contact of the
    /// workspace has the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub former_ids: Vec<UserId>,
    /// The name that the person has chosen on the channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<Box<str>>,
    /// The time of the channel's last report that the person has other names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renamed_at: Option<Timestamp>,
    /// Its address.
    pub email: Option<Email>,
    /// Its tags.
    pub tags: Tags,
    /// Any other data about the contact.
    pub custom_fields: CustomFields,
    /// The time of creation.
    pub created_at: Timestamp,
    /// The time of the last change.
    pub updated_at: Timestamp,
}

/// The data of a contact to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewContact {
    /// The name.
    pub name: ContactName,
    /// Its phone, which no other contact may have.
    pub phone: Option<Phone>,
    /// Its address.
    pub email: Option<Email>,
    /// Its tags.
    pub tags: Tags,
    /// Any other data about the contact.
    pub custom_fields: CustomFields,
}

/// A change of a contact; `None` leaves a field as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContactChange {
    /// The new name.
    pub name: ContactName,
    /// Its phone; `Some(None)` removes it.
    pub phone: Option<Option<Phone>>,
    /// Its address; `Some(None)` removes it.
    pub email: Option<Option<Email>>,
    /// Its tags.
    pub tags: Option<Tags>,
    /// All of its custom fields.
    pub custom_fields: Option<CustomFields>,
}

impl NewContact {
    /// Returns the maximum bytes of the contact's event: JSON may need six for one.
    pub(crate) fn event_bytes_max(&self) -> usize {
        const FRAME: usize = 400;
        let tags = self.tags.iter().map(|tag| tag.len() * 6 + 3).sum::<usize>();
        let email = self.email.as_ref().map_or(0, |email| email.as_str().len());
        FRAME + self.name.as_str().len() * 6 + tags + email + self.custom_fields.as_json().len()
    }
}

impl ContactChange {
    /// Returns the change that sets all fields of a new contact.
    pub(crate) fn to(new: &NewContact) -> Self {
        let NewContact { name, phone, email, tags, custom_fields } = new.clone();
        let (tags, custom_fields) = (Some(tags), Some(custom_fields));
        Self { name, phone: Some(phone), email: Some(email), tags, custom_fields }
    }

    /// Returns the contact after the change.
    pub(crate) fn applied(self, old: &Contact, now: Timestamp) -> Contact {
        let Self { name, phone, email, tags, custom_fields } = self;
        Contact {
            id: old.id,
            name,
            phone: phone.unwrap_or(old.phone),
            user_id: old.user_id.clone(),
            former_ids: old.former_ids.clone(),
            username: old.username.clone(),
            renamed_at: old.renamed_at,
            email: email.unwrap_or_else(|| old.email.clone()),
            tags: tags.unwrap_or_else(|| old.tags.clone()),
            custom_fields: custom_fields.unwrap_or_else(|| old.custom_fields.clone()),
            created_at: old.created_at,
            updated_at: now,
        }
    }
}

impl Contact {
    /// Returns the payload of events about the contact.
    pub(crate) fn event_data(&self) -> ContactData {
        ContactData {
            contact_id: self.id,
            name: self.name.clone(),
            phone: self.phone,
            user_id: self.user_id.clone(),
            username: self.username.clone(),
            previous_phone: None,
            previous_user_id: None,
            email: self.email.clone(),
            tags: self.tags.clone(),
            custom_fields: self.custom_fields.to_value(),
            created_at: self.created_at,
            updated_at: self.updated_at,
        }
    }

    /// Returns the names by which the channel knows the person.
    pub(crate) fn names(&self) -> PartyNames {
        PartyNames { phone: self.phone, user_id: self.user_id.clone() }
    }

    /// Returns the channel's ids of the person: the current one, then the former ones.
    pub(crate) fn ids(&self) -> impl Iterator<Item = &UserId> {
        self.user_id.iter().chain(&self.former_ids)
    }

    /// Returns all names of the person, a phone first.
    pub(crate) fn parties(&self) -> Vec<PartyId> {
        let ids = self.ids().cloned().map(PartyId::from);
        self.phone.map(PartyId::from).into_iter().chain(ids).collect()
    }

    /// Returns the same contact with these names.
    ///
    /// Its previous id becomes a former one; a bounded number of them is kept. An unchanged phone
    /// stays in its form.
    pub(crate) fn named(&self, names: PartyNames, now: Timestamp) -> Self {
        let PartyNames { phone, user_id } = names;
        let phone = if phone == self.phone { self.phone } else { phone };
        let ids = self.former_ids.iter().chain(&self.user_id).cloned();
        let former_ids = former_ids(ids, user_id.as_ref());
        Self { phone, user_id, former_ids, updated_at: now, ..self.clone() }
    }

    /// Returns the same contact, whose names the channel reported as changed at that moment.
    pub(crate) fn renamed(self, at: Timestamp) -> Self {
        Self { renamed_at: self.renamed_at.max(Some(at)), ..self }
    }

    pub(crate) fn place(&self) -> u64 {
        place_of(self.id)
    }
}

/// Returns the last of these ids, each once and without the current one.
pub(crate) fn former_ids(ids: impl Iterator<Item = UserId>, now: Option<&UserId>) -> Vec<UserId> {
    let mut former: Vec<UserId> = Vec::new();
    for id in ids.filter(|id| now != Some(id)) {
        former.retain(|known| *known != id);
        former.push(id);
    }
    former.drain(..former.len().saturating_sub(FORMER_IDS_MAX));
    former
}

/// Returns the identifier of the contact at `place`. Those of one millisecond sort by place.
pub(crate) fn contact_id(at: Timestamp, place: u64, unique: u128) -> ContactId {
    let place = u128::from(place) << PLACE_BITS;
    ContactId::from_parts(at, place | unique & ((1 << PLACE_BITS) - 1))
}

/// Returns the place in an identifier.
///
/// The caller must check that the contact there has this identifier.
pub(crate) fn place_of(id: ContactId) -> u64 {
    let [_, _, _, _, _, _, a, b, c, d, e, ..] = *id.as_bytes();
    u64::from_be_bytes([0, 0, 0, a, b, c, d, e])
}

/// Returns `workspace ‖ 0 ‖ kind`, followed by a number.
pub(crate) fn key(workspace: &WorkspaceId, kind: u8, number: u64) -> Vec<u8> {
    [prefix(workspace, kind).as_slice(), &number.to_be_bytes()].concat()
}

/// Returns the prefix of the keys of a kind.
pub(crate) fn prefix(workspace: &WorkspaceId, kind: u8) -> Vec<u8> {
    [workspace.as_str().as_bytes(), &[0, kind]].concat()
}

/// Returns the number at the end of a key.
pub(crate) fn number_of(key: &[u8]) -> Result<u64, StoreError> {
    let number = key.last_chunk().map(|number| u64::from_be_bytes(*number));
    number.ok_or_else(|| StoreError::Damaged("a contact's key has no number".into()))
}

pub(crate) fn contact_key(workspace: &WorkspaceId, place: u64) -> Vec<u8> {
    key(workspace, b'c', place)
}

pub(crate) fn phone_key(workspace: &WorkspaceId, phone: Phone) -> Vec<u8> {
    [prefix(workspace, b'p').as_slice(), &phone.key_bytes()].concat()
}

pub(crate) fn user_key(workspace: &WorkspaceId, id: &UserId) -> Vec<u8> {
    [prefix(workspace, b'u').as_slice(), id.as_str().as_bytes()].concat()
}

pub(crate) fn next_key(workspace: &WorkspaceId) -> Vec<u8> {
    prefix(workspace, b'n')
}

/// Returns the contact at a place, if there is one.
pub(crate) fn read_at(
    store: &dyn View,
    workspace: &WorkspaceId,
    place: u64,
) -> Result<Option<Contact>, StoreError> {
    let found = store.get(Table::Contacts, &contact_key(workspace, place))?;
    found.map(|json| codec::decode(&json)).transpose()
}

/// Returns the key of the place of the contact that has this name.
fn holder_key(workspace: &WorkspaceId, name: &PartyId) -> Vec<u8> {
    match name {
        PartyId::Phone(phone) => phone_key(workspace, *phone),
        PartyId::User(id) => user_key(workspace, id),
    }
}

/// Returns the contact of a party, if there is one.
pub(crate) fn read_holder(
    store: &dyn View,
    workspace: &WorkspaceId,
    name: &PartyId,
) -> Result<Option<Contact>, StoreError> {
    let Some(place) = store.get(Table::Contacts, &holder_key(workspace, name))? else {
        return Ok(None);
    };
    read_at(store, workspace, number_of(&place)?)
}

/// Reads the contact of a party for a command.
///
/// # Errors
/// [`StoreError`]: the store or a record cannot be read.
pub(crate) fn read_holder_ahead(
    reader: &mut Reader<'_>,
    workspace: &WorkspaceId,
    name: &PartyId,
) -> Result<Option<Contact>, StoreError> {
    let key = holder_key(workspace, name);
    let Some(place) = reader.get(Table::Contacts, key)? else { return Ok(None) };
    let json = reader.get(Table::Contacts, contact_key(workspace, number_of(&place)?))?;
    json.map(|json| codec::decode(&json)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_have_the_place_and_sort_by_it() {
        let at = Timestamp::from_millis(1_700_000_000_000);
        let ids: Vec<_> = [0, 1, 255, 256, 1 << 39]
            .into_iter()
            .map(|place| (place, contact_id(at, place, u128::MAX >> (place % 7))))
            .collect();
        assert!(ids.is_sorted_by_key(|(_, id)| *id));
        for (place, id) in ids {
            assert_eq!(place_of(id), place);
            assert_eq!(id.timestamp(), at);
        }
    }
}
