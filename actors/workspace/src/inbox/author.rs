//! Finds out who has written, by phone and by the channel's id.

use postrider_channel::callback::Inbound;
use postrider_domain::contact::NAME_CHARS_MAX;
use postrider_domain::{ContactName, CustomFields, PartyId, Phone, Tags};

use crate::contacts::{
    ChannelNames, Contact, NewContact, create_known, holder, put_changed, user_holder,
};
use crate::core::command::Context;
use crate::inbox::{identity, phone_aliases};
use postrider_domain::unavailable::Unavailable;

/// Somebody who writes.
pub(super) struct Author {
    pub(super) contact: Contact,
    /// The phone that the workspace knows them by, if it knows one.
    pub(super) phone: Option<Phone>,
    /// Everything by which they are known, an id last.
    pub(super) parties: Vec<PartyId>,
}

/// Who wrote a message. Makes the contact if nobody has the phone or the id; `None` if the message
/// names neither.
pub(super) fn of(
    context: &mut Context<'_>,
    inbound: &Inbound,
    unique: u128,
) -> Result<Option<Author>, Unavailable> {
    let writer = inbound.from.map(|from| phone_aliases::writer(context, from)).transpose()?;
    let phone = writer.as_ref().map(|writer| writer.phone);
    let other = writer.and_then(|writer| writer.other);
    let found = match (phone, &inbound.user_id) {
        (Some(phone), Some(id)) => identity::bind(context, phone, id)?,
        (Some(phone), None) => holder(context, phone)?,
        (None, Some(id)) => user_holder(context, id)?,
        (None, None) => return Ok(None),
    };
    let contact = match found {
        Some(contact) => with_username(context, contact, inbound)?,
        None => {
            let Some(new) = stranger(inbound, phone) else { return Ok(None) };
            let (user_id, username) = (inbound.user_id.clone(), inbound.username.clone());
            create_known(context, new, ChannelNames { user_id, username }, unique)?
        }
    };
    let phone = phone.or(contact.phone);
    let own = contact.phone.filter(|own| phone != Some(*own));
    let phones = other.into_iter().chain(own).chain(phone).map(PartyId::from);
    let parties = phones.chain(contact.user_id.clone().map(PartyId::from)).collect();
    Ok(Some(Author { contact, phone, parties }))
}

/// What is known of somebody who writes for the first time; `None` if that is nothing.
fn stranger(inbound: &Inbound, phone: Option<Phone>) -> Option<NewContact> {
    let given = [inbound.name.as_deref(), inbound.username.as_deref()];
    let cut = |name: &str| name.chars().take(NAME_CHARS_MAX).collect::<String>();
    let name = given.into_iter().flatten().find_map(|name| ContactName::new(&cut(name)).ok());
    let name = name
        .or_else(|| phone.map(ContactName::of_phone))
        .or_else(|| inbound.user_id.as_ref().map(ContactName::of_user))?;
    let (tags, custom_fields) = (Tags::default(), CustomFields::default());
    Some(NewContact { name, phone, email: None, tags, custom_fields })
}

/// A contact learns the username that a message tells. Returns what it is then.
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
