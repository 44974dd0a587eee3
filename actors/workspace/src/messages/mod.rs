//! Single messages: accepted, handed over, and followed until it is known what became of them.

mod api;
mod content;
#[cfg(test)]
mod golden;
mod record;
mod reply_error;
pub mod send;
pub mod service_window;
mod settle;
pub mod waiters;

pub use record::{MessageError, MessageKind, MessageState, MessageStatus};
pub use reply_error::ReplyError;
pub use send::{MessageContent, MessageSent, SendMessage, SendMessageError, TemplateMessage};

pub(crate) use content::unsent;
pub(crate) use send::Send;
pub(crate) use settle::{report, settle};
