//! Binds the phone and the channel's id of one person, and merges that person's contacts.
//!
//! Once both names are known together, they belong to one contact. An opt-out or an open window of
//! one of them holds for the other. A notice of the provider replaces the names of a person.

use postrider_channel::callback::IdentityChange;
use postrider_domain::event::contact::ContactMergedData;
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{EventData, NumberId, PartyId, PartyNames, Phone, Timestamp, UserId};
use postrider_store::Table;

use crate::contacts::{
    Contact, MERGED_MAX, holder, holders_place, known_names, put_changed, user_holder,
};
use crate::core::command::Context;
use crate::inbox::callback_items::received_key;
use crate::inbox::phone_aliases;
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

/// Stores that the channel named a phone and an id at a moment as one person's.
pub(super) fn prove(
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
fn is_proven(context: &Context<'_>, phone: Phone, id: &UserId) -> Result<bool, Unavailable> {
    Ok(known_names::proven_phone(context, id)? == Some(phone))
}

/// Returns whether a name was changed, or its contact deleted, since it was reported.
fn is_outdated(
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
                (Some(contact), None) => name(context, &contact, names).map(Some),
                (None, Some(contact)) => {
                    let names = PartyNames { phone: Some(phone), ..contact.names() };
                    name(context, &contact, names).map(Some)
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

/// Returns the contact that has a phone, for the person with an id.
///
/// If the phone was merely written into another person's contact, that contact loses it.
fn without_strangers(
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
    name(context, &contact, names)?;
    Ok(None)
}

/// Returns whether the channel has named a phone with an id.
///
/// Another id may have been named with it since: a person has one in each portfolio.
fn is_proven_once(context: &Context<'_>, phone: Phone, id: &UserId) -> Result<bool, Unavailable> {
    Ok(known_names::phone_of(context, id)?.is_some_and(|(known, _)| known == phone))
}

/// Merges two contacts into the first, which gets these names.
///
/// Each name that a contact has belongs to one of the two. The id of the second names the first
/// from then on. If too many contacts were already merged into one, the names are handed over, and
/// both contacts stay.
fn merge(
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

/// Gives a contact these names, which another one loses. Both stay.
fn hand_over(
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
    name(context, contact, names)
}

/// Takes from a contact its phone, which another person has since a moment.
///
/// It also loses the ids that the channel has named with the phone since then. It has this id.
fn leave_to_newcomer(
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

/// Gives a contact these names, which nobody else has. Returns what it is then.
fn name(
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

/// Returns the names that the channel itself reports as one person's.
///
/// They are these names and the other forms of their phones. If there is no phone among them, the
/// one that was reported with an id is added.
pub(super) fn proven_names(
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
pub(super) fn is_theirs(
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
pub(super) fn everything_of(
    context: &Context<'_>,
    parties: &[PartyId],
) -> Result<Vec<PartyId>, Unavailable> {
    let mut all = Vec::new();
    for party in parties {
        all.extend(contacts::parties_of(context, party)?);
        if let PartyId::Phone(phone) = party {
            all.extend(phone_aliases::writer(context, *phone)?.phones());
        }
    }
    // If a phone is there in two forms, that of a contact comes first and stays.
    all.sort();
    all.dedup();
    Ok(all)
}

/// Processes the provider's notice that somebody has another phone number or another id, once.
///
/// No person wrote it: it opens no window and no conversation, and it is no reply.
///
/// The contact gets the new names and loses all others. If another contact has one of them, the two
/// are merged. An opt-out holds for the old names and the new ones. The windows of the old names
/// close, and the new ones get none of them.
///
/// Notices may arrive in any order, and the reports of later ones stay. The new names of an older
/// notice are replaced by those that they were changed to since.
pub(super) fn take_change(
    context: &mut Context<'_>,
    number: NumberId,
    notice: &IdentityChange,
) -> Result<(), Unavailable> {
    let id = notice.message_id(context.line(number));
    let key = received_key(&context.core.id, Some(id));
    if notice.old == notice.new || context.get(Table::Received, &key)?.is_some() {
        return Ok(());
    }
    let at = notice.at.unwrap_or(context.now());
    let new = known_names::current_names(context, notice.new.clone(), at)?;
    if notice.old != new && !is_notice_outdated(context, notice, at)? {
        let changed = IdentityChange { new: new.clone(), ..notice.clone() };
        let changed = without_passed_on(context, changed, at)?;
        if !changed.old.is_empty() {
            apply_change(context, &changed, at)?;
        }
    }
    if let (Some(phone), Some(id)) = (notice.new.phone, &notice.new.user_id) {
        prove(context, phone, id, at)?;
    }
    for old in notice.old.parties() {
        if !new.parties().contains(&old) {
            known_names::change(context, &old, &new, at)?;
        }
    }
    // This comes last, so that a notice that failed is not known when it is repeated. It opened no
    // window, so none is named.
    context.put(Table::Received, key, Vec::new());
    Ok(())
}

/// Returns whether a later notice has already reported the change of a name that this one removes.
fn is_notice_outdated(
    context: &Context<'_>,
    notice: &IdentityChange,
    at: Timestamp,
) -> Result<bool, Unavailable> {
    let kept = notice.new.parties();
    for old in notice.old.parties().into_iter().filter(|old| !kept.contains(old)) {
        if known_names::changed_to(context, &old)?.is_some_and(|(_, changed)| changed > at) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Takes the old phone out of a late notice if another person has written by it since.
///
/// Until then that person's id counted as another one of the contact. It leaves the contact with
/// the phone, so their next message makes a contact of their own.
fn without_passed_on(
    context: &mut Context<'_>,
    mut notice: IdentityChange,
    at: Timestamp,
) -> Result<IdentityChange, Unavailable> {
    let (old, new) = (&notice.old, &notice.new);
    let Some(phone) = old.phone.filter(|phone| new.phone != Some(*phone)) else {
        return Ok(notice);
    };
    let phone = phone_aliases::writer(context, phone)?.phone;
    let ids = [old.user_id.as_ref(), new.user_id.as_ref()];
    if !known_names::is_passed_on(context, phone, at, ids)? {
        return Ok(notice);
    }
    if old.user_id.is_none() {
        for new in new.parties() {
            suppressions::follow(context, &new, &phone.into())?;
        }
    } else if new.phone.is_some()
        && let Some(contact) = old_contact(context, old)?
        && contact.phone == Some(phone)
    {
        leave_to_newcomer(context, &contact, phone, at, old.user_id.clone())?;
    }
    notice.old.phone = None;
    Ok(notice)
}

/// Gives the contact that has the old names the new ones.
fn apply_change(
    context: &mut Context<'_>,
    notice: &IdentityChange,
    at: Timestamp,
) -> Result<(), Unavailable> {
    bind_old(context, notice)?;
    let new_contact = match (notice.new.phone, &notice.new.user_id) {
        (Some(phone), Some(id)) => bind(context, phone, id)?,
        (Some(phone), None) => holder(context, phone)?,
        (None, Some(id)) => user_holder(context, id)?,
        (None, None) => None,
    };
    let old_contact = old_contact(context, &notice.old)?;
    let news = notice.new.parties();
    let proven = proven_names(context, &notice.old.parties())?;
    for old in old_names(context, notice, old_contact.as_ref())? {
        for new in news.iter().filter(|new| **new != old) {
            suppressions::follow(context, new, &old)?;
        }
        if !news.contains(&old) && is_theirs(context, &proven, &old)? {
            service_window::close(context, &old, at)?;
        }
    }
    // The notice may omit a phone that it removes.
    if let Some(id) = &notice.old.user_id
        && let Some(phone) = known_names::proven_phone(context, id)?
        && !news.contains(&phone.into())
    {
        known_names::change(context, &phone.into(), &notice.new, at)?;
    }
    let [old_contact, new_contact] =
        [old_contact, new_contact].map(|contact| contact.map(|contact| contact.renamed(at)));
    // The known data of the new names stays.
    let known = new_contact.as_ref().map(Contact::names).unwrap_or_default();
    let phone = notice.new.phone.or(known.phone);
    let user_id = notice.new.user_id.clone().or(known.user_id);
    match (old_contact, new_contact) {
        (Some(old), Some(new)) if old.id != new.id => {
            let (survivor, other) = if new.phone.is_some() { (new, old) } else { (old, new) };
            merge(context, &survivor, &other, PartyNames { phone, user_id })?;
        }
        (Some(contact), _) => {
            let user_id = user_id.or_else(|| contact.user_id.clone());
            name(context, &contact, PartyNames { phone, user_id })?;
        }
        (None, Some(_)) => {}
        (None, None) => {
            if let Some((phone, id)) = phone.zip(user_id) {
                known_names::remember(context, phone, &id, at)?;
            }
        }
    }
    Ok(())
}

/// Merges the contacts with the old phone and the old id: the notice reports one person.
///
/// A name that stays is not bound here: it binds its contact to the new names.
fn bind_old(context: &mut Context<'_>, notice: &IdentityChange) -> Result<(), Unavailable> {
    let PartyNames { phone: Some(phone), user_id: Some(id) } = &notice.old else { return Ok(()) };
    let phone = phone_aliases::writer(context, *phone)?.phone;
    if notice.new.phone != Some(phone) && notice.new.user_id.as_ref() != Some(id) {
        bind(context, phone, id)?;
    }
    Ok(())
}

/// Returns the contact that has the old names, by the id first.
fn old_contact(context: &Context<'_>, old: &PartyNames) -> Result<Option<Contact>, Unavailable> {
    if let Some(id) = &old.user_id
        && let Some(contact) = user_holder(context, id)?
    {
        return Ok(Some(contact));
    }
    match old.phone {
        Some(phone) => holder(context, phone_aliases::writer(context, phone)?.phone),
        None => Ok(None),
    }
}

/// Returns the person's old names: those of the notice, and all others of the contact.
fn old_names(
    context: &Context<'_>,
    notice: &IdentityChange,
    contact: Option<&Contact>,
) -> Result<Vec<PartyId>, Unavailable> {
    let mut names = notice.old.parties();
    names.extend(contact.map(|contact| contact.names().parties()).unwrap_or_default());
    everything_of(context, &names)
}
