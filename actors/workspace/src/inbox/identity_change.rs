//! Takes the provider's notice that somebody has another phone number, or another id.
//!
//! Nobody wrote it: it opens no window and no conversation, and it is no reply.

use postrider_channel::callback::IdentityChange;
use postrider_domain::{NumberId, PartyId, PartyNames};
use postrider_store::Table;

use crate::contacts::{Contact, holder, user_holder};
use crate::core::command::Context;
use crate::inbox::inbound_messages::received_key;
use crate::inbox::{identity, phone_aliases};
use crate::messages::service_window;
use crate::suppressions;
use postrider_domain::unavailable::Unavailable;

/// Takes a notice, once. The contact gets the new names; if another contact has one of them, the
/// two are merged. An opt-out holds for the old names and the new ones; the windows of the old ones
/// close, and the new ones get none of them.
pub(crate) fn take(
    context: &mut Context<'_>,
    number: NumberId,
    notice: &IdentityChange,
) -> Result<(), Unavailable> {
    let id = notice.message_id(context.line(number));
    let key = received_key(&context.core.id, Some(id));
    if notice.old == notice.new || context.get(Table::Received, &key)?.is_some() {
        return Ok(());
    }
    let new_contact = match (notice.new.phone, &notice.new.user_id) {
        (Some(phone), Some(id)) => identity::bind(context, phone, id)?,
        (Some(phone), None) => holder(context, phone)?,
        (None, Some(id)) => user_holder(context, id)?,
        (None, None) => None,
    };
    let old_contact = old_contact(context, &notice.old)?;
    let news = notice.new.parties();
    for old in old_names(context, notice, old_contact.as_ref())? {
        for new in news.iter().filter(|new| **new != old) {
            suppressions::follow(context, new, &old)?;
        }
        if !news.contains(&old) {
            service_window::close(context, &old, notice.at.unwrap_or(context.now()))?;
        }
    }
    match (old_contact, new_contact) {
        (Some(old), Some(new)) if old.id != new.id => {
            // The phone that is there is the new one.
            let (survivor, other) = if new.phone.is_some() { (new, old) } else { (old, new) };
            let names = PartyNames {
                phone: notice.new.phone.or(survivor.phone),
                user_id: notice.new.user_id.clone().or_else(|| survivor.user_id.clone()),
            };
            identity::merge(context, &survivor, &other, names)?;
        }
        (Some(contact), _) => {
            let names = PartyNames {
                phone: notice.new.phone.or(contact.phone),
                user_id: notice.new.user_id.clone().or_else(|| contact.user_id.clone()),
            };
            identity::name(context, &contact, names)?;
        }
        (None, _) => {}
    }
    // Last, so that one that could not be taken is not known when it comes again. It opened no
    // window, so none is named.
    context.put(Table::Received, key, Vec::new());
    Ok(())
}

/// The contact that has the old names, by the id first.
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

/// The names that the person does not have any more. A new phone comes with a new id, so all names
/// of the contact are old then.
fn old_names(
    context: &Context<'_>,
    notice: &IdentityChange,
    contact: Option<&Contact>,
) -> Result<Vec<PartyId>, Unavailable> {
    let mut names = notice.old.user_id.clone().map(PartyId::from).into_iter().collect::<Vec<_>>();
    if let Some(phone) = notice.old.phone {
        names.extend(phone_aliases::writer(context, phone)?.phones());
    }
    if notice.new.phone.is_some() {
        names.extend(contact.map(|contact| contact.names().parties()).unwrap_or_default());
    }
    names.sort_unstable();
    names.dedup();
    Ok(names)
}
