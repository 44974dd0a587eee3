//! Accepting a message.

use serde::{Deserialize, Serialize};

use crate::contacts::parties_of;
use crate::conversations;
use crate::conversations::Wrote;
use crate::core::command::{Command, Context, Footprint};
use crate::core::message_status::MessageStatus;
use crate::core::settings::UseTemplateError;
use crate::core::waiters::Waiter;
use crate::messages::service_window;
use crate::suppressions::has_opted_out;
use crate::templates::use_template;
use postrider_domain::template::TemplateCategory;
use postrider_domain::unavailable::{Unavailable, UnavailableReason};
use postrider_domain::{
    Event, MessageContent, MessageId, NumberId, PartyId, RenderedContent, SenderNotes,
};
use postrider_number::capacity::HandedOver;
use postrider_number::record::NumberInfo;
use postrider_store::Table;

use crate::messages::content::{content_key, outbound};
use crate::messages::index;
use crate::messages::record::MessageState;

/// Asks for a message to be sent.
#[derive(Debug, Clone)]
pub struct SendMessage {
    /// Who gets it.
    pub to: PartyId,
    /// What it says.
    pub content: MessageContent,
    /// What its sender notes of it.
    pub notes: SenderNotes,
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
    /// Free text, and the recipient has not written to a connected number in the last 24 hours.
    #[error(
        "the recipient has not written to a connected number in the last 24 hours: only a template \
         may be sent"
    )]
    WindowClosed,
    /// The template cannot be sent so.
    #[error(transparent)]
    Template(#[from] UseTemplateError),
    /// The template is marketing, and the recipient wants none.
    #[error("the recipient has opted out of marketing")]
    OptedOut,
    /// The template is for authentication, and the recipient is not given by phone.
    #[error("an authentication template goes to a phone only")]
    RecipientNeedsPhone,
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
pub struct Send {
    /// The message.
    pub message: SendMessage,
    /// The number that what it answers was written to; nothing of one that answers nothing.
    pub through: Option<NumberId>,
    /// 80 random bits that make its id unique.
    pub unique: u128,
    /// Who waits for the channel's answer.
    pub waiter: Option<Waiter>,
}

/// A message that may be sent.
struct Checked {
    number: NumberId,
    price: u64,
    content: RenderedContent,
}

impl Command for Send {
    type Answer = MessageSent;
    type Error = SendMessageError;

    const FOOTPRINT: Footprint = Footprint::Grows;
    const SENDS: bool = true;
    const SHARES_SUBMIT: bool = true;

    fn carry_out(self, context: &mut Context<'_>) -> Result<MessageSent, SendMessageError> {
        let Self { message: SendMessage { to, content, notes }, through, unique, waiter } = self;
        // Before anything is changed: what can fail is done first.
        let conversation = conversations::of_party(context, &to)?;
        let written_to = through.or_else(|| conversation.as_ref().and_then(|it| it.number));
        let checked = check(context, &to, through, written_to, content)?;
        let Checked { number, price, content } = checked;
        may_send(context, number, price)?;
        let now = context.now();
        let message_id = MessageId::from_parts(now, unique);
        let state = MessageState {
            message_id,
            to,
            kind: content.kind(),
            template: content.template().map(|content| content.template.clone()),
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
            notes,
            broadcast: None,
        };
        let event = Event::MessageQueued { id: message_id, give_up_at: state.give_up_at };
        context.core.perform(event, context.effects);
        let place = context.number(number).and_then(|slot| slot.take_place());
        if place.is_some() {
            // It goes out as soon as this is durable, with no commit between the two.
            context.core.perform(Event::MessageClaimed { id: message_id }, context.effects);
        }
        context.core.set_credits(context.core.credits - price, context.effects);
        if let Some(event) = state.event() {
            context.effects.emit(now, event);
        }
        let workspace = context.core.id.clone();
        write(context, &state, &content);
        if let Some(conversation) = conversation {
            let (kind, text) = (content.kind().as_str(), content.text());
            let wrote = Wrote { id: message_id, kind, text };
            conversations::sent(context, conversation, &wrote);
        }
        let message = outbound(&workspace, &state, content);
        context.effects.outbound.push(HandedOver { message, place });
        if let Some(waiter) = waiter {
            context.effects.await_outcome(message_id, waiter);
        }
        Ok(MessageSent { message_id, status: MessageStatus::Queued })
    }
}

/// Writes a new message: its record, its content, and what it is found by.
fn write(context: &mut Context<'_>, state: &MessageState, content: &RenderedContent) {
    let workspace = context.core.id.clone();
    context.put_json(Table::Messages, content_key(&workspace, state.message_id), content);
    context.put_json(Table::Messages, MessageState::key(&workspace, state.message_id), state);
    for key in index::keys(&workspace, state) {
        context.put(Table::MessageIndex, key, Vec::new());
    }
}

/// Checks the content against the rules of its kind: renders a template, chooses the number, and
/// gives the price. `through` is the number that the message replies to, and `written_to` the one
/// that the recipient last wrote to.
fn check(
    context: &Context<'_>,
    to: &PartyId,
    through: Option<NumberId>,
    written_to: Option<NumberId>,
    content: MessageContent,
) -> Result<Checked, SendMessageError> {
    let content = content.try_map_template(|asked| use_template(context, &asked))?;
    let number = match content.template() {
        Some((template, _)) => template_number(context, to, through, template.category)?,
        None => open_number(context, to, written_to)?,
    };
    let class = content.price_class(|(template, _)| template.category);
    let price = context.core.rules.prices.of(class);
    Ok(Checked { number, price, content: content.map_template(|(_, content)| content) })
}

/// The number for free-form content, which the channel accepts only while a conversation window is
/// open: that of the number that the recipient last wrote to, if it is still connected, or of
/// another one.
fn open_number(
    context: &Context<'_>,
    to: &PartyId,
    written_to: Option<NumberId>,
) -> Result<NumberId, SendMessageError> {
    let preferred = through(context, written_to).ok_or(SendMessageError::NotConnected)?;
    let others = context.numbers.iter().map(|(id, _)| *id).filter(|id| *id != preferred);
    for number in [preferred].into_iter().chain(others) {
        if service_window::is_open(context, number, to)? {
            return Ok(number);
        }
    }
    Err(SendMessageError::WindowClosed)
}

/// The number for a template of this category. Marketing goes to nobody who has opted out of it.
fn template_number(
    context: &Context<'_>,
    to: &PartyId,
    written_to: Option<NumberId>,
    category: TemplateCategory,
) -> Result<NumberId, SendMessageError> {
    if category == TemplateCategory::Authentication && to.phone().is_none() {
        return Err(SendMessageError::RecipientNeedsPhone);
    }
    let has_template = |id: &NumberId| has_templates(context, *id);
    let number = through(context, written_to.filter(has_template));
    let number = number.ok_or(SendMessageError::NotConnected)?;
    if category == TemplateCategory::Marketing {
        for party in parties_of(context, to)? {
            if has_opted_out(context, &party)? {
                return Err(SendMessageError::OptedOut);
            }
        }
    }
    Ok(number)
}

/// The number that a message leaves through: the one that was written to, if it is still connected,
/// or the workspace's oldest, which can send everything.
fn through(context: &Context<'_>, written_to: Option<NumberId>) -> Option<NumberId> {
    let connected = |id: &NumberId| context.number(*id).is_some();
    written_to.filter(connected).or(context.core.number)
}

/// Whether a number can send the workspace's templates: they are those of the account of its oldest
/// number that has one, and a number without an account takes any.
fn has_templates(context: &Context<'_>, number: NumberId) -> bool {
    let account = |of: &NumberInfo| of.account.as_ref().map(|account| account.account_id.clone());
    let own = context.connected.iter().find(|known| known.id == number).and_then(account);
    own.is_none() || own == context.connected.iter().find_map(account)
}

/// Whether a message of this price can be paid for and taken by this number now.
fn may_send(context: &Context<'_>, number: NumberId, price: u64) -> Result<(), SendMessageError> {
    let available = context.core.credits;
    if available < price {
        return Err(SendMessageError::InsufficientCredits { needed: price, available });
    }
    if context.core.hot.messages.len() >= context.core.rules.messages.unsent_max {
        return Err(Unavailable::because(UnavailableReason::Overloaded).into());
    }
    match context.down_for(number) {
        None => Ok(()),
        Some(retry_after) => {
            Err(Unavailable { reason: UnavailableReason::ChannelDown, retry_after }.into())
        }
    }
}
