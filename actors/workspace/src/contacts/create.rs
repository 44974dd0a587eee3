//! Creating contacts, one or many.

use std::sync::Arc;
use std::time::Duration;

use crate::Workspace;
use crate::core::command::{Command, Context, Footprint};
use crate::creation_limit::Creations;
use crate::idempotency::{IdempotencyKey, Idempotent, IdempotentError, Replayable};
use postrider_domain::unavailable::{Unavailable, UnavailableReason};
use postrider_domain::{EventData, PartyId, Phone, UserId};
use postrider_runtime::clock::Clock;
use postrider_runtime::random;
use postrider_store::Table;

use crate::contacts::created::CreatedContact;
use crate::contacts::known_names;
use crate::contacts::record;
use crate::contacts::record::{Contact, NewContact};
use crate::contacts::{emit, index};

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

/// Returns the place of the contact that has the phone.
pub(crate) fn phone_holder(
    context: &Context<'_>,
    phone: Option<Phone>,
) -> Result<Option<u64>, Unavailable> {
    let Some(phone) = phone else { return Ok(None) };
    number(context, &record::phone_key(&context.core.id, phone))
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
        PartyId::User(id) => number(context, &record::user_key(&context.core.id, id)),
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

/// Creates a contact whose phone no other contact has.
pub(crate) fn create(
    context: &mut Context<'_>,
    new: NewContact,
    unique: u128,
) -> Result<Contact, Unavailable> {
    create_known(context, new, ChannelNames::default(), unique)
}

/// The channel's names of a person, besides the phone.
#[derive(Debug, Default)]
pub(crate) struct ChannelNames {
    pub(crate) user_id: Option<UserId>,
    pub(crate) username: Option<Box<str>>,
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
    let place = number(context, &next)?.unwrap_or(0);
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

/// Reads a record that is a number.
fn number(context: &Context<'_>, key: &[u8]) -> Result<Option<u64>, Unavailable> {
    let Some(value) = context.get(Table::Contacts, key)? else { return Ok(None) };
    let number = value.try_into().map(u64::from_be_bytes);
    number.map(Some).map_err(|_| {
        tracing::error!("a number beside the contacts cannot be read");
        Unavailable::because(UnavailableReason::Storage)
    })
}
