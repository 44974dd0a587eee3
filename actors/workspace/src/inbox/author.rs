//! Identifies the writer of a message, by phone and by the channel's id.

use std::time::Duration;

use postrider_channel::callback::Inbound;
use postrider_domain::contact::NAME_CHARS_MAX;
use postrider_domain::{
    ContactName, CustomFields, PartyId, PartyNames, Phone, Tags, Timestamp, UserId,
};

use crate::contacts::{
    ChannelNames, Contact, NewContact, create_known, holder, holders_place, known_names,
    put_changed, user_holder,
};
use crate::core::command::Context;
use crate::inbox::{identity, phone_aliases};
use postrider_domain::unavailable::Unavailable;

/// The writer of a message.
pub(super) struct Author {
    pub(super) contact: Contact,
    /// The phone that the channel names or has bound to the id, if there is one.
    pub(super) phone: Option<Phone>,
    /// The names that the channel has proven for them, with each form of a phone.
    pub(super) proven: Vec<PartyId>,
    /// The names that they write by, an id last. A phone that only the contact has is included.
    pub(super) parties: Vec<PartyId>,
    /// Their other names: they opt out for these too.
    pub(super) others: Vec<PartyId>,
    /// The names for which a window opens.
    pub(super) windows: Vec<PartyId>,
}

impl Author {
    /// Returns the phones that are proven to be theirs, the one that they are known by first.
    pub(super) fn phones(&self) -> Vec<Phone> {
        let mut phones: Vec<_> = self.phone.into_iter().collect();
        phones.retain(|phone| self.proven.contains(&PartyId::from(*phone)));
        for phone in self.proven.iter().filter_map(PartyId::phone) {
            if !phones.contains(&phone) {
                phones.push(phone);
            }
        }
        phones
    }
}

/// Returns the writer of a message.
///
/// Creates the contact if no contact has the phone or the id. `None` if the message names neither.
pub(super) fn of(
    context: &mut Context<'_>,
    inbound: &Inbound,
    unique: u128,
) -> Result<Option<Author>, Unavailable> {
    let writer = inbound.from.map(|from| phone_aliases::writer(context, from)).transpose()?;
    let other = writer.as_ref().and_then(|writer| writer.other);
    let phone = writer.map(|writer| writer.phone);
    let written = PartyNames { phone, user_id: inbound.user_id.clone() };
    if let (Some(phone), Some(id)) = (phone, &written.user_id) {
        identity::prove(context, phone, id, inbound.at)?;
    }
    let names = names_now(context, written.clone(), inbound.at)?;
    let mut proven = identity::proven_names(context, &names.parties())?;
    if names.phone.is_some() && names.phone == phone {
        // The name that the channel has for the phone is proven, too.
        proven.extend(inbound.from.into_iter().chain(other).map(PartyId::from));
    }
    let phone = match (names.phone, &names.user_id) {
        (None, Some(id)) => proven_by(context, id)?,
        (phone, _) => phone,
    };
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
    // The contact may have the phone in another form, which is the one that is shown.
    let phone = if contact.phone == phone { contact.phone } else { phone };
    let own = contact.phone.filter(|own| phone != Some(*own));
    let phones = other.into_iter().chain(own).chain(phone).map(PartyId::from);
    let parties: Vec<_> = phones.chain(contact.user_id.clone().map(PartyId::from)).collect();
    let others = contact.parties().into_iter().filter(|name| !parties.contains(name)).collect();
    let mut windows = windows(context, &contact, (&written, &parties), inbound.at)?;
    // Anybody may write a phone into a contact: it was not the phone that this came from.
    windows.retain(|name| name.phone().is_none() || proven.contains(name));
    Ok(Some(Author { contact, phone, proven, parties, others, windows }))
}

/// Returns the names for which a message of that moment opens a window.
///
/// A message from before a change of names opens none for the new names, and the old ones no longer
/// have any.
fn windows(
    context: &Context<'_>,
    contact: &Contact,
    (written, parties): (&PartyNames, &[PartyId]),
    at: Timestamp,
) -> Result<Vec<PartyId>, Unavailable> {
    let (own, written) = (contact.names().parties(), written.parties());
    for name in written.iter().filter(|name| !own.contains(name)) {
        let changed = known_names::changed_to(context, name)?.map(|(_, changed)| changed);
        // Moments are reported in seconds: within the same second, the change came later.
        if changed.max(contact.renamed_at) >= Some(at) {
            return Ok(Vec::new());
        }
    }
    let is_before = contact.renamed_at.is_some_and(|renamed| at < renamed);
    let opens = |name: &&PartyId| !is_before || written.contains(name);
    Ok(parties.iter().filter(opens).cloned().collect())
}

/// Returns the phone of a message's writer, by which it may be a reply. Changes nothing.
pub(super) fn phone_of(
    context: &Context<'_>,
    inbound: &Inbound,
) -> Result<Option<Phone>, Unavailable> {
    let writer = inbound.from.map(|from| phone_aliases::writer(context, from)).transpose()?;
    let phone = writer.map(|writer| writer.phone);
    let written = PartyNames { phone, user_id: inbound.user_id.clone() };
    let names = names_now(context, written, inbound.at)?;
    match (names.phone, &names.user_id) {
        (None, Some(id)) => proven_by(context, id),
        (phone, _) => Ok(phone),
    }
}

/// Returns the phone that is proven for an id, in the form that the workspace knows.
fn proven_by(context: &Context<'_>, id: &UserId) -> Result<Option<Phone>, Unavailable> {
    let phone = known_names::proven_phone(context, id)?;
    let writer = phone.map(|phone| phone_aliases::writer(context, phone)).transpose()?;
    Ok(writer.map(|writer| writer.phone))
}

/// Returns the current names of a message's writer.
///
/// If a name has no contact, its changes after the message count. An id without a contact also
/// brings the phone that was reported with it.
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
        // Moments are reported in seconds: within the same second, the change came later.
        names = known_names::later(context, names, at.minus(Duration::from_millis(1)))?;
    }
    if let (None, Some(id)) = (names.phone, &names.user_id)
        && holders_place(context, &id.clone().into())?.is_none()
    {
        names.phone = proven_by(context, id)?;
    }
    Ok(names)
}

/// Returns the known data of somebody who writes for the first time; `None` if there is none.
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

/// Stores the username that a message reports. Returns the changed contact.
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
