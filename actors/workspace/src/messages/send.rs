//! The acceptance of a message.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::contacts::parties_of;
use crate::conversations;
use crate::conversations::{InboxCounts, Wrote};
use crate::core::command::{Command, Context, Footprint};
use crate::core::message_status::MessageStatus;
use crate::core::settings::UseTemplateError;
use crate::core::sticky;
use crate::core::waiters::Waiter;
use crate::messages::service_window;
use crate::suppressions::has_opted_out;
use crate::templates::known_template;
use postrider_channel::Failure;
use postrider_channel::outcome::FinalOutcome;
use postrider_domain::content::{TemplateContent, TemplateMessage};
use postrider_domain::template::TemplateCategory;
use postrider_domain::unavailable::{Unavailable, UnavailableReason};
use postrider_domain::{
    Event, MediaId, MessageContent, MessageId, MessageKind, NumberId, PartyId, RenderedContent,
    SenderNotes,
};
use postrider_number::capacity::{HandedOver, Reservation};
use postrider_store::Table;

use crate::messages::attached;
use crate::messages::budget;
use crate::messages::content::{content_key, outbound};
use crate::messages::index;
use crate::messages::record::MessageState;
use crate::messages::settle;
use crate::messages::spoken_of::SpokenOf;

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

/// The reason why a message was not accepted. It cost nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendMessageError {
    /// The workspace has no messaging number.
    #[error("the workspace has no active messaging number")]
    NotConnected,
    /// It is to leave through a number that the workspace does not have.
    #[error("the workspace has no such number")]
    UnknownNumber,
    /// Free text, and the recipient has not written to a connected number in the last 24 hours.
    #[error(
        "the recipient has not written to a connected number in the last 24 hours: only a template \
         may be sent"
    )]
    WindowClosed,
    /// The template cannot be sent.
    #[error(transparent)]
    Template(#[from] UseTemplateError),
    /// The template is marketing, and the recipient has opted out of it.
    #[error("the recipient has opted out of marketing")]
    OptedOut,
    /// The template is for authentication, and the recipient is not given by phone.
    #[error("an authentication template goes to a phone only")]
    RecipientNeedsPhone,
    /// It is about a message that is not of the conversation, or of which the channel has no id.
    #[error("no such message in the conversation with the recipient")]
    UnknownMessage,
    /// There is no such file, or one of another kind.
    #[error("must be the id of an uploaded file that can be sent as {}", .kind.as_str())]
    UnknownMedia {
        /// The kind of the message.
        kind: MessageKind,
    },
    /// The channel does not have the file for this number. The sender has it uploaded.
    #[error("the file must be uploaded first")]
    NotUploaded {
        /// The number.
        number: NumberId,
        /// The file.
        media: MediaId,
    },
    /// The workspace cannot pay for it.
    #[error("not enough credits: {needed} needed, {available} available")]
    InsufficientCredits {
        /// The price.
        needed: u64,
        /// The balance.
        available: u64,
    },
    /// The message cannot be taken now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
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

/// The candidates for the number of a message.
#[derive(Clone, Copy)]
struct Wanted {
    /// The number that its sender names.
    from: Option<NumberId>,
    /// The number to which the answered message was written.
    through: Option<NumberId>,
    /// The number to which the recipient last wrote.
    written_to: Option<NumberId>,
}

/// A message that may be sent.
struct Checked {
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
        let named =
            |name: Box<str>| sticky::named(context, &name).ok_or(SendMessageError::UnknownNumber);
        let from = from.map(named).transpose()?;
        // Fallible steps come first, before anything is changed.
        let conversation = conversations::of_party(context, &to)?;
        let written_to = through.or_else(|| conversation.as_ref().and_then(|it| it.number));
        let wanted = Wanted { from, through, written_to };
        let checked = check(context, &to, wanted, content)?;
        let Checked { number, may_move, price, mut content } = checked;
        let spoken_of = SpokenOf { to: &to, conversation: conversation.as_ref(), number };
        let answers = answers.map(|id| spoken_of.channel_id(context, id)).transpose()?;
        spoken_of.complete(context, &mut content)?;
        let has_refused = refused.is_some();
        let media = attached::attach(context, number, &mut content, has_refused)?;
        // Only its own number knows the message that it answers.
        let is_pinned = from.is_some() || answers.is_some();
        may_send(context, (number, may_move && !is_pinned), price)?;
        let now = context.now();
        let used = sticky::to_note(context, &to, number, now)?;
        let counted = |_: &_| conversations::note_inbox(context, &InboxCounts::one_sent());
        let noted = conversation.as_ref().map(counted).transpose()?;
        let message_id = MessageId::from_parts(now, unique);
        let new = MessageState::new(message_id, to, (number, price), &content);
        let give_up_at = now.plus(context.core.rules.messages.give_up);
        let file = media.as_ref().map(|media| media.media_id);
        let state =
            MessageState { give_up_at, notes, pinned: is_pinned, answers, media: file, ..new };
        let place = queue(context, &state, refused.is_none())?;
        // The rest does not fail, so a refused message leaves no changes.
        sticky::put(context, &state.to, used);
        context.core.set_credits(context.core.credits - price, context.effects);
        if let Some(event) = state.event() {
            context.effects.emit(now, event);
        }
        let workspace = context.core.id.clone();
        write(context, &state, &content);
        if let Some((conversation, noted)) = conversation.zip(noted) {
            let (kind, text) = (content.kind().as_str(), content.text());
            let wrote = Wrote { id: message_id, kind, text, media };
            conversations::sent(context, conversation, wrote, noted);
        }
        if let Some(failure) = refused {
            settle(context, message_id, &FinalOutcome::Failed(failure))?;
            let status = waiter.map_or(MessageStatus::Queued, |_| MessageStatus::Failed);
            return Ok(MessageSent { message_id, status, number: Some(number) });
        }
        let message = outbound(&workspace, &state, content);
        context.effects.outbound.push(HandedOver { message, place });
        if let Some(waiter) = waiter {
            context.effects.await_outcome(message_id, waiter);
        }
        Ok(MessageSent { message_id, status: MessageStatus::Queued, number: Some(number) })
    }
}

