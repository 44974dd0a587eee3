//! The Postrider engine sends one-time passwords and business messages durably, within limits.
//!
//! It is a system of actors to embed behind any front end.
//!
//! ```
//! use std::time::Duration;
//!
//! use postrider_actors::{Engine, EngineOptions, MasterKeys, SendOtp, Verification, random};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // In memory; `EngineOptions::on_disk(dir, …)` is the durable one. Keep its master key safe:
//! // codes on their way are derived with it.
//! let options = EngineOptions::in_memory(MasterKeys::single(random::bytes()));
//! let engine = Engine::start(options).await?;
//!
//! // A workspace with credits and a number that keeps its messages to itself.
//! let id = "acme".parse()?;
//! engine.admin().create_workspace("acme".parse()?, "Acme".to_owned()).await?;
//! engine.admin().set_credits(&id, 100).await?;
//! engine.admin().connect_sandbox_number(&id).await?;
//!
//! // Every answer comes after what it reports is durable.
//! let acme = engine.workspace(&id).ok_or("it was just made")?;
//! let sent = acme.send_otp(SendOtp::to("+15550123456".parse()?)).await?;
//!
//! // Who has the phone reads the code there; here the sandbox shows it.
//! let code = loop {
//!     let newest = engine.sandbox().messages(&id, None, 1).pop();
//!     match newest.and_then(|message| message.code) {
//!         Some(code) => break code,
//!         None => tokio::task::yield_now().await,
//!     }
//! };
//! assert_eq!(acme.verify_otp(sent.request_id, &code).await?, Verification::Verified);
//!
//! // What happened, for webhooks and analytics: sent, verified.
//! let events = acme.events(0, 10, None).await?.entries;
//! assert_eq!(events.len(), 2);
//! engine.shutdown(Duration::from_secs(5)).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Contents
//!
//! | to | see |
//! |---|---|
//! | start, stop, set up, watch | [`Engine`], [`EngineOptions`], [`Health`] |
//! | send, verify and resend one-time passwords | [`Workspace::send_otp`], [`Workspace::verify_otp`] |
//! | send a message, and see what becomes of it | [`Workspace::send_message`], [`Workspace::message`] |
//! | send a template to many | [`Workspace::create_broadcast`], [`Audience`] |
//! | read or follow what happened | [`Workspace::events`], [`Workspace::follow_events`] |
//! | have it posted, signed | [`Workspace::create_webhook`], [`WebhookOptions`] |
//! | make, find and group contacts; keep opt-outs | [`Workspace::create_contact`], [`Workspace::suppress`] |
//! | read conversations and answer | [`Workspace::conversations`], [`Workspace::reply`] |
//! | add templates | [`Workspace::create_template`] |
//! | see what broadcasts and advertisements brought | [`Workspace::campaign_days`], [`Workspace::ad_days`] |
//! | see what happened in conversations, by day | [`Workspace::inbox_days`] |
//! | hand in what a provider of your own calls back | [`Workspace::receive`] |
//! | make workspaces, keys, numbers; set limits and credits | [`Admin`] |
//! | check keys and request limits | [`Access`] |
//! | let people sign in, in roles | [`People`], [`Role`] |
//! | see how a whole server does | [`Operations`] |
//! | see who changed what | [`AuditLog`], [`Admin::by`], [`Workspace::by`] |
//! | hand in what the Cloud API posts, signed, as it is | [`Engine::callbacks`] |
//! | script what the channel does, read what it delivered | [`Sandbox`] |
//! | move time, in tests too | [`Clock`], [`Engine::advance_clock`] |
//! | follow requests into the engine | [`trace`], [`EngineOptions::traces`] |
//! | copy the data, and make it of copies | [`copies`], [`Engine::data`] |
//! | know the values and their rules | [`domain`] |
//! | connect a number of the chat-app channel | [`Admin::connect_number`], [`NewProvider::CloudApi`] |
//! | bring another provider | [`channel::Channel`], [`EngineOptions::channel`] |
//! | bring another database | [`store::Store`], [`Durability::Custom`] |
//!
//! Each command is one method of [`Workspace`], and each of its errors says what was not done. Only
//! [`Unavailable`] means "not now", and only its [`UnavailableReason::Storage`] and
//! [`UnavailableReason::Restarting`] that the outcome is not known.

