//! Finds out who has written, by phone and by the channel's id.

use std::time::Duration;

use postrider_channel::callback::Inbound;
use postrider_domain::contact::NAME_CHARS_MAX;
use postrider_domain::{ContactName, CustomFields, PartyId, PartyNames, Phone, Tags, Timestamp};

use crate::contacts::{
    ChannelNames, Contact, NewContact, create_known, holder, holders_place, known_names,
    put_changed, user_holder,
};
use crate::core::command::Context;
use crate::inbox::{identity, phone_aliases};
use postrider_domain::unavailable::Unavailable;

/// Somebody who writes.
pub(super) struct Author {
    pub(super) contact: Contact,
    /// The phone that the workspace knows them by, if it knows one.
    pub(super) phone: Option<Phone>,
    /// The names that they write by, an id last.
    pub(super) parties: Vec<PartyId>,
    /// Names that they have besides: what they choose holds for these too.
    pub(super) others: Vec<PartyId>,
}

/// Who wrote a message. Makes the contact if nobody has the phone or the id; `None` if the message
/// names neither.
pub(super) fn of(
    context: &mut Context<'_>,
    inbound: &Inbound,
    unique: u128,
) -> Result<Option<Author>, Unavailable> {
    let writer = inbound.from.map(|from| phone_aliases::writer(context, from)).transpose()?;
    let other = writer.as_ref().and_then(|writer| writer.other);
    let phone = writer.map(|writer| writer.phone);
    let written = PartyNames { phone, user_id: inbound.user_id.clone() };
    let names = names_now(context, written, inbound.at)?;
    let found = match (names.phone, &names.user_id) {
        (Some(phone), Some(id)) => identity::bind(context, phone, id)?,
        (Some(phone), None) => holder(context, phone)?,
        (None, Some(id)) => user_holder(context, id)?,
        (None, None) => return Ok(None),
    };
    let contact = match found {
        Some(contact) => with_username(context, contact, inbound)?,
        None => {
            let Some(new) = stranger(inbound, &names) else { return Ok(None) };
            let (user_id, username) = (names.user_id, inbound.username.clone());
            create_known(context, new, ChannelNames { user_id, username }, unique)?
        }
    };
    let phone = names.phone.or(contact.phone);
    let own = contact.phone.filter(|own| phone != Some(*own));
    let phones = other.into_iter().chain(own).chain(phone).map(PartyId::from);
    let parties: Vec<_> = phones.chain(contact.user_id.clone().map(PartyId::from)).collect();
    let others = contact.parties().into_iter().filter(|name| !parties.contains(name)).collect();
    Ok(Some(Author { contact, phone, parties, others }))
}

/// The phone of who wrote a message, by which it may be a reply. Changes nothing.
pub(super) fn phone_of(
    context: &Context<'_>,
    inbound: &Inbound,
) -> Result<Option<Phone>, Unavailable> {
    let writer = inbound.from.map(|from| phone_aliases::writer(context, from)).transpose()?;
    let phone = writer.map(|writer| writer.phone);
    let written = PartyNames { phone, user_id: inbound.user_id.clone() };
    let names = names_now(context, written, inbound.at)?;
    match (names.phone, &names.user_id) {
        (None, Some(id)) => Ok(user_holder(context, id)?.and_then(|contact| contact.phone)),
        (phone, _) => Ok(phone),
    }
}

/// What the names of a message's writer are now. Where no contact has a name, it is looked whether
/// it was changed after the message was written, or an id was reported together with a phone.
fn names_now(
    context: &Context<'_>,
    mut names: PartyNames,
    at: Timestamp,
) -> Result<PartyNames, Unavailable> {
    let mut is_held = true;
    for name in names.parties() {
        is_held &= holders_place(context, &name)?.is_some();
    }
    if !is_held {
        // Moments are reported in seconds: of the same one, the change came later.
        names = known_names::later(context, names, at.minus(Duration::from_millis(1)))?;
    }
    if let (None, Some(id)) = (names.phone, &names.user_id)
        && holders_place(context, &id.clone().into())?.is_none()
        && let Some((phone, reported_at)) = known_names::phone_of(context, id)?
        && phone_aliases::deleted_at(context, &phone.into())? < reported_at
    {
        names.phone = Some(phone);
    }
    Ok(names)
}

/// What is known of somebody who writes for the first time; `None` if that is nothing.
fn stranger(inbound: &Inbound, names: &PartyNames) -> Option<NewContact> {
    let phone = names.phone;
    let given = [inbound.name.as_deref(), inbound.username.as_deref()];
    let cut = |name: &str| name.chars().take(NAME_CHARS_MAX).collect::<String>();
    let name = given.into_iter().flatten().find_map(|name| ContactName::new(&cut(name)).ok());
    let name = name
        .or_else(|| phone.map(ContactName::of_phone))
        .or_else(|| names.user_id.as_ref().map(ContactName::of_user))?;
    let (tags, custom_fields) = (Tags::default(), CustomFields::default());
    Some(NewContact { name, phone, email: None, tags, custom_fields })
}

/// A contact learns the username that a message reports. Returns what it is then.
fn with_username(
    context: &mut Context<'_>,
    contact: Contact,
    inbound: &Inbound,
) -> Result<Contact, Unavailable> {
    if inbound.username.is_none() || inbound.username == contact.username {
        return Ok(contact);
    }
    let (username, updated_at) = (inbound.username.clone(), context.now());
    let named = Contact { username, updated_at, ..contact.clone() };
    put_changed(context, &contact, &named)?;
    Ok(named)
}
