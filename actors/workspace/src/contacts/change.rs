//! Writing a contact that has changed, and finding a contact by its id.

use crate::core::command::Context;
use crate::core::view::unreadable;
use postrider_domain::event::contact::ContactData;
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{ContactId, EventData};
use postrider_store::Table;

use crate::contacts::index;
use crate::contacts::merge;
use crate::contacts::record;
use crate::contacts::record::Contact;

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

/// Returns the contact with the id, or the one that it was merged into.
///
/// It includes the changes of earlier commands.
pub(crate) fn find(context: &Context<'_>, id: ContactId) -> Result<Option<Contact>, Unavailable> {
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
