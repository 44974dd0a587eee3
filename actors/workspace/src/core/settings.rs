//! Pure: the settings that a workspace's rules read, and why a change or a template is refused.

use std::time::Duration;

use postrider_domain::event::chain::ChainStep;
use postrider_domain::otp_text::OtpTexts;
use postrider_domain::template::{Misfit, TemplateName, TemplateStatus};
use postrider_domain::{AdaptiveMode, Destinations, Limits, Prices, Timestamp, Unavailable};
use postrider_number::record::NumberInfo;

use crate::core::pool::Pool;

/// The settings that a workspace's rules read.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// The limits in force.
    pub limits: Limits,
    /// What things cost.
    pub prices: Prices,
    /// Most requests held in memory.
    pub otps_max: usize,
    /// How long messages are worked at.
    pub messages: MessageOptions,
    /// What is done about codes that nobody submits.
    pub guard: GuardOptions,
    /// How one-time passwords are sent and kept.
    pub otp: OtpOptions,
}

/// How one-time passwords are sent, and kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OtpOptions {
    /// How long a step of a chain is waited for that names no time itself, in seconds.
    pub step_timeout_seconds: u16,
    /// How long an ended one can be read.
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

/// How long messages are worked at, and kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageOptions {
    /// A message that the channel has not taken for this long fails; one of a broadcast, since it
    /// was its turn.
    pub give_up: Duration,
    /// A message whose answer got lost this long ago stays `unknown`, whatever is reported later.
    pub unknown_after: Duration,
    /// Messages of one workspace that may wait for the channel; more are refused.
    pub unsent_max: usize,
    /// How long a single message is kept after it was accepted; `None` is for ever. One that may
    /// still be sent, or settled by a report, is kept until that is over.
    pub kept_for: Option<Duration>,
    /// How long what was written in a conversation is kept; `None` is for ever. The conversation
    /// and its contact stay.
    pub written_kept_for: Option<Duration>,
    /// A message made of a template leaves through another number of the pool once its own has been
    /// down for this long.
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

/// What is done about many one-time passwords to one country that nobody verifies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GuardOptions {
    /// As many of a workspace in an hour to one country calling code are suspicious; 0 is never.
    pub unverified_per_prefix_hour: u32,
    /// What is done then.
    pub mode: GuardMode,
    /// What is done about destinations whose codes are rarely verified.
    pub adaptive: AdaptiveOptions,
}

/// When a destination is limited because few of its codes are verified, and what that means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdaptiveOptions {
    /// What is done about codes to it, in workspaces that do not say so themselves.
    pub mode: AdaptiveMode,
    /// Codes that were sent in the last so many seconds count.
    pub window_seconds: u16,
    /// So many of them must have ended.
    pub min_sends: u32,
    /// It is limited if fewer of a hundred were verified.
    pub conversion_percent: u8,
    /// It stays limited for so many seconds after the codes last showed it.
    pub hold_seconds: u32,
    /// So many of a hundred phones are sent codes nevertheless, `min_sends` in a window at most.
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

/// What is done about suspicious one-time passwords.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GuardMode {
    /// They are reported, and sent.
    #[default]
    Report,
    /// They are reported, and not sent.
    Refuse,
}

/// What a workspace is set to, and how much it holds.
#[derive(Debug, Clone)]
pub struct WorkspaceSettings {
    /// What people call it.
    pub name: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// The balance.
    pub credits: u64,
    /// The limits in force.
    pub limits: Limits,
    /// What things cost.
    pub prices: Prices,
    /// Where one-time passwords may go.
    pub destinations: Destinations,
    /// The template that carries one-time passwords.
    pub otp_template: TemplateName,
    /// Over which channels codes arrive whose request names none; empty: the chat-app channel.
    pub otp_channels: Vec<ChainStep>,
    /// What codes are written in over SMS and mail: the workspace's own texts.
    pub otp_texts: OtpTexts,
    /// The connected numbers, oldest first.
    pub numbers: Vec<NumberInfo>,
    /// Requests for one-time passwords in memory.
    pub otps: usize,
    /// One-time passwords of the last hour, as its limit counts them.
    pub otps_last_hour: usize,
    /// When the oldest of those is counted no longer.
    pub otps_counted_until: Option<Timestamp>,
    /// Requests to make contacts that the limit of a minute still counts.
    pub contacts_last_minute: u32,
}

/// Why a setting, a number or a balance of a workspace was not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// The balance would be more than [`CREDITS_MAX`](postrider_domain::prices::CREDITS_MAX).
    #[error("the balance would be too large")]
    TooManyCredits,
    /// It has no such number.
    #[error("no such number")]
    NoSuchNumber,
    /// It has as many numbers as it may.
    #[error("a workspace has at most {} numbers", Pool::NUMBERS_MAX)]
    TooManyNumbers,
    /// It cannot be taken now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// Why a template cannot be sent. Nothing was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UseTemplateError {
    /// The workspace has none of that name and language.
    #[error("there is no template of that name and language")]
    NoSuchTemplate,
    /// The channel does not allow it.
    #[error("the template is not approved: it is {}", .0.as_str())]
    NotApproved(TemplateStatus),
    /// The parameters do not fit it; the path begins with `components`.
    #[error(transparent)]
    Parameters(#[from] Misfit),
    /// It cannot be looked up now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}
