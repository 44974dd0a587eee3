//! Changing and deleting contacts.

use crate::Workspace;
use crate::core::command::{Command, Context};
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{ContactId, EventData};
use postrider_store::Table;

use crate::contacts::create::phone_holder;
use crate::contacts::record;
use crate::contacts::record::{Contact, ContactChange};
use crate::contacts::{index, tell};

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
        let place = old.place();
        let ContactChange { name, phone, email, tags, custom_fields } = self.change;
        let contact = Contact {
            id: old.id,
            name,
            phone: phone.unwrap_or(old.phone),
            email: email.unwrap_or(old.email),
            tags: tags.unwrap_or(old.tags),
            custom_fields: custom_fields.unwrap_or(old.custom_fields),
            created_at: old.created_at,
            updated_at: context.now(),
        };
        let moves = contact.phone != old.phone;
        if moves && phone_holder(context, contact.phone)?.is_some() {
            return Err(UpdateContactError::PhoneTaken);
        }
        index::update(context, place, Some(&contact))?;
        if moves {
            if let Some(phone) = old.phone {
                context.delete(Table::Contacts, record::phone_key(&context.core.id, phone));
            }
            if let Some(phone) = contact.phone {
                let key = record::phone_key(&context.core.id, phone);
                context.put(Table::Contacts, key, place.to_be_bytes().to_vec());
            }
        }
        context.put_json(Table::Contacts, record::contact_key(&context.core.id, place), &contact);
        tell(context, EventData::ContactUpdated, &contact);
        Ok(contact)
    }
}

/// The contact of that identifier, with what earlier commands have made of it.
pub(crate) fn find(context: &Context<'_>, id: ContactId) -> Result<Option<Contact>, Unavailable> {
    let key = record::contact_key(&context.core.id, record::place_of(id));
    let found: Option<Contact> = context.get_json(Table::Contacts, &key)?;
    Ok(found.filter(|contact| contact.id == id))
}
