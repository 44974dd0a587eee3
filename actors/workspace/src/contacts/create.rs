//! Writes contacts: created ones and changed ones, and finds them by their names and ids.

use std::sync::Arc;
use std::time::Duration;

use postrider_domain::event::contact::ContactData;
use postrider_domain::unavailable::{Unavailable, UnavailableReason};
use postrider_domain::{
    ContactId, ContactName, CustomFields, Email, EventData, PartyId, Phone, Tags, Timestamp, UserId,
};
use postrider_runtime::clock::Clock;
use postrider_runtime::random;
use postrider_store::Table;
use serde::{Deserialize, Serialize};

use crate::Workspace;
use crate::contacts::record::{Contact, NewContact};
use crate::contacts::{emit, index, known_names, merge, record};
use crate::core::command::{Command, Context, Footprint};
use crate::core::view::unreadable;
use crate::creation_limit::Creations;
use crate::idempotency::{IdempotencyKey, Idempotent, IdempotentError, Replayable};

/// The reason why a contact was not created.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CreateContactError {
    /// Another contact has the phone.
    #[error("another contact has this phone")]
    PhoneTaken,
    /// The workspace has created the maximum number of contacts in a minute.
    #[error("too many contacts were made in this workspace")]
    RateLimited {
        /// The time until the next one is allowed.
        retry_after: Duration,
    },
    /// The workspace cannot accept the request now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl Workspace {
    /// Creates a contact, once for each idempotency key if there is one.
    ///
    /// # Errors
    /// [`CreateContactError`]: the phone is taken, a limit is reached, or the workspace is
    /// unavailable. [`IdempotentError`]: the key was used for another request.
    pub async fn create_contact(
        &self,
        new: NewContact,
        key: Option<IdempotencyKey>,
    ) -> Result<Replayable<Contact>, IdempotentError<CreateContactError>> {
        let command = CreateContact { new, unique: random::unique(), limit: self.creation_limit() };
        let Replayable { answer, replayed } = self.perform(Idempotent { key, command }).await?;
        Ok(Replayable { answer: answer.into(), replayed })
    }

    pub(super) fn creation_limit(&self) -> Limit {
        let shared = &self.shared;
        Limit { creations: Arc::clone(&shared.creations), clock: shared.clock.clone() }
    }
}

/// The limit of contacts that are created in a minute.
pub(super) struct Limit {
    creations: Arc<Creations>,
    clock: Clock,
}

impl Limit {
    pub(super) fn take(&self, context: &Context<'_>) -> Result<(), CreateContactError> {
        let limit = context.core.rules.limits.contacts_per_minute;
        let taken = self.creations.take(&context.core.id, limit, &self.clock);
        taken.map_err(|retry_after| CreateContactError::RateLimited { retry_after })
    }
}

/// Creates a contact.
struct CreateContact {
    new: NewContact,
    unique: u128,
    limit: Limit,
}

impl Command for CreateContact {
    type Answer = CreatedContact;
    type Error = CreateContactError;

    const FOOTPRINT: Footprint = Footprint::Grows;

    fn carry_out(self, context: &mut Context<'_>) -> Result<CreatedContact, CreateContactError> {
        if phone_holder(context, self.new.phone)?.is_some() {
            return Err(CreateContactError::PhoneTaken);
        }
        self.limit.take(context)?;
        Ok(create(context, self.new, self.unique)?.into())
    }
}