pub use postrider_channel as channel;
pub use postrider_domain as domain;
pub use postrider_domain::{MasterKeys, Prices, Unavailable, UnavailableReason};
pub use postrider_runtime::task::BoxFuture;
pub use postrider_runtime::{
    BucketState, Clock, LazyTimer, Secret, Tenure, Traces, clock, random, trace,
};
pub use postrider_store as store;
pub use postrider_store::{DirectorySpace, EventEntry, FreeSpace, Usage};

// The engine's tests share helpers with `tests/engine`, which names the crate from outside.
#[cfg(test)]
extern crate self as postrider_actors;

mod access;
mod admin;
mod audit;
pub mod copies;
mod engine;
mod metrics;
mod operations;

pub use access::{
    Access, AdminTokenInfo, Admission, Caller, CreatedAdminToken, CreatedKey, KeyChange, KeyInfo,
    KeyMark, NewAdminToken, NewKey, home_in_key, home_of, key_mark,
};
pub use admin::{
    Admin, AdminError, AskError, CreateWorkspaceError, DeleteWorkspaceError, HeldClaims,
    NumberClaim, NumberClaimError, NumberClaims, TIME_MAX, WorkspaceInfo, WorkspaceState,
};
pub use audit::{AuditLog, AuditOptions, verify_audit_directory};
pub use channel::cloud_api::{
    CloudApiAccount, CloudApiOptions, CloudApiSecrets, ListError, ListedTemplate, ProviderId,
    ProviderIdError,
};
pub use channel::email::{MailOptions, MailTls};
pub use channel::number_facts::{DailyLimit, NumberFacts};
pub use channel::sandbox::{
    AutoDeliver, Sandbox, SandboxMessage, SandboxPhone, SandboxStatus, ScriptedOutcome,
    SentThrough, ThreadMessage, WrittenByCustomer,
};
pub use engine::{
    AdmissionOptions, CallbackError, CallbackReceiver, CheckpointKeeper, ClockRebase, Common,
    CustomStore, Durability, Engine, EngineOptions, Health, KeptCheckpoint, Replica,
    SandboxOptions, SharedRecorder, ShutdownError, StartError, StoredClock, rebase_clock,
    repair_directory, stored_clock,
};
pub use operations::{Operations, SystemFigures, WorkspaceGlance};
pub use postrider_broadcast::{
    Audience, BroadcastOptions, BroadcastPolicy, BroadcastStatus, Variables, with_variables,
};
pub use postrider_number::figures::{
    LaneFigures, NumberError, NumberFigures, NumberState, WorkspaceNumbers,
};
pub use postrider_number::providers::CustomChannel;
pub use postrider_number::record::{
    NewNumber, NewProvider, NumberChange, NumberChangeError, NumberInfo, NumberKind,
};
pub use postrider_people::{
    Arrival, Authenticators, Invite, Joining, Login, Manager, Members, Membership, NewInvite,
    NewLink, NewSession, Password, PasswordError, People, PeopleError, PeopleOptions, Permission,
    Permissions, Person, PersonChange, Recent, RemoteSession, Role, RoleError, Session,
    SessionHolder, SessionRecord, SignedIn, TokenHash,
};
pub use postrider_store::audit_chain::{
    AuditCheck, AuditFault, AuditFilter, AuditMark, AuditPage, AuditRow, DamagedRow, FaultKind,
};
pub use postrider_store::blobs::Staged as StagedMedia;
pub use postrider_webhook::endpoint::{WebhookInfo, WebhookSettings};
pub use postrider_webhook::records::{AttemptId, KeptAttempt as WebhookDelivery};
pub use postrider_webhook::retry_schedule::DisabledReason;
pub use postrider_webhook::signature::WebhookSecret;
pub use postrider_webhook::ssrf::{AddressRules, WebhookUrlError};
pub use postrider_webhook::{
    DeliveriesKept, EndpointHealth, ExchangeHalf, Replay, ReplayError, ShownAttempt, WebhookOptions,
};
pub use postrider_workspace::broadcasts::{
    Broadcast, BroadcastChange, BroadcastCounts, BroadcastError, BroadcastMade, BroadcastPreview,
    BroadcastSample, CreateBroadcastError, NewBroadcast, RecipientError, RecipientRow,
    RecipientStatus, RecipientsPage, RetryBroadcastError, SegmentAudience, VariableSource,
};
pub use postrider_workspace::core::otp::day_counts::OtpCounts;
pub use postrider_workspace::core::otp::types::{
    BlockedBy, CallerContext, CallerKind, Delivery, OtpSent, OtpState, OtpStatus, OtpTry,
    ReadOtpError, ResendOtpError, SendMore, SendOtp, SendOtpError, Verification, VerifyOtpError,
};
pub use postrider_workspace::core::portfolio::{
    LimitSource, MessageMark, PortfolioBudget, PortfolioLimit, PortfolioSetting, UniqueRecipients,
    portfolio_of,
};
pub use postrider_workspace::core::settings::{
    AdaptiveOptions, ChangeError, EventOptions, GuardMode, GuardOptions, MessageOptions,
    OtpOptions, WorkspaceSettings,
};
pub use postrider_workspace::mailbox::watching::{
    ConversationAct, ConversationSign, Progress, Watched,
};
pub use postrider_workspace::messages::{
    MessageContent, MessageError, MessageKind, MessageSent, MessageState, MessageStatus,
    ObjectContent, SendMessage, SendMessageError, TemplateMessage,
};
pub use postrider_workspace::numbers::portfolio::SetPortfolioError;
pub use postrider_workspace::{
    AdDay, CampaignCounts, CampaignDays, CampaignGrouping, CampaignRow, DayRange,
};
pub use postrider_workspace::{
    AddMediaError, MediaBytes, MediaFetch, MediaOptions, MediaState, MediaUnderWay,
};
pub use postrider_workspace::{ChangeContactsError, ChosenContacts, ContactsChange, TagCount};
pub use postrider_workspace::{CheckNumberError, NumberCheck, NumberProblem};
pub use postrider_workspace::{
    Contact, ContactChange, ContactFilter, ContactMade, ContactOrder, ContactRowMade, ContactSort,
    ContactWritten, ContactsCount, ContactsPage, ContactsWalk, CreateContactError,
    CreateSegmentError, DeleteContactError, NewContact, NewContactRow, OnConflict,
    ReadContactError, SEGMENTS_MAX, Segment, SegmentError, SegmentsPage, SortContactsError,
    Suppression, SuppressionsPage, UnsuppressError, UpdateContactError,
};
pub use postrider_workspace::{
    Conversation, ConversationChange, ConversationCounts, ConversationFilter, ConversationMessage,
    ConversationNote, ConversationStatus, ConversationView, ConversationsPage, Direction,
    InboxCounts, InboxDays, MessagesPage, NOTES_MAX, NoteError, NotesPage, QUICK_REPLIES_MAX,
    QuickReply, QuickReplyError, ReadConversationError, ReadReceiptError, ReplyError, ReplyWindow,
    UpdateConversationError, WrittenContent, WrittenContext, WrittenMedia,
};
pub use postrider_workspace::{DecisionData, DecisionFilter, DecisionRow, DecisionsPage};
pub use postrider_workspace::{EmailChannel, ReceiveMailError};
pub use postrider_workspace::{
    EventFilter, EventsBack, EventsPage, IdempotencyKey, IdempotentError, NewTemplate, OtpDays,
    OtpFilter, OtpsPage, Replayable, Route, SetSmsError, SmsInfo, SmsReceipt, SmsReceiptError,
    SmsRoute, Template, TemplateError, TestPhones, UseTemplateError, WebhookChange, WebhookError,
    Workspace,
};
pub use postrider_workspace::{MessageFilter, MessagesListed};
