//! Conversations: the messages between a contact and the workspace.
//!
//! `Table::Conversations` has these keys under `workspace ‖ 0 ‖ kind`:
//!
//! * `c ‖ id` has the conversation as JSON.
//! * `o ‖ place of the contact` has its id, and `e ‖ place` that of the one by e-mail.
//! * `a ‖ moment ‖ id` has its status and assignee, in the order of activity.
//! * `m ‖ id ‖ second ‖ count ‖ message` has the messages in the order of the seconds and, within
//!   one, of their coming.
//!
//! Notes and quick replies have kinds of their own.

pub(crate) mod change;
mod counts;
mod days;
pub(crate) mod list;
mod merge;
pub(crate) mod notes;
mod quick_replies;
pub(crate) mod record;

pub use change::{ConversationChange, UpdateConversationError};
pub use counts::ConversationCounts;
pub use days::{InboxCounts, InboxDays};
pub use list::{ConversationFilter, ConversationView, ConversationsPage, ReadConversationError};
pub use notes::{ConversationNote, NOTES_MAX, NoteError, NotesPage};
pub use quick_replies::{QUICK_REPLIES_MAX, QuickReply, QuickReplyError};
pub use record::{
    Conversation, ConversationStatus, Direction, WrittenContent, WrittenContext, WrittenMedia,
};

pub(crate) use change::{Wrote, answered_counts, note, of_party, once_answered, received, sent};
pub(crate) use counts::moved_counts;
pub(crate) use days::{DAYS, note_inbox};
pub(crate) use merge::{all_of, forget_former, read_all_ahead, take_over};
pub(crate) use record::{MailKnownBy, MailThread, Written, by_mail, emit, find, put, read_ahead};
