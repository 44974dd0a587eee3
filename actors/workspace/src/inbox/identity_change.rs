//! Applies the provider's notice that somebody has another phone number or another id.
//!
//! The names of a person are replaced: contacts, opt-outs and windows follow.

use postrider_channel::callback::IdentityChange;
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{NumberId, PartyId, PartyNames, Timestamp};
use postrider_store::Table;

use crate::contacts::identity::{
    everything_of, is_theirs, leave_to_newcomer, prove, proven_names, put_names,
};
use crate::contacts::{Contact, holder, known_names, phone_aliases, user_holder};
use crate::core::command::Context;
use crate::inbox::callback_items::received_key;
use crate::inbox::identity_merge::{bind, merge};
use crate::messages::service_window;
use crate::messages::texts;
use crate::suppressions;

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
            texts::forget(context, &old);
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
            put_names(context, &contact, PartyNames { phone, user_id })?;
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
