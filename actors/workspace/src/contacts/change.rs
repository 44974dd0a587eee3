//! Changing and deleting contacts.

use crate::Workspace;
use crate::contacts::phone_aliases as aliases;
use crate::conversations::{by_mail, moved, of_place};
use crate::core::command::{Command, Context};
use crate::inbox::deletion::forget;
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{ContactId, EventKind};
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

/// Why a contact was not deleted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeleteContactError {
    /// The workspace has no such contact.
    #[error("no such contact")]
    NotFound,
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

    /// Deletes a contact, the conversations with it, and the windows and other names of its phone,
    /// which is free again. What was written goes soon after, part by part; a mail that was not
    /// handed over does not leave any more. An opt-out stays, and of messages to the phone that they
    /// were sent and what became of them, not what they said.
    ///
    /// # Errors
    /// [`DeleteContactError`]: there is none, or not now.
    pub async fn delete_contact(&self, id: ContactId) -> Result<(), DeleteContactError> {
        self.perform(DeleteContact { id }).await
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
        tell(context, EventKind::ContactUpdated, &contact);
        Ok(contact)
    }
}

struct DeleteContact {
    id: ContactId,
}

impl Command for DeleteContact {
    type Answer = ();
    type Error = DeleteContactError;

    fn carry_out(self, context: &mut Context<'_>) -> Result<(), DeleteContactError> {
        let contact = find(context, self.id)?.ok_or(DeleteContactError::NotFound)?;
        // What can fail comes first: a refusal's changes are carried out too.
        let place = contact.place();
        let conversations = [of_place(context, place)?, by_mail(context, place)?];
        let conversations = Vec::from_iter(conversations.iter().flatten());
        let counted = moved(context, &conversations, &[])?;
        let names = contact.phone.map(|phone| aliases::of(context, phone)).transpose()?;
        index::update(context, place, None)?;
        for conversation in conversations {
            forget(context, conversation);
        }
        counted.write(context);
        if let Some(names) = names {
            aliases::forget(context, &names);
        }
        context.delete(Table::Contacts, record::contact_key(&context.core.id, contact.place()));
        if let Some(phone) = contact.phone {
            context.delete(Table::Contacts, record::phone_key(&context.core.id, phone));
        }
        tell(context, EventKind::ContactDeleted, &contact);
        Ok(())
    }
}

/// The contact of that identifier, with what earlier commands have made of it.
pub(crate) fn find(context: &Context<'_>, id: ContactId) -> Result<Option<Contact>, Unavailable> {
    let key = record::contact_key(&context.core.id, record::place_of(id));
    let found: Option<Contact> = context.get_json(Table::Contacts, &key)?;
    Ok(found.filter(|contact| contact.id == id))
}
