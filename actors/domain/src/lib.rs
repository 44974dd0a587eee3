//! Pure: the values and rules of business messaging.
//!
//! Not an API: `postrider-actors` re-exports the items that embedders use, and this crate promises
//! no stability. Nothing here awaits, reads a clock, draws a random number or touches a disk: time
//! and randomness arrive as arguments.

pub mod audit;
pub mod channel_identity;
pub mod code;
pub mod contact;
pub mod content;
pub mod destination;
pub mod event;
pub mod expiry;
#[cfg(any(test, feature = "testing"))]
pub mod fuzz;
#[cfg(any(test, feature = "testing"))]
pub mod golden;
pub mod id;
pub mod json;
pub mod keys;
pub mod limits;
pub mod national_forms;
pub mod opt_out;
pub mod otp_text;
pub mod phone;
pub mod prices;
pub mod printable;
pub mod scope;
pub mod template;
pub mod text;
pub mod time;
pub mod unavailable;
mod words;
pub mod workspace;

pub use audit::{ActorKind, AuditActor, AuditContext, AuditEntry, AuditRecord};
pub use channel_identity::{PartyId, PartyIdError, PartyNames, UserId, UserIdError};
pub use code::{CodeKey, OtpCode};
pub use contact::{ContactError, ContactName, CustomFields, Email, Tags};
pub use content::{
    MessageContent, MessageKind, ObjectContent, RenderedContent, SenderNotes, TemplateContent,
    TemplateMessage,
};
pub use destination::{AdaptiveMode, Destinations, DestinationsChange, Prefix};
pub use event::{Event, EventData, EventKind, LogEntry, PublicEvent};
pub use id::{
    AdminTokenId, AuditId, BroadcastId, ContactId, ConversationId, EventId, IdError, InviteId,
    KeyId, MediaId, MessageId, NoteId, NumberId, PersonId, QuickReplyId, RequestId, SegmentId,
    SessionId, WebhookId,
};
pub use keys::{CodeKeys, MasterKeys};
pub use limits::{Limits, LimitsOverride};
pub use opt_out::{OptOutSource, OptOutWords};
pub use phone::{Phone, PhoneError};
pub use prices::Prices;
pub use scope::{Scope, Scopes};
pub use time::{Day, DayError, Timestamp, TimestampError};
pub use unavailable::{Unavailable, UnavailableReason};
pub use workspace::{WorkspaceId, WorkspaceIdError};
// These modules have a second name: embedders rely on the paths by it.
pub use self::{
    code as open_code, content as notes, printable as redact, text as fold, time as day,
};
