//! Updates the template of codes from the channel's refusals.

use postrider_channel::callback::Progress;
use postrider_channel::outcome::FinalOutcome;
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{NumberId, RequestId, Timestamp};

use crate::core::command::Context;
use crate::core::otp::delivery;
use crate::core::otp::languages::template_of;
use crate::templates::update;

/// Applies the channel's answer to the message of a code through a number.
///
/// If the template cannot be read now, the channel's answer to the next code has the same effect.
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

/// Applies a number's report at a moment on the message of a code.
///
/// The first failure shows the status of the template.
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
