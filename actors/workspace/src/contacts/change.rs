//! Changing and deleting contacts.

use crate::Workspace;
use crate::core::command::{Command, Context};
use crate::core::quota;
use crate::core::view::unreadable;
use postrider_domain::event::contact::ContactData;
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{ContactId, EventData};
use postrider_store::Table;
use postrider_store::view::codec;

use crate::contacts::create::phone_holder;
use crate::contacts::index;
use crate::contacts::merge;
use crate::contacts::record;
use crate::contacts::record::{Contact, ContactChange};

/// Why a contact was not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UpdateContactError {
    /// The workspace has no such contact.
    #[error("no such contact")]
    NotFound,
    /// Another contact has the phone.
    #[error("another contact has this phone")]
    PhoneTaken,
    /// It cannot be taken now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl Workspace {
    /// Changes a contact; gives what it is then.
    ///
    /// # Errors
    /// [`UpdateContactError`]: there is none, another one has the phone, or not now.
    pub async fn update_contact(
        &self,
        id: ContactId,
        change: ContactChange,
    ) -> Result<Contact, UpdateContactError> {
        self.perform(UpdateContact { id, change }).await
    }
}

struct UpdateContact {
    id: ContactId,
    change: ContactChange,
}

impl Command for UpdateContact {
    type Answer = Contact;
    type Error = UpdateContactError;

    fn carry_out(self, context: &mut Context<'_>) -> Result<Contact, UpdateContactError> {
        let old = find(context, self.id)?.ok_or(UpdateContactError::NotFound)?;
        let ContactChange { name, phone, email, tags, custom_fields } = self.change;
        let contact = Contact {
            id: old.id,
            name,
            phone: phone.unwrap_or(old.phone),
            user_id: old.user_id.clone(),
            username: old.username.clone(),
            email: email.unwrap_or_else(|| old.email.clone()),
            tags: tags.unwrap_or_else(|| old.tags.clone()),
            custom_fields: custom_fields.unwrap_or_else(|| old.custom_fields.clone()),
            created_at: old.created_at,
            updated_at: context.now(),
        };
        if contact.phone != old.phone && phone_holder(context, contact.phone)?.is_some() {
            return Err(UpdateContactError::PhoneTaken);
        }
        // What makes it smaller is taken over a quota, too.
        if codec::encode(&contact).len() > codec::encode(&old).len() {
            quota::check_bytes(context)?;
        }
        put_changed(context, &old, &contact)?;
        Ok(contact)
    }
}

/// Writes a contact after a change, and emits the event of it. No other contact may have its phone
/// or its id.
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
    if new.user_id != old.user_id {
        if let Some(id) = &old.user_id {
            context.delete(Table::Contacts, record::user_key(&context.core.id, id));
        }
        if let Some(id) = &new.user_id {
            let key = record::user_key(&context.core.id, id);
            context.put(Table::Contacts, key, place.to_be_bytes().to_vec());
        }
    }
    context.put_json(Table::Contacts, record::contact_key(&context.core.id, place), new);
    let previous_phone = old.phone.filter(|_| moves);
    let previous_user_id = old.user_id.clone().filter(|_| new.user_id != old.user_id);
    let data = ContactData { previous_phone, previous_user_id, ..new.event_data() };
    context.effects.emit(context.now(), EventData::ContactUpdated(data));
    Ok(())
}

/// The contact of that identifier, or the one that it was merged into, with what earlier commands
/// have made of it.
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
