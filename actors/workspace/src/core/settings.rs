//! Pure: the settings of a workspace's rules and event log, and the reasons to refuse a change.

use std::time::Duration;

use postrider_domain::event::chain::ChainStep;
use postrider_domain::otp_text::OtpTexts;
use postrider_domain::template::{Misfit, TemplateName, TemplateStatus};
use postrider_domain::{AdaptiveMode, Destinations, Limits, Prices, Timestamp, Unavailable};
use postrider_number::record::NumberInfo;

use crate::core::senders::pool::Pool;

/// The settings that a workspace's rules read.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// The limits in force.
    pub limits: Limits,
    /// The prices of messages.
    pub prices: Prices,
    /// The maximum of requests held in memory.
    pub otps_max: usize,
    /// The retry and retention times of messages.
    pub messages: MessageOptions,
    /// The guard against codes that nobody submits.
    pub guard: GuardOptions,
    /// The options of one-time passwords.
    pub otp: OtpOptions,
}

/// Options for sending and keeping one-time passwords.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OtpOptions {
    /// The time of a chain's step that names none itself, in seconds.
    pub step_timeout_seconds: u16,
    /// The retention time of an ended request.
    pub kept_for: Duration,
}

impl Default for OtpOptions {
    fn default() -> Self {
        Self { step_timeout_seconds: 30, kept_for: Duration::from_secs(30 * 24 * 3600) }
    }
}

/// A change of the balance.
#[derive(Debug, Clone, Copy)]
pub enum CreditsChange {
    /// To this.
    Set(u64),
    /// By this much more.
    Add(u64),
}

/// The retry and retention times of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageOptions {
    /// The time after which a message fails that the channel has not taken. It runs for one of a
    /// broadcast since it was its turn.
    pub give_up: Duration,
    /// A message whose answer got lost this long ago stays `unknown`, whatever is reported later.
    pub unknown_after: Duration,
    /// Messages of one workspace that may wait for the channel; more are refused.
    pub unsent_max: usize,
    /// The retention time of a single message after it was accepted; `None` is for ever. A message
    /// that may still be sent, or settled by a report, is kept until that is over.
    pub kept_for: Option<Duration>,
    /// The retention time of the entries of a conversation; `None` is for ever. The conversation
    /// and its contact stay.
    pub written_kept_for: Option<Duration>,
    /// The time for which a number must have been down before a template message moves to another
    /// one.
    pub reassign_after: Duration,
}

impl Default for MessageOptions {
    fn default() -> Self {
        let day = Duration::from_secs(24 * 3600);
        Self {
            give_up: day,
            unknown_after: day,
            unsent_max: 1_000_000,
            reassign_after: Duration::from_secs(60),
            kept_for: Some(365 * day),
            written_kept_for: None,
        }
    }
}

/// The retention of an event log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventOptions {
    /// The time for which events are kept.
    pub kept_for: Duration,
    /// The maximum number of a workspace's events.
    pub kept_max: u64,
    /// The maximum bytes of a workspace's events.
    pub kept_bytes_max: u64,
}

impl Default for EventOptions {
    /// Returns thirty days, four million events (about a gigabyte, as most are), and two gigabytes.
    fn default() -> Self {
        Self {
            kept_for: Duration::from_secs(30 * 24 * 3600),
            kept_max: 4_000_000,
            kept_bytes_max: 2 << 30,
        }
    }
}

/// The guard against many one-time passwords to one country that nobody verifies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GuardOptions {
    /// The number of a workspace's codes in an hour to one calling code that is suspicious; 0 is
    /// never.
    pub unverified_per_prefix_hour: u32,
    /// The reaction to suspicious codes.
    pub mode: GuardMode,
    /// The limits on destinations whose codes are rarely verified.
    pub adaptive: AdaptiveOptions,
}

/// The conditions and the effect of limits on destinations where few codes are verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdaptiveOptions {
    /// The effect on codes to such a destination, in workspaces that do not set one themselves.
    pub mode: AdaptiveMode,
    /// The window in seconds: codes that were sent within it count.
    pub window_seconds: u16,
    /// The number of codes that must have ended.
    pub min_sends: u32,
    /// The percentage of verified codes below which a destination is limited.
    pub conversion_percent: u8,
    /// The seconds that a destination stays limited after the codes last showed it.
    pub hold_seconds: u32,
    /// The percentage of phones that are sent codes nevertheless, `min_sends` in a window at most.
    pub probe_percent: u8,
}

impl Default for AdaptiveOptions {
    fn default() -> Self {
        Self {
            mode: AdaptiveMode::Off,
            window_seconds: 3600,
            min_sends: 50,
            conversion_percent: 10,
            hold_seconds: 3600,
            probe_percent: 10,
        }
    }
}

/// The reaction to suspicious one-time passwords.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GuardMode {
    /// They are reported, and sent.
    #[default]
    Report,
    /// They are reported, and not sent.
    Refuse,
}

/// The settings and the contents of a workspace.
#[derive(Debug, Clone)]
pub struct WorkspaceSettings {
    /// The display name.
    pub name: String,
    /// The time of creation.
    pub created_at: Timestamp,
    /// The balance.
    pub credits: u64,
    /// The limits in force.
    pub limits: Limits,
    /// The prices of messages.
    pub prices: Prices,
    /// The destinations to which one-time passwords may go.
    pub destinations: Destinations,
    /// The template that carries one-time passwords.
    pub otp_template: TemplateName,
    /// The channels of codes whose request names none; empty: the chat-app channel.
    pub otp_channels: Vec<ChainStep>,
    /// The workspace's own texts of codes over SMS and mail.
    pub otp_texts: OtpTexts,
    /// The connected numbers, oldest first.
    pub numbers: Vec<NumberInfo>,
    /// Requests for one-time passwords in memory.
    pub otps: usize,
    /// One-time passwords of the last hour, as the workspace's limit counts them.
    pub otps_last_hour: usize,
    /// The time at which the oldest of those no longer counts.
    pub otps_counted_until: Option<Timestamp>,
    /// Requests to create contacts that the limit of a minute still counts.
    pub contacts_last_minute: u32,
}

/// The reason why a setting, a number or a balance of a workspace was not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// The balance would be more than [`CREDITS_MAX`](postrider_domain::prices::CREDITS_MAX).
    #[error("the balance would be too large")]
    TooManyCredits,
    /// The workspace has no such number.
    #[error("no such number")]
    NoSuchNumber,
    /// The workspace has as many numbers as it may.
    #[error("a workspace has at most {} numbers", Pool::NUMBERS_MAX)]
    TooManyNumbers,
    /// The change cannot be taken now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// The reason why a template cannot be sent. Nothing was sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UseTemplateError {
    /// The workspace has no template of that name and language.
    #[error("there is no template of that name and language")]
    NoSuchTemplate,
    /// The channel does not allow the template.
    #[error("the template is not approved: it is {}", .0.as_str())]
    NotApproved(TemplateStatus),
    /// The parameters do not fit the template; the path starts with `components`.
    #[error(transparent)]
    Parameters(#[from] Misfit),
    /// The template cannot be looked up now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}
