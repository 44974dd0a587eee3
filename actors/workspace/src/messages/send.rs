//! The acceptance of a message.

use postrider_channel::Failure;
use postrider_channel::outcome::FinalOutcome;
use postrider_domain::content::{TemplateContent, TemplateMessage};
use postrider_domain::template::TemplateCategory;
use postrider_domain::unavailable::{Unavailable, UnavailableReason};
use postrider_domain::{
    Event, MessageContent, MessageId, NumberId, PartyId, RenderedContent, SenderNotes,
};
use postrider_number::{HandedOver, Reservation};
use serde::{Deserialize, Serialize};

use crate::contacts::parties_of;
use crate::conversations::{self, InboxCounts, Wrote};
use crate::core::command::{Command, Context, Footprint};
use crate::core::credits;
use crate::core::message_status::{MessageStatus, Waiter};
use crate::core::senders::sticky_sender;
use crate::core::settings::UseTemplateError;
use crate::messages::content::outbound;
use crate::messages::error::SendMessageError;
use crate::messages::number_choice::{NumberCandidates, open_number, takes, template_number};
use crate::messages::record::MessageState;
use crate::messages::reply_target::ReplyTarget;
use crate::messages::{attached, budget, settle, unwritten};
use crate::suppressions::has_opted_out;
use crate::templates::known_template;

/// A request to send a message.
#[derive(Debug, Clone)]
pub struct SendMessage {
    /// The recipient.
    pub to: PartyId,
    /// The content.
    pub content: MessageContent,
    /// The message that it answers, of the same conversation.
    pub answers: Option<MessageId>,
    /// The sender's notes.
    pub notes: SenderNotes,
    /// The number through which it is to leave, by its id or its phone; `None`: the contact's.
    pub from: Option<Box<str>>,
}

/// A message was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageSent {
    /// The id of the message in every later call.
    pub message_id: MessageId,
    /// `Queued`, or the outcome for a caller that waited for it.
    pub status: MessageStatus,
    /// The number that it leaves through; `None` of a mail.
    pub number: Option<NumberId>,
}

/// The command behind [`crate::Workspace::send_message`].
pub struct Send {
    /// The message.
    pub message: SendMessage,
    /// The number to which the answered message was written; `None` if it answers none.
    pub through: Option<NumberId>,
    /// 80 random bits that make its id unique.
    pub unique: u128,
    /// The caller that waits for the channel's answer.
    pub waiter: Option<Waiter>,
    /// The channel's refusal of the message's file.
    pub refused: Option<Failure>,
}

/// A message that may be sent.
struct CheckedMessage {
    number: NumberId,
    /// Set if another number may take it over.
    may_move: bool,
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
        let Self { message, through, unique, waiter, refused } = self;
        let SendMessage { to, content, answers, notes, from } = message;
        let named = |name: Box<str>| {
            sticky_sender::named(context, &name).ok_or(SendMessageError::UnknownNumber)
        };
        let from = from.map(named).transpose()?;
        // Fallible steps come first, before anything is changed.
        let conversation = conversations::of_party(context, &to)?;
        let written_to = through.or_else(|| conversation.as_ref().and_then(|it| it.number));
        let candidates = NumberCandidates { from, through, written_to };
        let checked = check(context, &to, candidates, content)?;
        let CheckedMessage { number, may_move, price, mut content } = checked;
        let target = ReplyTarget { to: &to, conversation: conversation.as_ref(), number };
        let answers = answers.map(|id| target.channel_id(context, id)).transpose()?;
        target.complete(context, &mut content)?;
        let has_refused = refused.is_some();
        let media = attached::attach(context, number, &mut content, has_refused)?;
        // Only its own number knows the message that it answers.
        let is_pinned = from.is_some() || answers.is_some();
        may_send(context, (number, may_move && !is_pinned), price)?;
        let now = context.now();
        let used = sticky_sender::to_note(context, &to, number, now)?;
        let counted = |_: &_| conversations::note_inbox(context, &InboxCounts::one_sent());
        let noted = conversation.as_ref().map(counted).transpose()?;
        let message_id = MessageId::from_parts(now, unique);
        let new = MessageState::new(message_id, to, (number, price), &content);
        let give_up_at = now.plus(context.core.rules.messages.give_up);
        let file = media.as_ref().map(|media| media.media_id);
        let state =
            MessageState { give_up_at, notes, pinned: is_pinned, answers, media: file, ..new };
        let place = queue(context, (&state, &content), refused.is_none())?;
        // The rest does not fail, so a refused message leaves no changes.
        sticky_sender::put(context, &state.to, used);
        credits::charge(context.core, price, context.effects);
        if let Some(event) = state.event() {
            context.effects.emit(now, event);
        }
        if let Some((conversation, noted)) = conversation.zip(noted) {
            let (kind, text) = (content.kind().as_str(), content.shown_text());
            let wrote = Wrote { id: message_id, kind, text, media };
            conversations::sent(context, conversation, wrote, noted);
        }
        if let Some(failure) = refused {
            settle(context, message_id, &FinalOutcome::Failed(failure))?;
            let status = waiter.map_or(MessageStatus::Queued, |_| MessageStatus::Failed);
            return Ok(MessageSent { message_id, status, number: Some(number) });
        }
        let message = outbound(&context.core.id, &state, content);
        context.effects.outbound.push(HandedOver { message, place });
        if let Some(waiter) = waiter {
            context.effects.await_outcome(message_id, waiter);
        }
        Ok(MessageSent { message_id, status: MessageStatus::Queued, number: Some(number) })
    }
}