/// Queues a message to be sent.
///
/// If its number has a place for it, and it leaves, it is sent once this is durable. There is no
/// commit between the two.
fn queue(
    context: &mut Context<'_>,
    state: &MessageState,
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
    let event = Event::MessageQueued { id, give_up_at: state.give_up_at };
    context.core.perform(event, context.effects);
    if place.is_some() {
        context.core.perform(Event::MessageClaimed { id }, context.effects);
    }
    Ok(place)
}

/// Writes a new message: its record, its content, and its index entries.
fn write(context: &mut Context<'_>, state: &MessageState, content: &RenderedContent) {
    let workspace = context.core.id.clone();
    context.put(Table::Messages, content_key(&workspace, state.message_id), content.to_bytes());
    state.write(context);
    for key in index::keys(&workspace, state) {
        context.put(Table::MessageIndex, key, Vec::new());
    }
}

/// Checks the content against the rules of its kind: renders a template, and chooses the number.
///
/// Returns the price too.
fn check(
    context: &Context<'_>,
    to: &PartyId,
    wanted: Wanted,
    content: MessageContent,
) -> Result<Checked, SendMessageError> {
    let mut chosen = None;
    let content = content.try_map_template(|asked| {
        let (number, category, content) = template_through(context, to, wanted, &asked)?;
        chosen = Some(number);
        Ok::<_, SendMessageError>((category, content))
    })?;
    let number = match chosen {
        Some(number) => number,
        None => open_number(context, to, wanted)?,
    };
    let may_move = chosen.is_some() && wanted.from.is_none();
    let class = content.price_class(|(category, _)| *category);
    let price = context.core.rules.prices.of(class);
    let content = content.map_template(|(_, content)| content);
    Ok(Checked { number, may_move, price, content })
}

/// Returns the number for free-form content.
///
/// The channel accepts it only while a conversation window is open. It is that of the number to
/// which the recipient last wrote, if it is still connected, or of another one. If the sender names
/// one, no other will do.
fn open_number(
    context: &Context<'_>,
    to: &PartyId,
    Wanted { from, written_to, .. }: Wanted,
) -> Result<NumberId, SendMessageError> {
    let connected = || context.numbers.iter().map(|(id, _)| *id);
    connected().next().ok_or(SendMessageError::NotConnected)?;
    let preferred = from.or_else(|| connected().find(|id| Some(*id) == written_to));
    let others = connected().filter(|id| from.is_none() && Some(*id) != preferred);
    for number in preferred.into_iter().chain(others) {
        if service_window::is_open(context, number, to)? {
            return Ok(number);
        }
    }
    Err(SendMessageError::WindowClosed)
}

/// Returns the number for a template, with the template as that number's account has it.
///
/// Marketing is refused for a recipient who has opted out of it.
fn template_through(
    context: &Context<'_>,
    to: &PartyId,
    Wanted { from, through, .. }: Wanted,
    asked: &TemplateMessage,
) -> Result<(NumberId, TemplateCategory, TemplateContent), SendMessageError> {
    let row = known_template(context, &asked.name, &asked.language)?;
    let pool = &context.core.pool;
    let is_stuck = |number: &NumberId| !takes(context, *number, true);
    let through = through.filter(|it| row.can_leave(pool, *it) && !is_stuck(it));
    let number = match from.or(through) {
        Some(number) => Some(number),
        None => {
            let has = |account: Option<&str>| row.is_approved(pool, account);
            let patience = context.core.rules.messages.reassign_after;
            let own = sticky::choose(context, to, patience, has)?;
            match own.filter(is_stuck) {
                // It could not move later: its content is of this account's template.
                Some(_) => sticky::choose(context, to, Duration::ZERO, has)?,
                None => own,
            }
        }
    };
    let Some(number) = number else {
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

/// Returns whether a number is up, or another one of its account if the message may move.
fn takes(context: &Context<'_>, number: NumberId, may_move: bool) -> bool {
    let is_up = |id| context.down_for(id).is_none();
    let pool = &context.core.pool;
    let is_of_same = |id: &NumberId| pool.account(*id) == pool.account(number);
    is_up(number) || may_move && pool.numbers().filter(is_of_same).any(is_up)
}
