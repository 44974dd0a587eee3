//! Single messages: accepted, handed over, and followed until it is known what became of them.

mod api;
mod content;
#[cfg(test)]
mod golden;
mod record;
pub mod send;
pub mod service_window;
mod settle;
pub mod waiters;

use std::time::Duration;

pub use record::{MessageError, MessageKind, MessageState, MessageStatus};
pub use send::{MessageContent, MessageSent, SendMessage, SendMessageError, TemplateMessage};

pub(crate) use content::unsent;
pub(crate) use send::Send;
pub(crate) use settle::{report, settle};

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