/// Queues a message to be sent, and writes its records if it needs them already.
///
/// If its number has a place for it, and it leaves, it is sent once this is durable. There is no
/// commit between the two.
fn queue(
    context: &mut Context<'_>,
    (state, content): (&MessageState, &RenderedContent),
    leaves: bool,
) -> Result<Option<Reservation>, Unavailable> {
    let id = state.message_id;
    let slot = context.number(state.number).filter(|_| leaves);
    let mut place = slot.and_then(|slot| slot.take_place());
    // A message without room in the budget asks again from its number's queue.
    let counts = place.is_some() && state.template.is_some();
    if counts && !budget::count(context, state)? {
        place = None;
    }
    let unwritten = unwritten::encode(context, state, content);
    if unwritten.is_empty() {
        unwritten::write_new(context, state, content.to_bytes());
    }
    let (give_up_at, claimed) = (state.give_up_at, place.is_some());
    let event = Event::MessageQueued { id, give_up_at, claimed, unwritten };
    context.core.perform(event, context.effects);
    Ok(place)
}

/// Checks the content against the rules of its kind: renders a template, and chooses the number.
///
/// Returns the price too.
fn check(
    context: &Context<'_>,
    to: &PartyId,
    candidates: NumberCandidates,
    content: MessageContent,
) -> Result<CheckedMessage, SendMessageError> {
    let mut chosen = None;
    let content = content.try_map_template(|asked| {
        let (number, category, content) = template_through(context, to, candidates, &asked)?;
        chosen = Some(number);
        Ok::<_, SendMessageError>((category, content))
    })?;
    let number = match chosen {
        Some(number) => number,
        None => open_number(context, to, candidates)?,
    };
    let may_move = chosen.is_some() && candidates.from.is_none();
    let class = content.price_class(|(category, _)| *category);
    let price = context.core.rules.prices.of(class);
    let content = content.map_template(|(_, content)| content);
    Ok(CheckedMessage { number, may_move, price, content })
}

/// Returns the number for a template, with the template as that number's account has it.
///
/// Marketing is refused for a recipient who has opted out of it.
fn template_through(
    context: &Context<'_>,
    to: &PartyId,
    candidates: NumberCandidates,
    asked: &TemplateMessage,
) -> Result<(NumberId, TemplateCategory, TemplateContent), SendMessageError> {
    let row = known_template(context, &asked.name, &asked.language)?;
    let pool = &context.core.pool;
    let Some(number) = template_number(context, to, candidates, &row)? else {
        row.check_approved()?;
        row.content(&asked.components).map_err(UseTemplateError::Parameters)?;
        return Err(match pool.first() {
            None => SendMessageError::NotConnected,
            Some(_) => row.refusal(pool).into(),
        });
    };
    let template = row.for_number(pool, number)?;
    let content = template.content(&asked.components).map_err(UseTemplateError::Parameters)?;
    let category = template.category;
    if category == TemplateCategory::Authentication && to.phone().is_none() {
        return Err(SendMessageError::RecipientNeedsPhone);
    }
    if category == TemplateCategory::Marketing {
        for party in parties_of(context, to)? {
            if has_opted_out(context, &party)? {
                return Err(SendMessageError::OptedOut);
            }
        }
    }
    Ok((number, category, content))
}

/// Checks whether a message of this price can be paid for and taken.
///
/// This number may take it now, or another one later if it may move.
fn may_send(
    context: &Context<'_>,
    (number, may_move): (NumberId, bool),
    price: u64,
) -> Result<(), SendMessageError> {
    let available = context.core.credits;
    if available < price {
        return Err(SendMessageError::InsufficientCredits { needed: price, available });
    }
    if context.core.hot.messages.len() >= context.core.rules.messages.unsent_max {
        return Err(Unavailable::because(UnavailableReason::Overloaded).into());
    }
    match context.down_for(number) {
        Some(retry_after) if !takes(context, number, may_move) => {
            Err(Unavailable { reason: UnavailableReason::ChannelDown, retry_after }.into())
        }
        _ => Ok(()),
    }
}
