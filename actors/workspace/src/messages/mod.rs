//! Single messages: accepted, handed over, and followed until their outcome is known.

mod api;
mod attached;
mod budget;
mod content;
mod error;
#[cfg(test)]
mod golden;
pub(crate) mod index;
mod number_choice;
mod record;
mod reply_target;
pub mod send;
pub mod service_window;
mod settle;
pub mod texts;
mod unwritten;

pub use crate::core::message_status::MessageStatus;
pub use error::{ReplyError, SendMessageError};
pub use postrider_domain::content::{MessageContent, MessageKind, ObjectContent, TemplateMessage};
pub use record::{MessageError, MessageState};
pub use send::{MessageSent, SendMessage};

pub(crate) use attached::Uploaded;
pub(crate) use budget::{
    BudgetRoom, count_code, expired_recipients, full_numbers, give_back_code, limit_in, may_claim,
    release, rooms,
};
pub(crate) use content::unsent;
pub(crate) use index::expired_messages;
pub(crate) use number_choice::{last_sender, move_message, newest_message};
pub(crate) use send::Send;
pub(crate) use service_window::window_end;
pub(crate) use settle::{report, settle};
pub(crate) use unwritten::{in_memory, write_old};
