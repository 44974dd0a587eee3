//! Merges the contacts of one person, once the channel names their phone and id together.
//!
//! Both names then belong to one contact. An opt-out or an open window of one of them holds for the
//! other, also where the provider has another name for a phone.

use postrider_domain::event::contact::ContactMergedData;
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{EventData, NumberId, PartyId, PartyNames, Phone, Timestamp, UserId};

use crate::contacts::identity::{hand_over, is_outdated, is_proven, put_names, without_strangers};
use crate::contacts::{
    Contact, MERGED_MAX, holder, holders_place, known_names, phone_aliases, put_changed,
    user_holder,
};
use crate::core::command::Context;
use crate::messages::service_window;
use crate::{contacts, conversations, suppressions};

/// Stores that the phone and the id are one person's, as a report, response or choice says.
///
/// It may be old, so it changes no id that is known, and takes none from a contact with another
/// phone. It restores no contact that was deleted since and no name that was changed since. A
/// response is that to a message of `at`.
pub(crate) fn learn(
    context: &mut Context<'_>,
    phone: Phone,
    id: &UserId,
    at: Timestamp,
) -> Result<(), Unavailable> {
    let phone = phone_aliases::writer(context, phone)?.phone;
    let of_phone = holders_place(context, &phone.into())?;
    let of_id = holders_place(context, &id.clone().into())?;
    if (of_phone == of_id && is_proven(context, phone, id)?) || is_outdated(context, phone, id, at)?
    {
        return Ok(());
    }
    let is_news = known_names::remember(context, phone, id, at)?;
    if of_phone == of_id {
        let is_nobodys = of_phone.is_none();
        return if is_nobodys && is_news { unite(context, phone, id) } else { Ok(()) };
    }
    if holder(context, phone)?.is_some_and(|contact| contact.user_id.is_some())
        || user_holder(context, id)?.is_some_and(|contact| contact.phone.is_some())
    {
        return Ok(());
    }
    bind(context, phone, id).map(drop)
}

/// Stores that the provider knows `phone` as `known_as`, by a message through `number` at `at`.
///
/// If the person has already written, the effects of that hold for the phone too.
pub(crate) fn learn_alias(
    context: &mut Context<'_>,
    number: NumberId,
    phone: Phone,
    known_as: Phone,
    at: Timestamp,
) -> Result<(), Unavailable> {
    let before = phone_aliases::written_to(context, known_as)?;
    if phone == known_as || before == Some(phone) {
        return Ok(());
    }
    let deleted = phone_aliases::deleted_at(context, &phone.into())?;
    if deleted.max(phone_aliases::deleted_at(context, &known_as.into())?) >= at {
        return Ok(());
    }
    suppressions::follow(context, &phone.into(), &known_as.into())?;
    if let Some(at) = service_window::last(context, number, &known_as.into())? {
        service_window::open(context, number, &phone.into(), at)?;
    }
    phone_aliases::put(context, phone, known_as, before);
    Ok(())
}

/// Merges the contact with the phone and the one with the id, and returns the result.
///
/// Returns `None` if no contact has either name. Its previous id stays with it as a former one.
pub(super) fn bind(
    context: &mut Context<'_>,
    phone: Phone,
    id: &UserId,
) -> Result<Option<Contact>, Unavailable> {
    let names = PartyNames { phone: Some(phone), user_id: Some(id.clone()) };
    let (by_phone, by_id) = (without_strangers(context, phone, id)?, user_holder(context, id)?);
    match (by_phone, by_id) {
        (Some(contact), Some(other)) if contact.id == other.id => Ok(Some(contact)),
        // It has another phone, and no report says that it is not its own.
        (None, Some(contact)) if contact.phone.is_some() => Ok(Some(contact)),
        (by_phone, by_id) => {
            // This comes first, so that it is not left out if the rest fails.
            unite(context, phone, id)?;
            match (by_phone, by_id) {
                (None, None) => Ok(None),
                (Some(contact), None) => put_names(context, &contact, names).map(Some),
                (None, Some(contact)) => {
                    let names = PartyNames { phone: Some(phone), ..contact.names() };
                    put_names(context, &contact, names).map(Some)
                }
                (Some(contact), Some(other)) if other.phone.is_none() => {
                    let user_id = other.user_id.clone().or(names.user_id);
                    let names = PartyNames { user_id, ..names };
                    merge(context, &contact, &other, names).map(Some)
                }
                (Some(contact), Some(other)) => {
                    hand_over(context, &contact, &other, names).map(Some)
                }
            }
        }
    }
}

/// Merges two contacts into the first, which gets these names.
///
/// Each name that a contact has belongs to one of the two. The id of the second names the first
/// from then on. If too many contacts were already merged into one, the names are handed over, and
/// both contacts stay.
pub(super) fn merge(
    context: &mut Context<'_>,
    survivor: &Contact,
    other: &Contact,
    names: PartyNames,
) -> Result<Contact, Unavailable> {
    let merged = [survivor, other].map(|contact| contacts::merged_ids(context, contact.place()));
    let [own, others] = merged;
    let (own, others) = (own?, others?);
    if own.len() + others.len() >= MERGED_MAX {
        return hand_over(context, survivor, other, names);
    }
    let [of_own, of_other] =
        [survivor, other].map(|contact| conversations::all_of(context, contact.place()));
    let conversations = (of_own?, of_other?);
    // Steps that can fail come before those that could not be repeated.
    contacts::index::update(context, other.place(), None)?;
    let contact = contacts::combined(survivor, other, names, context.now());
    put_changed(context, survivor, &contact)?;
    contacts::take_over(context, &contact, other, (own, others));
    conversations::take_over(context, (contact.id, other.id), conversations);
    let data = ContactMergedData { contact_id: contact.id, merged_contact_id: other.id };
    context.effects.emit(context.now(), EventData::ContactMerged(data));
    Ok(contact)
}

/// Makes opt-outs and windows of the phone and the id hold for both: they are one person's.
fn unite(context: &mut Context<'_>, phone: Phone, id: &UserId) -> Result<(), Unavailable> {
    let (user, phone) = (PartyId::User(id.clone()), PartyId::Phone(phone));
    let numbers: Vec<NumberId> = context.connected.iter().map(|number| number.id).collect();
    suppressions::share(context, &user, &phone)?;
    for (one, other) in [(&user, &phone), (&phone, &user)] {
        for number in &numbers {
            if let Some(at) = service_window::last(context, *number, other)? {
                service_window::open(context, *number, one, at)?;
            }
        }
    }
    Ok(())
}
