//! Single messages: accepted, handed over, and followed until it is known what became of them.

mod content;
mod handle;
mod learn;
pub mod send;
mod state;
pub mod waiters;

use std::time::Duration;

pub use send::{MessageContent, MessageSent, SendMessage, SendMessageError, TemplateMessage};
pub use state::{MessageError, MessageKind, MessageState, MessageStatus};

pub(super) use content::unsent;
pub(super) use learn::{report, settle};
pub(super) use send::Send;

/// How long messages are worked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageOptions {
    /// A message that the channel has not taken for this long fails; one of a broadcast, since it was
    /// its turn.
    pub give_up: Duration,
    /// A message whose answer got lost this long ago stays `unknown`, whatever is reported later.
    pub unknown_after: Duration,
    /// Messages of one workspace that may wait for the channel; more are refused.
    pub unsent_max: usize,
}

impl Default for MessageOptions {
    fn default() -> Self {
        let day = Duration::from_secs(24 * 3600);
        Self { give_up: day, unknown_after: day, unsent_max: 1_000_000 }
    }
}
