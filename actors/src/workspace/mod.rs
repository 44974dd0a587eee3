//! A workspace: its one-time passwords, messages, limits, credits and numbers, in one actor with a pure core.
//!
//! [`Workspace`] is the handle that callers hold; the actor behind it comes when it is needed and
//! goes when nothing is hot.

pub(crate) mod actor;
mod aliases;
mod analytics;
pub(crate) mod broadcasts;
mod claims;
pub(crate) mod command;
pub(crate) mod configure;
pub(crate) mod contacts;
pub(crate) mod conversations;
pub(crate) mod core;
pub(crate) mod effects;
pub(crate) mod email;
mod gate;
pub(crate) mod guard;
mod handle;
pub(crate) mod hot;
pub(crate) mod idempotency;
mod inbound;
mod index;
pub(crate) mod load;
mod loaded;
pub(crate) mod message;
pub(crate) mod number_news;
pub(crate) mod otp;
mod otp_messages;
mod otps;
mod prefixes;
mod receive;
pub(crate) mod records;
mod repeats;
mod reported;
pub(crate) mod retention;
mod sends;
pub(crate) mod slot;
pub(crate) mod suppressions;
pub(crate) mod template_sync;
pub(crate) mod templates;
mod unannounced;
mod unsent;
pub(crate) mod view;
mod webhooks;
mod window;

#[cfg(test)]
mod tests;

pub use analytics::{AdDay, CampaignCounts, CampaignDays, CampaignGrouping, CampaignRow, DayRange};
#[cfg(test)]
pub(crate) use contacts::whole as whole_contacts;
pub use contacts::{
    Contact, ContactChange, ContactFilter, ContactMade, ContactsPage, ContactsWalk,
    CreateContactError, CreateSegmentError, DeleteContactError, NewContact, ReadContactError,
    SEGMENTS_MAX, Segment, SegmentError, SegmentsPage, UpdateContactError,
};
pub use conversations::{
    Conversation, ConversationChange, ConversationFilter, ConversationMessage, ConversationStatus,
    ConversationView, ConversationsPage, Direction, MessagesPage, ReadConversationError,
    ReplyError, UpdateConversationError,
};
pub use email::{EmailChannel, ReceiveMailError};
pub use handle::{EventsPage, Workspace};
pub use idempotency::{IdempotencyKey, IdempotentError, Replayable, Route};
pub use retention::EventOptions;
pub use suppressions::{Suppression, SuppressionsPage, UnsuppressError};
pub use templates::{NewTemplate, Template, TemplateError, UseTemplateError};
pub(crate) use webhooks::DisableInWorkspace;
pub use webhooks::{WebhookChange, WebhookError};

use postrider_domain::{Destinations, Limits};
use postrider_number::info::NumberInfo;

/// What a workspace is set to, and how much it holds.
#[derive(Debug, Clone)]
pub(crate) struct WorkspaceSettings {
    /// The balance.
    pub(crate) credits: u64,
    /// The limits in force.
    pub(crate) limits: Limits,
    /// Where one-time passwords may go.
    pub(crate) destinations: Destinations,
    /// The connected numbers, oldest first.
    pub(crate) numbers: Vec<NumberInfo>,
    /// Requests for one-time passwords in memory.
    pub(crate) otps: usize,
}
