//! Changes and deletes a contact, with the records of other features that have its names.

use postrider_domain::{ContactId, EventData, PartyId, Unavailable};
use postrider_store::Table;
use postrider_store::view::codec;

use crate::broadcasts::replies;
use crate::contacts::phone_aliases::PhoneNames;
use crate::contacts::{
    Contact, ContactChange, emit, find_contact, forget_merged, holders_place, index, known_names,
    merged_ids, phone_aliases, put_changed, record,
};
use crate::conversations::{all_of, forget_former, moved_counts};
use crate::core::command::{Command, Context, Footprint};
use crate::core::quota;
use crate::inbox::deletion::forget_conversation;
use crate::messages::service_window;
use crate::messages::texts;
use crate::{Workspace, suppressions};

/// The reason why a contact was not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UpdateContactError {
    /// The workspace has no such contact.
    #[error("no such contact")]
    NotFound,
    /// Another contact has the phone.
    #[error("another contact has this phone")]
    PhoneTaken,
    /// The workspace cannot accept the request now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// The reason why a contact was not deleted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeleteContactError {
    /// The workspace has no such contact.
    #[error("no such contact")]
    NotFound,
    /// The workspace cannot accept the request now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl Workspace {
    /// Changes a contact and returns it.
    ///
    /// An opt-out of its new phone or of the channel's id holds for both.
    ///
    /// # Errors
    /// [`UpdateContactError`]: there is no such contact, another one has the phone, or the
    /// workspace is unavailable.
    pub async fn update_contact(
        &self,
        id: ContactId,
        change: ContactChange,
    ) -> Result<Contact, UpdateContactError> {
        self.perform(UpdateContact { id, change }).await
    }

    /// Deletes a contact, its conversations, and the windows and other names of its phone.
    ///
    /// The phone is free again. The messages of the conversations are deleted soon after, part by
    /// part. A mail that was not handed over is not sent any more. An opt-out stays. Of messages to
    /// the phone, the record of sending and the status stay, the text does not.
    ///
    /// # Errors
    /// [`DeleteContactError`]: there is no such contact, or the workspace is unavailable.
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
        let old = find_contact(context, self.id)?.ok_or(UpdateContactError::NotFound)?;
        let contact = self.change.applied(&old, context.now());
        let new_phone = contact.phone.filter(|phone| old.phone != Some(*phone)).map(PartyId::from);
        if let Some(phone) = &new_phone
            && holders_place(context, phone)?.is_some()
        {
            return Err(UpdateContactError::PhoneTaken);
        }
        // A change that makes it smaller is accepted over a quota, too.
        if codec::encode(&contact).len() > codec::encode(&old).len() {
            quota::check_bytes(context)?;
        }
        // This comes first, so that it is not left out if the rest fails.
        if let Some(phone) = new_phone {
            for id in contact.ids() {
                suppressions::share(context, &phone, &id.clone().into())?;
            }
        }
        put_changed(context, &old, &contact)?;
        // This cannot fail, so a refused change deletes no texts.
        if let Some(former) = old.phone.filter(|phone| contact.phone != Some(*phone)) {
            texts::forget(context, &former.into());
        }
        Ok(contact)
    }
}

struct DeleteContact {
    id: ContactId,
}

impl Command for DeleteContact {
    type Answer = ();
    type Error = DeleteContactError;

    const FOOTPRINT: Footprint = Footprint::Ends;

    fn carry_out(self, context: &mut Context<'_>) -> Result<(), DeleteContactError> {
        let contact = find_contact(context, self.id)?.ok_or(DeleteContactError::NotFound)?;
        Ok(remove_contact(context, &contact)?)
    }
}

/// Deletes a contact and its records.
pub(super) fn remove_contact(
    context: &mut Context<'_>,
    contact: &Contact,
) -> Result<(), Unavailable> {
    // Steps that can fail come first: a refusal's changes are carried out too.
    let place = contact.place();
    let conversations = all_of(context, place)?;
    let conversations = Vec::from_iter(conversations.iter());
    let merged = merged_ids(context, place)?;
    let counted = moved_counts(context, &conversations, &[])?;
    let names = contact.phone.map(|phone| phone_aliases::names_of(context, phone)).transpose()?;
    index::update(context, place, None)?;
    for conversation in conversations {
        forget_conversation(context, conversation);
    }
    counted.write(context);
    forget_former(context, place);
    forget_merged(context, place, &merged);
    if let Some(names) = names {
        forget_phone(context, &names);
    }
    context.delete(Table::Contacts, record::contact_key(&context.core.id, contact.place()));
    if let Some(phone) = contact.phone {
        context.delete(Table::Contacts, record::phone_key(&context.core.id, phone));
    }
    for id in contact.ids() {
        context.delete(Table::Contacts, record::user_key(&context.core.id, id));
        forget_name(context, &PartyId::User(id.clone()));
    }
    emit(context, EventData::ContactDeleted, contact);
    Ok(())
}

/// Deletes the names of a phone, and its owner's windows: its contact is deleted.
fn forget_phone(context: &mut Context<'_>, names: &PhoneNames) {
    forget_name(context, &names.phone.into());
    for name in &names.known_as {
        texts::forget(context, &(*name).into());
        service_window::forget_all(context, &(*name).into());
    }
    phone_aliases::forget(context, names);
}

/// Deletes the windows and reports of a name, and stores that its contact was deleted now.
fn forget_name(context: &mut Context<'_>, name: &PartyId) {
    phone_aliases::note_deleted(context, name);
    texts::forget(context, name);
    known_names::forget(context, name);
    if let PartyId::Phone(phone) = name {
        let key = replies::phone_key(&context.core.id, &phone.key_bytes());
        context.delete(Table::Analytics, key);
    }
    service_window::forget_all(context, name);
}
