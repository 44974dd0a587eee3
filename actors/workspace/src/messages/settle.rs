//! The outcomes of messages: the number's answers, and the provider's later reports.

use crate::core::command::Context;
use crate::core::credits;
use crate::idempotency;
use crate::suppressions::stopped_marketing;
use crate::templates::update;
use postrider_channel::callback::Progress;
use postrider_channel::outcome::FinalOutcome;
use postrider_channel::{Failure, FailureClass};
use postrider_domain::event::OtpFailure;
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{Event, MessageId, PartyId, Timestamp};
use postrider_store::Table;

use crate::core::message_status::MessageStatus;
use crate::messages::attached;
use crate::messages::budget;
use crate::messages::content::content_key;
use crate::messages::index::By;
use crate::messages::record::{Learned, MessageError, MessageState};
use crate::messages::send::MessageSent;
use crate::messages::unwritten;

/// The maximum of characters of a channel's explanation that are stored.
const DETAILS_CHARS_MAX: usize = 500;

/// Applies the number's final answer. An answer to a settled message changes nothing.
pub(crate) fn settle(
    context: &mut Context<'_>,
    id: MessageId,
    settled: &FinalOutcome,
) -> Result<(), Unavailable> {
    if !context.core.hot.messages.contains(id) {
        return Ok(());
    }
    let learned = match settled {
        FinalOutcome::Sent | FinalOutcome::SentAs(_) => Learned::Sent,
        FinalOutcome::Held(_) => Learned::Held,
        FinalOutcome::Unknown => Learned::Unknown,
        FinalOutcome::Failed(failure) => Learned::Failed(refused(failure)),
        FinalOutcome::NotSentInTime => Learned::Failed(MessageError {
            reason: OtpFailure::NotSentInTime.as_str().into(),
            code: None,
            details: Box::default(),
        }),
    };
    let failure = match settled {
        FinalOutcome::Failed(failure) => Some(failure),
        _ => None,
    };
    let provider_id = match settled {
        FinalOutcome::SentAs(id) | FinalOutcome::Held(Some(id)) => Some(&**id),
        _ => None,
    };
    learn(context, id, (learned, failure), provider_id, context.now()).map(drop)
}

/// Applies the provider's report on a message. It settles a message whose answer got lost.
///
/// Returns the recipient, if known.
pub(crate) fn report(
    context: &mut Context<'_>,
    id: MessageId,
    progress: &Progress,
    provider_id: &str,
    at: Timestamp,
) -> Result<Option<PartyId>, Unavailable> {
    let learned = match progress {
        Progress::Sent => Learned::Sent,
        Progress::Delivered => Learned::Delivered,
        Progress::Read => Learned::Read,
        Progress::Failed(failure) => Learned::Failed(refused(failure)),
    };
    let failure = match progress {
        Progress::Failed(failure) => Some(failure),
        _ => None,
    };
    learn(context, id, (learned, failure), Some(provider_id), at)
}

fn refused(failure: &Failure) -> MessageError {
    MessageError {
        reason: OtpFailure::Channel { error_code: None }.as_str().into(),
        code: failure.code,
        details: failure.details.chars().take(DETAILS_CHARS_MAX).collect::<String>().into(),
    }
}

fn learn(
    context: &mut Context<'_>,
    id: MessageId,
    (learned, failure): (Learned, Option<&Failure>),
    provider_id: Option<&str>,
    at: Timestamp,
) -> Result<Option<PartyId>, Unavailable> {
    let Some(mut state) = MessageState::get(context, id)? else {
        if context.core.hot.messages.contains(id) {
            tracing::error!(workspace = %context.core.id, message = %id, "a message has no record");
            context.core.perform(Event::MessageSettled { id }, context.effects);
        }
        return Ok(None);
    };
    let to = Some(state.to.clone());
    if state.stays_unknown(context.now(), context.core.rules.messages.unknown_after) {
        return Ok(to);
    }
    // The provider's clock may be ahead of ours or behind it, and it counts in seconds.
    let at = at.max(state.last_moment()).min(context.now());
    let is_named = provider_id.is_some() && state.provider_id.is_none();
    if is_named {
        state.provider_id = provider_id.map(Into::into);
    }
    if !state.learn(learned, at) {
        if is_named {
            unwritten::write(context, id)?;
            write_name(context, &state);
            state.write(context);
        }
        return Ok(to);
    }
    if failure.is_some_and(|failure| failure.class == FailureClass::OptedOut) {
        stopped_marketing(context, &state.to, at)?;
    }
    if let Some(failure) = failure {
        attached::doubt(context, &state, failure)?;
        let mut of = |it| update::refused(context, (it, state.number), (failure, at));
        state.template.iter().try_for_each(&mut of)?;
    }
    // A report shows that the channel took it.
    if state.status == MessageStatus::Failed && provider_id.is_none() {
        budget::give_back(context, &state).unwrap_or_else(|error| {
            // It keeps its place for the day.
            tracing::warn!(%error, "a budget stays as it is");
        });
    }
    end_wait(context, &state, is_named);
    if state.status == MessageStatus::Failed {
        credits::refund(context.core, state.price, context.effects);
    }
    if let Some(event) = state.event() {
        context.effects.emit(context.now(), event);
    }
    answer_waiter(context, &state);
    state.write(context);
    Ok(to)
}

/// Ends the wait for an outcome, if that was awaited, and writes new entries of the index.
fn end_wait(context: &mut Context<'_>, state: &MessageState, is_named: bool) {
    let (id, unsent) = (state.message_id, &context.core.hot.messages);
    let (is_unsent, is_unwritten) = (unsent.contains(id), unsent.unwritten(id).is_some());
    if is_unwritten {
        unwritten::write_text(context, state);
        unwritten::write_index(context, state);
    } else if is_named {
        write_name(context, state);
    }
    if is_unsent && !is_unwritten {
        // It is not handed over again, so its content is not needed.
        context.delete(Table::Messages, content_key(&context.core.id, id));
    }
    if is_unsent {
        context.core.perform(Event::MessageSettled { id }, context.effects);
    }
}

/// Writes the index entry of the channel's id of a message, which has just become known.
fn write_name(context: &mut Context<'_>, state: &MessageState) {
    let Some(name) = &state.provider_id else { return };
    let key = By::Channel(name).key(&context.core.id, state.message_id);
    context.put(Table::MessageIndex, key, Vec::new());
}

/// Answers the sender who waits for the outcome of a message.
fn answer_waiter(context: &mut Context<'_>, state: &MessageState) {
    let Some(waiter) = context.waiters.take(state.message_id) else { return };
    let status = state.status.as_answer();
    if let Some(record) = &waiter.kept_under {
        let number = Some(state.number);
        let sent = MessageSent { message_id: state.message_id, status, number };
        // If it cannot be read, the first answer stays; the error was logged.
        idempotency::replace(context, record, &sent).ok();
    }
    context.effects.resolve_waiter(waiter, (status, state.number));
}
