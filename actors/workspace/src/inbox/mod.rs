//! What comes in from outside, and what reads or deletes across features.

mod author;
pub mod bulk;
mod callback_items;
mod callback_reads;
pub mod callbacks;
mod change_contact;
mod delete_contact;
pub mod deletion;
mod found_messages;
pub(crate) mod identity;
mod identity_change;
pub mod inbound_messages;
pub(crate) mod number_facts;
pub(crate) mod old_messages;
pub mod phone_aliases;
mod received;
mod reply;
mod reply_window;
mod tell_read;
mod transcript;

pub use bulk::{ChangeContactsError, ContactsChange};
pub use change_contact::UpdateContactError;
pub use delete_contact::DeleteContactError;
pub use found_messages::{MessageFilter, MessagesListed};
pub use reply_window::ReplyWindow;
pub use tell_read::TellReadError;
pub use transcript::{ConversationMessage, MessagesPage};
