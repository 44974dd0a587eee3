//! Everything that arrives from outside, and the reads and deletions across features.

pub mod bulk;
mod callback_items;
mod callback_reads;
pub mod callbacks;
mod contact_changes;
pub mod deletion;
mod identity_change;
pub(crate) mod identity_merge;
pub mod inbound_messages;
mod message_list;
pub(crate) mod number_facts;
pub(crate) mod old_messages;
mod read_receipt;
mod reply;
mod transcript;

pub use bulk::{ChangeContactsError, ContactsChange};
pub use contact_changes::{DeleteContactError, UpdateContactError};
pub use message_list::{MessageFilter, MessagesListed};
pub use read_receipt::ReadReceiptError;
pub use reply::ReplyWindow;
pub use transcript::{ConversationMessage, MessagesPage};
