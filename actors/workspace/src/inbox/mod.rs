//! Everything that arrives from outside, and the reads and deletions across features.

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
mod inbound_content;
pub mod inbound_messages;
pub(crate) mod number_facts;
mod number_troubles;
pub(crate) mod old_messages;
pub mod phone_aliases;
mod read_receipt;
mod received;
mod reply;
mod reply_window;
mod spoken_of;
mod transcript;

pub use bulk::{ChangeContactsError, ContactsChange};
pub use change_contact::UpdateContactError;
pub use delete_contact::DeleteContactError;
pub use found_messages::{MessageFilter, MessagesListed};
pub use read_receipt::ReadReceiptError;
pub use reply_window::ReplyWindow;
pub use transcript::{ConversationMessage, MessagesPage};
