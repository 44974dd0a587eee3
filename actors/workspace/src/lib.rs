//! A workspace: one actor with a pure core, and every command on it.
//!
//! Not an API: `postrider-actors` re-exports the items for embedders, and this crate promises no
//! stability. A workspace holds one-time passwords, messages, limits, credits and numbers.
//!
//! [`Workspace`] is the handle that callers hold. The actor behind it starts when it is needed and
//! stops when nothing is hot.

pub mod actor;
mod analytics;
pub mod broadcasts;
pub mod contacts;
mod conversations;
pub mod core;
pub mod creation_limit;
pub mod delivery_sink;
pub mod directory;
pub mod disk_space;
pub mod email;
mod events;
mod handle;
pub mod idempotency;
pub mod inbox;
mod keyed_permits;
pub mod log_index;
pub mod mailbox;
pub mod media;
mod media_files;
pub mod messages;
mod newest_first;
pub mod numbers;
pub mod otp;
pub mod rebase;
pub mod recovered;
pub mod removal;
pub mod retention;
pub mod services;
pub mod snapshots;
pub mod suppressions;
pub mod sweep;
pub mod templates;
mod webhooks;

pub use analytics::{AdDay, CampaignCounts, CampaignDays, CampaignGrouping, CampaignRow, DayRange};
#[cfg(any(test, feature = "testing"))]
pub use contacts::whole as whole_contacts;
pub use contacts::{
    ChosenContacts, Contact, ContactChange, ContactFilter, ContactMade, ContactOrder,
    ContactRowMade, ContactSort, ContactWritten, ContactsPage, ContactsWalk, CreateContactError,
    CreateSegmentError, NewContact, NewContactRow, OnConflict, ReadContactError, SEGMENTS_MAX,
    SORTED_MAX, Segment, SegmentError, SegmentsPage, SortContactsError, TagCount,
};
pub use conversations::{
    Conversation, ConversationChange, ConversationCounts, ConversationFilter, ConversationNote,
    ConversationStatus, ConversationView, ConversationsPage, Direction, InboxCounts, InboxDays,
    NOTES_MAX, NoteError, NotesPage, QUICK_REPLIES_MAX, QuickReply, QuickReplyError,
    ReadConversationError, UpdateConversationError, WrittenContent, WrittenContext, WrittenMedia,
};
pub use email::{EmailChannel, ReceiveMailError};
pub use events::{EventFilter, EventsBack, EventsPage};
pub use handle::Workspace;
pub use idempotency::{IdempotencyKey, IdempotentError, Replayable, Route};
pub use inbox::{
    ChangeContactsError, ContactsChange, ConversationMessage, DeleteContactError, MessageFilter,
    MessagesListed, MessagesPage, ReadReceiptError, ReplyWindow, UpdateContactError,
};
pub use media::{AddMediaError, MediaBytes, MediaState, MediaUnderWay};
pub use media_files::{MediaFetch, MediaFiles, MediaOptions};
pub use messages::ReplyError;
pub use numbers::check::{CheckNumberError, NumberCheck, NumberProblem};
pub use otp::sms::{SetSmsError, SmsInfo, SmsReceipt, SmsReceiptError, SmsRoute};
pub use otp::test_phones::TestPhones;
pub use otp::{
    DecisionData, DecisionFilter, DecisionRow, DecisionsPage, OtpDays, OtpFilter, OtpsPage,
};
pub use suppressions::{ContactsCount, Suppression, SuppressionsPage, UnsuppressError};
pub use templates::{NewTemplate, Template, TemplateError, UseTemplateError};
pub use webhooks::{DisableInWorkspace, WebhookChange, WebhookError};
