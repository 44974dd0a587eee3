//! The span of a dispatch to the channel, if the request of the message is traced.

use postrider_channel::AttemptOutcome;
use postrider_runtime::trace::{Span, SpanKind};

use super::NumberActor;
use crate::queue::Attempt;

/// Starts the span, if the request of the message is traced.
pub(super) fn begin(actor: &NumberActor, attempt: &Attempt) -> Option<Span> {
    let context = actor.traces.of(|| attempt.message.origin.trace_subject())?;
    let mut span = actor.traces.below(context, "hand-over", SpanKind::Client)?;
    span.set("postrider.number_id", actor.number.to_string());
    span.set("postrider.retries", i64::from(attempt.retries));
    Some(span)
}

/// Ends the span with the channel's answer.
pub(super) fn end(span: Option<Span>, outcome: &AttemptOutcome) {
    let Some(mut span) = span else { return };
    let (name, has_failed) = match outcome {
        AttemptOutcome::Sent | AttemptOutcome::SentAs(_) => ("sent", false),
        AttemptOutcome::Failed(_) => ("failed", true),
        AttemptOutcome::Throttled { .. } => ("throttled", false),
        AttemptOutcome::Retry { .. } => ("not_accepted", false),
        AttemptOutcome::Unknown => ("unknown", true),
    };
    span.set("postrider.outcome", name);
    if has_failed {
        span.fail();
    }
}
