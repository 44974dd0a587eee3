//! Taking up what became of messages: the number's answers, and what the provider reports later.

use crate::core::command::Context;
use crate::idempotency;
use crate::suppressions::stopped_marketing;
use postrider_channel::callback::Progress;
use postrider_channel::outcome::FinalOutcome;
use postrider_channel::{Failure, FailureClass};
use postrider_domain::event::OtpFailure;
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{Event, MessageId, PartyId, Timestamp};
use postrider_store::Table;

use crate::core::message_status::MessageStatus;
use crate::messages::attached;
use crate::messages::content::content_key;
use crate::messages::record::{Learned, MessageError, MessageState};
use crate::messages::send::MessageSent;

/// Most characters of a channel's explanation that are kept.
const DETAILS_CHARS_MAX: usize = 500;

/// Takes the number's final answer. One that comes when the message is settled changes nothing.
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

/// Takes what the provider reports of a message. It settles a message whose answer got lost. Gives
/// whom the message went to, if it is known.
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
    let key = MessageState::key(&context.core.id, id);
    let Some(mut state) = context.get_json::<MessageState>(Table::Messages, &key)? else {
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
    let is_named = state.provider_id.is_none() && provider_id.is_some();
    if is_named {
        state.provider_id = provider_id.map(Box::from);
    }
    if !state.learn(learned, at) {
        if is_named {
            context.put_json(Table::Messages, key, &state);
        }
        return Ok(to);
    }
    if failure.is_some_and(|failure| failure.class == FailureClass::OptedOut) {
        stopped_marketing(context, &state.to, at)?;
    }
    if let Some(failure) = failure {
        attached::doubt(context, &state, failure)?;
    }
    if context.core.hot.messages.contains(id) {
        context.core.perform(Event::MessageSettled { id }, context.effects);
        // It is not handed over again, so nobody needs what it says.
        context.delete(Table::Messages, content_key(&context.core.id, id));
    }
    if state.status == MessageStatus::Failed {
        let refunded = context.core.credits.saturating_add(state.price);
        context.core.set_credits(refunded, context.effects);
    }
    if let Some(event) = state.event() {
        context.effects.emit(context.now(), event);
    }
    if let Some(waiter) = context.waiters.take(id) {
        let status = state.status.as_answer();
        if let Some(record) = &waiter.kept_under {
            // Where it cannot be read, the first answer stays; that was logged.
            idempotency::replace(context, record, &MessageSent { message_id: id, status }).ok();
        }
        context.effects.resolve_waiter(waiter, status);
    }
    context.put_json(Table::Messages, key, &state);
    Ok(to)
}