/// A contact as it is kept for a repeated request that created it.
///
/// Kept answers are in postcard's format, which has no names of fields: no field may be added. The
/// fields that only the channel sets are absent, since no request creates a contact with them.
#[derive(Serialize, Deserialize)]
pub(crate) struct CreatedContact {
    id: ContactId,
    name: ContactName,
    phone: Option<Phone>,
    email: Option<Email>,
    tags: Tags,
    custom_fields: CustomFields,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl From<Contact> for CreatedContact {
    fn from(contact: Contact) -> Self {
        let Contact { id, name, phone, email, tags, custom_fields, .. } = contact;
        let (created_at, updated_at) = (contact.created_at, contact.updated_at);
        Self { id, name, phone, email, tags, custom_fields, created_at, updated_at }
    }
}

impl From<CreatedContact> for Contact {
    fn from(created: CreatedContact) -> Self {
        let CreatedContact { id, name, phone, email, tags, custom_fields, .. } = created;
        let (created_at, updated_at) = (created.created_at, created.updated_at);
        let (user_id, username) = (None, None);
        Self {
            id,
            name,
            phone,
            user_id,
            former_ids: Vec::new(),
            username,
            renamed_at: None,
            email,
            tags,
            custom_fields,
            created_at,
            updated_at,
        }
    }
}

/// Returns the place of the contact that has the phone.
pub(crate) fn phone_holder(
    context: &Context<'_>,
    phone: Option<Phone>,
) -> Result<Option<u64>, Unavailable> {
    let Some(phone) = phone else { return Ok(None) };
    stored_number(context, &record::phone_key(&context.core.id, phone))
}

/// Returns the contact that has the phone.
pub(crate) fn holder(context: &Context<'_>, phone: Phone) -> Result<Option<Contact>, Unavailable> {
    let Some(place) = phone_holder(context, Some(phone))? else { return Ok(None) };
    context.get_json(Table::Contacts, &record::contact_key(&context.core.id, place))
}

/// Returns the contact that has the channel's id of a person.
pub(crate) fn user_holder(
    context: &Context<'_>,
    id: &UserId,
) -> Result<Option<Contact>, Unavailable> {
    let Some(place) = holders_place(context, &id.clone().into())? else { return Ok(None) };
    context.get_json(Table::Contacts, &record::contact_key(&context.core.id, place))
}

/// Returns the place of a party's contact.
pub(crate) fn holders_place(
    context: &Context<'_>,
    party: &PartyId,
) -> Result<Option<u64>, Unavailable> {
    match party {
        PartyId::Phone(phone) => phone_holder(context, Some(*phone)),
        PartyId::User(id) => stored_number(context, &record::user_key(&context.core.id, id)),
    }
}

/// Returns the names of the contact that has this name.
///
/// Without a contact they are the name itself and the phone that was reported together with an id.
pub(crate) fn parties_of(
    context: &Context<'_>,
    party: &PartyId,
) -> Result<Vec<PartyId>, Unavailable> {
    let mut parties = vec![party.clone()];
    if let Some(contact) = party_holder(context, party)? {
        let (own, others): (Vec<_>, Vec<_>) =
            contact.parties().into_iter().partition(|known| known == party);
        // The phone stays in the form that the contact has.
        parties = if own.is_empty() { parties } else { own };
        parties.extend(others);
    } else if let PartyId::User(id) = party
        && let Some((phone, _)) = known_names::phone_of(context, id)?
    {
        parties.push(phone.into());
    }
    Ok(parties)
}

/// Returns the contact of a party.
pub(crate) fn party_holder(
    context: &Context<'_>,
    party: &PartyId,
) -> Result<Option<Contact>, Unavailable> {
    match party {
        PartyId::Phone(phone) => holder(context, *phone),
        PartyId::User(id) => user_holder(context, id),
    }
}

/// Returns the contact with the id, or the one that it was merged into.
///
/// It includes the changes of earlier commands.
pub(crate) fn find_contact(
    context: &Context<'_>,
    id: ContactId,
) -> Result<Option<Contact>, Unavailable> {
    let found = find_own(context, id)?;
    if found.is_some() {
        return Ok(found);
    }
    let merged = merge::merged_key(&context.core.id, record::place_of(id));
    let merged = context.get(Table::Contacts, &merged)?;
    match merge::survivor(merged, id).map_err(unreadable)? {
        Some(survivor) => find_own(context, survivor),
        None => Ok(None),
    }
}

fn find_own(context: &Context<'_>, id: ContactId) -> Result<Option<Contact>, Unavailable> {
    let key = record::contact_key(&context.core.id, record::place_of(id));
    let found: Option<Contact> = context.get_json(Table::Contacts, &key)?;
    Ok(found.filter(|contact| contact.id == id))
}

/// The channel's names of a person, besides the phone.
#[derive(Debug, Default)]
pub(crate) struct ChannelNames {
    pub(crate) user_id: Option<UserId>,
    pub(crate) username: Option<Box<str>>,
}

/// Creates a contact whose phone no other contact has.
pub(crate) fn create(
    context: &mut Context<'_>,
    new: NewContact,
    unique: u128,
) -> Result<Contact, Unavailable> {
    create_known(context, new, ChannelNames::default(), unique)
}

/// Creates a contact with these names of the channel. No other contact has the phone or the id.
pub(crate) fn create_known(
    context: &mut Context<'_>,
    new: NewContact,
    ids: ChannelNames,
    unique: u128,
) -> Result<Contact, Unavailable> {
    let now = context.now();
    let next = record::next_key(&context.core.id);
    let place = stored_number(context, &next)?.unwrap_or(0);
    let NewContact { name, phone, email, tags, custom_fields } = new;
    let contact = Contact {
        id: record::contact_id(now, place, unique),
        name,
        phone,
        user_id: ids.user_id,
        former_ids: Vec::new(),
        username: ids.username,
        renamed_at: None,
        email,
        tags,
        custom_fields,
        created_at: now,
        updated_at: now,
    };
    index::update(context, place, Some(&contact))?;
    context.put(Table::Contacts, next, (place + 1).to_be_bytes().to_vec());
    if let Some(phone) = phone {
        let key = record::phone_key(&context.core.id, phone);
        context.put(Table::Contacts, key, place.to_be_bytes().to_vec());
    }
    if let Some(id) = &contact.user_id {
        let key = record::user_key(&context.core.id, id);
        context.put(Table::Contacts, key, place.to_be_bytes().to_vec());
    }
    context.put_json(Table::Contacts, record::contact_key(&context.core.id, place), &contact);
    emit(context, EventData::ContactCreated, &contact);
    Ok(contact)
}

/// Writes a contact after a change, and emits its event.
///
/// The caller has checked that no other contact has its phone or id.
pub(crate) fn put_changed(
    context: &mut Context<'_>,
    old: &Contact,
    new: &Contact,
) -> Result<(), Unavailable> {
    let place = new.place();
    index::update(context, place, Some(new))?;
    let moves = new.phone != old.phone;
    if moves {
        if let Some(phone) = old.phone {
            context.delete(Table::Contacts, record::phone_key(&context.core.id, phone));
        }
        if let Some(phone) = new.phone {
            let key = record::phone_key(&context.core.id, phone);
            context.put(Table::Contacts, key, place.to_be_bytes().to_vec());
        }
    }
    for id in old.ids().filter(|id| !new.ids().any(|kept| kept == *id)) {
        context.delete(Table::Contacts, record::user_key(&context.core.id, id));
    }
    for id in new.ids().filter(|id| !old.ids().any(|known| known == *id)) {
        let key = record::user_key(&context.core.id, id);
        context.put(Table::Contacts, key, place.to_be_bytes().to_vec());
    }
    context.put_json(Table::Contacts, record::contact_key(&context.core.id, place), new);
    let previous_phone = old.phone.filter(|_| moves);
    let previous_user_id = old.user_id.clone().filter(|_| new.user_id != old.user_id);
    let data = ContactData { previous_phone, previous_user_id, ..new.event_data() };
    context.effects.emit(context.now(), EventData::ContactUpdated(data));
    Ok(())
}

/// Reads a record that is a number.
fn stored_number(context: &Context<'_>, key: &[u8]) -> Result<Option<u64>, Unavailable> {
    let Some(value) = context.get(Table::Contacts, key)? else { return Ok(None) };
    let number = value.try_into().map(u64::from_be_bytes);
    number.map(Some).map_err(|_| {
        tracing::error!("a number beside the contacts cannot be read");
        Unavailable::because(UnavailableReason::Storage)
    })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::contacts::golden::contact;
    use postrider_domain::golden::Sheet;

    #[test]
    fn it_is_stored_as_contacts_were_before_they_had_more_fields() {
        let mut bytes = Vec::new();
        postrider_domain::event::encode(&CreatedContact::from(contact()), &mut bytes);
        let mut sheet = Sheet::default();
        sheet.bytes("created", &bytes);
        sheet.is(expect![[r#"
            created:
                10018bcfe5687b0000000102060708090a08c3816e6e20c5907a01c09bf0f639010f416e6e404578
                616d706c652e636f6d020376697002c3a93c7b22616765223a34312c226c697374223a5b3130302e
                302c2278222c6e756c6c5d2c22706c616e223a22676f6c64222c2273756d223a3130302e307dfbd0
                95ffbc31fbd095ffbc31
        "#]]);
        let read: CreatedContact = postcard::from_bytes(&bytes).unwrap();
        assert_eq!(Contact::from(read), contact());
    }
}
