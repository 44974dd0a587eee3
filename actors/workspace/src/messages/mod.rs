//! Single messages: accepted, handed over, and followed until their outcome is known.

mod api;
mod attached;
mod budget;
mod compact;
mod content;
mod counted_recipients;
#[cfg(test)]
mod golden;
pub(crate) mod index;
mod moving;
mod record;
mod reply_error;
pub mod send;
pub mod service_window;
mod settle;
mod spoken_of;
mod sweep;
mod upload;
mod used;
mod waiting;

pub use crate::core::message_status::MessageStatus;
pub use postrider_domain::content::{MessageContent, MessageKind, ObjectContent, TemplateMessage};
pub use record::{MessageError, MessageState};
pub use reply_error::ReplyError;
pub use send::{MessageSent, SendMessage, SendMessageError};

pub(crate) use budget::{
    Room, count_code, full_numbers, give_back_code, limit_in, may_claim, release, rooms,
};
pub(crate) use content::unsent;
pub(crate) use counted_recipients::long_counted;
pub(crate) use moving::move_message;
pub(crate) use send::Send;
pub(crate) use service_window::window_end;
pub(crate) use settle::{report, settle};
pub(crate) use sweep::too_old;
pub(crate) use upload::Uploaded;
pub(crate) use used::{newest_message, used_with};
