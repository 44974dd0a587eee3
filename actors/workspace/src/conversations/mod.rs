//! Conversations: what a contact and the workspace have written to each other.
//!
//! [`Table::Conversations`] has, under `workspace ‖ 0 ‖ kind`: `c ‖ id` the conversation as JSON,
//! `o ‖ place of the contact` its id (`e ‖ place` of the one by
//! e-mail), `a ‖ moment ‖ id` its status and assignee in the order of
//! activity, and `m ‖ id ‖ second ‖ count ‖ message` what was written, in the order of the seconds and,
//! within one, of their coming.

mod append;
mod change;
mod counts;
mod list;
pub(crate) mod record;

pub use change::{ConversationChange, ReplyError, UpdateConversationError};
pub use list::{
    ConversationFilter, ConversationMessage, ConversationView, ConversationsPage, MessagesPage,
    ReadConversationError,
};
pub use record::{Conversation, ConversationStatus, Direction};

pub(crate) use append::{Wrote, note, of_phone, received, sent};
pub(crate) use change::answered;
pub(crate) use counts::moved;
pub(crate) use record::{MailKnownBy, MailThread, Written, by_mail, find, of_place, put, tell};
