//! What the channel's refusals of codes say of the template that carries them.

use postrider_channel::callback::Progress;
use postrider_channel::outcome::FinalOutcome;
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{NumberId, RequestId, Timestamp};

use crate::core::command::Context;
use crate::core::otp::delivery;
use crate::core::otp::languages::template_of;
use crate::templates::update;

/// Takes the channel's answer to the message of a code through a number. Where the template cannot
/// be read now, the channel says the same of the next code.
pub(crate) fn answered(
    context: &mut Context<'_>,
    (id, number): (RequestId, NumberId),
    settled: &FinalOutcome,
) {
    let FinalOutcome::Failed(failure) = settled else { return };
    let (template, now) = (template_of(context.core, id), context.now());
    if let Err(error) = update::refused(context, (&template, number), (failure, now)) {
        tracing::warn!(workspace = %context.core.id, %error, "a template stays as it is");
    }
}

/// Takes what a number reports of the message of a code at a moment, of which the first failure
/// says how the template stands.
///
/// # Errors
/// [`Unavailable`]: the store cannot be read.
pub(crate) fn report(
    context: &mut Context<'_>,
    (id, message): (RequestId, u8),
    number: NumberId,
    (progress, at): (&Progress, Timestamp),
) -> Result<(), Unavailable> {
    let before = context.effects.log_count;
    delivery::report(context.core, id, message, progress, context.effects);
    match progress {
        Progress::Failed(failure) if context.effects.log_count > before => {
            let template = template_of(context.core, id);
            // The provider's clock may be behind ours.
            let at = at.max(id.timestamp());
            update::refused(context, (&template, number), (failure, at))
        }
        _ => Ok(()),
    }
}
