//! Accepting a message.

use serde::{Deserialize, Serialize};

use crate::channel::Content;
use crate::domain::text::MessageText;
use crate::domain::{Event, MessageId, Phone};
use crate::store::Table;
use crate::workspace::command::{Command, Context};
use crate::workspace::messages::{Unavailable, UnavailableReason};
use crate::workspace::window;

use super::content::{StoredContent, outbound};
use super::state::{MessageKind, MessageState, MessageStatus};
use super::waiters::Waiter;

/// Asks for a message to be sent.
#[derive(Debug, Clone)]
pub struct SendMessage {
    /// Who gets it.
    pub to: Phone,
    /// What it says.
    pub content: MessageContent,
}

/// What a message says.
#[derive(Debug, Clone)]
pub enum MessageContent {
    /// Free text, to somebody who has written in the last 24 hours.
    Text(MessageText),
}

/// A message was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageSent {
    /// Names the message from now on.
    pub message_id: MessageId,
    /// `Queued`, or what became of it for somebody who waited for that.
    pub status: MessageStatus,
}

/// Why a message was not accepted. It cost nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendMessageError {
    /// The workspace has no messaging number.
    #[error("the workspace has no active messaging number")]
    NotConnected,
    /// Free text, and the recipient has not written in the last 24 hours.
    #[error("the recipient has not written in the last 24 hours: only a template may be sent")]
    WindowClosed,
    /// The workspace cannot pay for it.
    #[error("not enough credits: {needed} needed, {available} available")]
    InsufficientCredits {
        /// The price.
        needed: u64,
        /// The balance.
        available: u64,
    },
    /// It cannot be taken now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// The command behind [`crate::Workspace::send_message`].
pub(super) struct Send {
    pub(super) message: SendMessage,
    pub(super) unique: u128,
    /// Who waits for the channel's answer.
    pub(super) waiter: Option<Waiter>,
}

/// What a message needs before it can be accepted.
struct Checked {
    kind: MessageKind,
    price: u64,
    stored: StoredContent,
    content: Content,
}

impl Command for Send {
    type Answer = MessageSent;
    type Error = SendMessageError;

    fn carry_out(self, context: &mut Context<'_>) -> Result<MessageSent, SendMessageError> {
        let Self { message: SendMessage { to, content }, unique, waiter } = self;
        let number = context.core.number.ok_or(SendMessageError::NotConnected)?;
        let Checked { kind, price, stored, content } = match content {
            MessageContent::Text(text) => {
                if !window::is_open(context, number, to)? {
                    return Err(SendMessageError::WindowClosed);
                }
                let text = text.as_str();
                Checked {
                    kind: MessageKind::Text,
                    price: context.core.rules.prices.text,
                    stored: StoredContent::Text((**text).into()),
                    content: Content::Text(text.clone()),
                }
            }
        };
        may_send(context, price)?;
        let now = context.now();
        let message_id = MessageId::from_parts(now, unique);
        let state = MessageState {
            message_id,
            to,
            kind,
            status: MessageStatus::Queued,
            error: None,
            number,
            price,
            created_at: now,
            give_up_at: now.plus(context.core.rules.messages.give_up),
            unknown_at: None,
            sent_at: None,
            delivered_at: None,
            read_at: None,
            failed_at: None,
        };
        let event = Event::MessageQueued { id: message_id, give_up_at: state.give_up_at };
        context.core.perform(event, context.effects);
        context.core.set_credits(context.core.credits - price, context.effects);
        if let Some(event) = state.event() {
            context.effects.tell(now, event);
        }
        let workspace = context.core.id.clone();
        context.put_json(Table::Messages, StoredContent::key(&workspace, message_id), &stored);
        context.put_json(Table::Messages, MessageState::key(&workspace, message_id), &state);
        context.effects.outbound.push(outbound(&workspace, &state, content));
        if let Some(waiter) = waiter {
            context.waiters.add(message_id, waiter);
        }
        Ok(MessageSent { message_id, status: MessageStatus::Queued })
    }
}

/// Whether a message of this price can be paid for and taken now.
fn may_send(context: &Context<'_>, price: u64) -> Result<(), SendMessageError> {
    let available = context.core.credits;
    if available < price {
        return Err(SendMessageError::InsufficientCredits { needed: price, available });
    }
    if context.core.hot.messages.len() >= context.core.rules.messages.unsent_max {
        return Err(Unavailable::because(UnavailableReason::Overloaded).into());
    }
    match context.number.and_then(|number| number.down_for(context.now())) {
        None => Ok(()),
        Some(retry_after) => {
            Err(Unavailable { reason: UnavailableReason::ChannelDown, retry_after }.into())
        }
    }
}
