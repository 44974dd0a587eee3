//! Changing a contact, and the records of other features that have its names.

use postrider_domain::{ContactId, PartyId, Unavailable};
use postrider_store::view::codec;

use crate::Workspace;
use crate::contacts::{Contact, ContactChange, find_contact, holders_place, put_changed};
use crate::core::command::{Command, Context};
use crate::core::quota;
use crate::suppressions;

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
        Ok(contact)
    }
}
