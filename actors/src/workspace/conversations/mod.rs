//! Conversations: what a contact and the workspace have written to each other.
//!
//! [`Table::Conversations`] has, under `workspace ‖ 0 ‖ kind`: `c ‖ id` the conversation as JSON,
//! `o ‖ place of the contact` its id, `a ‖ moment ‖ id` its status and assignee in the order of
//! activity, and `m ‖ id ‖ message` what was written.

mod change;
mod list;
mod note;
mod record;

pub use change::{ConversationChange, ReplyError, UpdateConversationError};
pub use list::{
    ConversationFilter, ConversationMessage, ConversationView, ConversationsPage, MessagesPage,
    ReadConversationError,
};
pub use record::{Conversation, ConversationStatus, Direction};

pub(super) use note::{Wrote, of_phone, received, sent};
pub(super) use record::{forget, of_place};
