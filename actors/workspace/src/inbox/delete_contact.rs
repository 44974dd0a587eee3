//! Deleting a contact, and the records of other features that belong to it.

use postrider_domain::{ContactId, EventData, PartyId, Unavailable};
use postrider_store::Table;

use crate::Workspace;
use crate::contacts::{Contact, emit, find_contact, forget_merged, index, merged_ids, record};
use crate::conversations::{all_of, forget_former, moved};
use crate::core::command::{Command, Context, Footprint};
use crate::inbox::deletion::forget;
use crate::inbox::phone_aliases;

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
    /// Deletes a contact, its conversations, and the windows and other names of its phone.
    ///
    /// The phone is free again. The messages of the conversations are deleted soon after, part by
    /// part. A mail that was not handed over is not sent any more. An opt-out stays. Of messages to
    /// the phone, the record of sending and the status stay, the text does not.
    ///
    /// # Errors
    /// [`DeleteContactError`]: there is no such contact, or the workspace is unavailable.
    /// [`DeleteContactError`]: there is none, or not now.
    pub async fn delete_contact(&self, id: ContactId) -> Result<(), DeleteContactError> {
        self.perform(DeleteContact { id }).await
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
        Ok(remove(context, &contact)?)
    }
}

/// Deletes a contact and its records.
pub(super) fn remove(context: &mut Context<'_>, contact: &Contact) -> Result<(), Unavailable> {
    // Steps that can fail come first: a refusal's changes are carried out too.
    let place = contact.place();
    let conversations = all_of(context, place)?;
    let conversations = Vec::from_iter(conversations.iter());
    let merged = merged_ids(context, place)?;
    let counted = moved(context, &conversations, &[])?;
    let names = contact.phone.map(|phone| phone_aliases::of(context, phone)).transpose()?;
    index::update(context, place, None)?;
    for conversation in conversations {
        forget(context, conversation);
    }
    counted.write(context);
    forget_former(context, place);
    forget_merged(context, place, &merged);
    if let Some(names) = names {
        phone_aliases::forget(context, &names);
    }
    context.delete(Table::Contacts, record::contact_key(&context.core.id, contact.place()));
    if let Some(phone) = contact.phone {
        context.delete(Table::Contacts, record::phone_key(&context.core.id, phone));
    }
    for id in contact.ids() {
        context.delete(Table::Contacts, record::user_key(&context.core.id, id));
        phone_aliases::forget_name(context, &PartyId::User(id.clone()));
    }
    emit(context, EventData::ContactDeleted, contact);
    Ok(())
}
