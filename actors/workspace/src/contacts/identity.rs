//! The identities of a contact: its phone, the channel's ids of the person, and their proofs.
//!
//! The channel proves which names belong to one person ([`known_names`]); a contact's phone can be
//! edited. A merge of two contacts touches other features too: `inbox/identity_merge.rs`.

use postrider_domain::unavailable::Unavailable;
use postrider_domain::{PartyId, PartyNames, Phone, Timestamp, UserId};

use crate::contacts::{Contact, holder, known_names, parties_of, phone_aliases, put_changed};
use crate::core::command::Context;

/// Stores that the channel named a phone and an id at a moment as one person's.
pub(crate) fn prove(
    context: &mut Context<'_>,
    phone: Phone,
    id: &UserId,
    at: Timestamp,
) -> Result<(), Unavailable> {
    let at = at.min(context.now());
    if is_proven(context, phone, id)? || is_outdated(context, phone, id, at)? {
        return Ok(());
    }
    known_names::remember(context, phone, id, at).map(drop)
}

/// Returns whether a phone is proven for an id.
pub(crate) fn is_proven(
    context: &Context<'_>,
    phone: Phone,
    id: &UserId,
) -> Result<bool, Unavailable> {
    Ok(known_names::proven_phone(context, id)? == Some(phone))
}

/// Returns whether the channel has named a phone with an id.
///
/// Another id may have been named with it since: a person has one in each portfolio.
fn is_proven_once(context: &Context<'_>, phone: Phone, id: &UserId) -> Result<bool, Unavailable> {
    Ok(known_names::phone_of(context, id)?.is_some_and(|(known, _)| known == phone))
}

/// Returns whether a name was changed, or its contact deleted, since it was reported.
pub(crate) fn is_outdated(
    context: &Context<'_>,
    phone: Phone,
    id: &UserId,
    at: Timestamp,
) -> Result<bool, Unavailable> {
    for name in [phone.into(), id.clone().into()] {
        if phone_aliases::deleted_at(context, &name)? >= at
            || known_names::changed_to(context, &name)?.is_some_and(|(_, changed)| changed >= at)
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the names that the channel itself reports as one person's.
///
/// They are these names and the other forms of their phones. If there is no phone among them, the
/// one that was reported with an id is added.
pub(crate) fn proven_names(
    context: &Context<'_>,
    names: &[PartyId],
) -> Result<Vec<PartyId>, Unavailable> {
    let (mut proven, is_named) = (Vec::new(), names.iter().any(|name| name.phone().is_some()));
    for name in names {
        let phone = match name {
            PartyId::Phone(phone) => Some(*phone),
            PartyId::User(id) if !is_named => known_names::proven_phone(context, id)?,
            PartyId::User(_) => None,
        };
        if let Some(phone) = phone {
            proven.extend(phone_aliases::writer(context, phone)?.phones());
        }
        proven.push(name.clone());
    }
    proven.sort_unstable();
    proven.dedup();
    Ok(proven)
}

/// Returns whether the channel itself reports a name as that of the person with `proven` names.
pub(crate) fn is_theirs(
    context: &Context<'_>,
    proven: &[PartyId],
    name: &PartyId,
) -> Result<bool, Unavailable> {
    let PartyId::User(id) = name else { return Ok(proven.contains(name)) };
    if proven.contains(name) {
        return Ok(true);
    }
    // A former id counts as the names that it was changed to.
    let former = PartyNames { phone: None, user_id: Some(id.clone()) };
    let now = known_names::current_names(context, former, Timestamp::from_millis(0))?;
    let named = match &now.user_id {
        // It may be of another portfolio, and another id may have been named since.
        Some(id) => known_names::phone_of(context, id)?.map(|(phone, _)| phone),
        None => None,
    };
    let now = now.parties().into_iter().chain(named.map(PartyId::from));
    Ok(now.into_iter().any(|name| proven.contains(&name)))
}

/// Returns all names by which the person with these names is known.
pub(crate) fn everything_of(
    context: &Context<'_>,
    parties: &[PartyId],
) -> Result<Vec<PartyId>, Unavailable> {
    let mut all = Vec::new();
    for party in parties {
        all.extend(parties_of(context, party)?);
        if let PartyId::Phone(phone) = party {
            all.extend(phone_aliases::writer(context, *phone)?.phones());
        }
    }
    // If a phone is there in two forms, that of a contact comes first and stays.
    all.sort();
    all.dedup();
    Ok(all)
}

/// Returns the contact that has a phone, for the person with an id.
///
/// If the phone was merely written into another person's contact, that contact loses it.
pub(crate) fn without_strangers(
    context: &mut Context<'_>,
    phone: Phone,
    id: &UserId,
) -> Result<Option<Contact>, Unavailable> {
    let Some(contact) = holder(context, phone)? else { return Ok(None) };
    let mut is_theirs = contact.user_id.is_none();
    for known in contact.ids() {
        is_theirs |= known == id || is_proven_once(context, phone, known)?;
    }
    if is_theirs {
        return Ok(Some(contact));
    }
    let names = PartyNames { phone: None, ..contact.names() };
    put_names(context, &contact, names)?;
    Ok(None)
}

/// Gives a contact these names, which nobody else has. Returns what it is then.
pub(crate) fn put_names(
    context: &mut Context<'_>,
    contact: &Contact,
    names: PartyNames,
) -> Result<Contact, Unavailable> {
    if contact.names() == names {
        return Ok(contact.clone());
    }
    let named = contact.named(names, context.now());
    put_changed(context, contact, &named)?;
    Ok(named)
}

/// Gives a contact these names, which another one loses. Both stay.
pub(crate) fn hand_over(
    context: &mut Context<'_>,
    contact: &Contact,
    other: &Contact,
    names: PartyNames,
) -> Result<Contact, Unavailable> {
    let lost = names.user_id.as_ref();
    let kept = Contact {
        phone: other.phone.filter(|phone| names.phone != Some(*phone)),
        user_id: other.user_id.clone().filter(|id| lost != Some(id)),
        former_ids: other.former_ids.iter().filter(|id| lost != Some(*id)).cloned().collect(),
        updated_at: context.now(),
        ..other.clone()
    };
    put_changed(context, other, &kept)?;
    put_names(context, contact, names)
}

/// Takes from a contact its phone, which another person has since a moment.
///
/// It also loses the ids that the channel has named with the phone since then. It has this id.
pub(crate) fn leave_to_newcomer(
    context: &mut Context<'_>,
    contact: &Contact,
    phone: Phone,
    at: Timestamp,
    user_id: Option<UserId>,
) -> Result<(), Unavailable> {
    let mut former_ids = Vec::new();
    for id in contact.former_ids.iter().chain(&contact.user_id) {
        let named = known_names::phone_of(context, id)?;
        let is_newcomers = named.is_some_and(|(named, since)| named == phone && since > at);
        if !is_newcomers && Some(id) != user_id.as_ref() {
            former_ids.push(id.clone());
        }
    }
    let updated_at = context.now();
    let left = Contact { phone: None, user_id, former_ids, updated_at, ..contact.clone() };
    put_changed(context, contact, &left)
}
