//! The operations of callers on one-time passwords, and the channel's answers to their messages.

mod decisions;
mod list;
mod read_days;
mod read_ended;
pub mod sms;
pub(crate) mod step_worker;
pub mod test_phones;

use postrider_channel::callback::Progress;
use postrider_channel::outcome::FinalOutcome;
use postrider_domain::event::OtpStatus;
use postrider_domain::event::chain::OtpChannel;
use postrider_domain::event::otp::OtpLanguages;
use postrider_domain::otp_text::sent_language;
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{MessageId, NumberId, RequestId, Timestamp};
use postrider_runtime::random;

use crate::Workspace;
use crate::core::command::{Command, Context, Footprint};
use crate::core::otp::cancel::cancel_otp;
use crate::core::otp::resend::resend_otp;
use crate::core::otp::send::send_otp;
use crate::core::otp::types::{
    OtpSent, OtpState, ReadOtpError, ResendOtpError, SendMore, SendOtp, SendOtpError, Verification,
    VerifyOtpError,
};
use crate::core::otp::{delivery, languages};
use crate::core::senders::{code_sender, sticky_sender};
use crate::idempotency::{IdempotencyKey, Idempotent, IdempotentError, Replayable};
use crate::mailbox::message::WorkspaceMessage;
use crate::templates::update;

pub use decisions::{DecisionData, DecisionFilter, DecisionRow, DecisionsPage};
pub use list::{OtpFilter, OtpsPage};
pub use read_days::OtpDays;
pub(crate) use read_days::{counts_of_today, expired_days};
pub(crate) use read_ended::expired_otps;

impl Workspace {
    /// Creates a one-time password and sends it to a phone.
    ///
    /// # Errors
    /// [`SendOtpError`]: a limit, no number, no credits, or not now.
    pub async fn send_otp(&self, command: SendOtp) -> Result<OtpSent, SendOtpError> {
        self.shared.may_send()?;
        self.shared.disk.admit(Footprint::Grows)?;
        self.call(|reply| WorkspaceMessage::SendOtp(command, reply)).await
    }

    /// Sends a one-time password under an idempotency key, if there is one.
    ///
    /// For a day, a second call with the key and the same body returns the answer of the first.
    ///
    /// # Errors
    /// [`IdempotentError`]: the key was used otherwise, or what
    /// [`send_otp`](Self::send_otp) refuses.
    pub async fn send_otp_once(
        &self,
        command: SendOtp,
        key: IdempotencyKey,
    ) -> Result<Replayable<OtpSent>, IdempotentError<SendOtpError>> {
        let command = SendOtpCommand { command, unique: random::unique() };
        self.perform(Idempotent { key: Some(key), command }).await
    }

    /// Compares a user's input with the request's code.
    ///
    /// At most one call ever, whatever races, returns [`Verification::Verified`].
    ///
    /// # Errors
    /// [`VerifyOtpError`]: the request is unknown or has ended, or not now.
    pub async fn verify_otp(
        &self,
        request_id: RequestId,
        code: &str,
    ) -> Result<Verification, VerifyOtpError> {
        self.shared.disk.admit(Footprint::Settles)?;
        self.call(|reply| WorkspaceMessage::VerifyOtp(request_id, code.into(), reply)).await
    }

    /// Sends a request's code once more: the same code, with the same expiry and attempts.
    ///
    /// # Errors
    /// [`ResendOtpError`]: the request has ended, or what [`send_otp`](Self::send_otp) refuses.
    pub async fn resend_otp(&self, request_id: RequestId) -> Result<OtpSent, ResendOtpError> {
        self.resend_otp_over(request_id, None).await
    }

    /// Sends a request's code once more, over this channel only.
    ///
    /// # Errors
    /// [`ResendOtpError`]: the same, or the channel is not set up.
    pub async fn resend_otp_over(
        &self,
        request_id: RequestId,
        only: Option<OtpChannel>,
    ) -> Result<OtpSent, ResendOtpError> {
        self.shared.may_send()?;
        self.shared.disk.admit(Footprint::Grows)?;
        self.call(|reply| WorkspaceMessage::ResendOtp(request_id, only, reply)).await
    }

    /// Cancels a request: its code verifies nothing from now on, and unsent messages are withdrawn.
    ///
    /// A second call changes nothing.
    ///
    /// # Errors
    /// [`VerifyOtpError`]: the request is unknown or has ended otherwise, or not now.
    pub async fn cancel_otp(&self, request_id: RequestId) -> Result<(), VerifyOtpError> {
        self.perform(CancelOtp(request_id)).await
    }

    /// Returns the state of a request.
    ///
    /// # Errors
    /// [`ReadOtpError`]: the request is unknown, or not now.
    pub async fn otp(&self, request_id: RequestId) -> Result<OtpState, ReadOtpError> {
        self.call(|reply| WorkspaceMessage::ReadOtp(request_id, reply)).await
    }

    /// Returns the state of a request, also of one that ended longer ago, as of its end.
    ///
    /// # Errors
    /// [`ReadOtpError`]: the request is unknown, or no longer kept, or not now.
    pub async fn kept_otp(&self, request_id: RequestId) -> Result<OtpState, ReadOtpError> {
        let known = match self.otp(request_id).await {
            Err(ReadOtpError::NotFound) => return self.ended_otp(request_id).await,
            answer => answer?,
        };
        if known.status == OtpStatus::Active || known.ended_at.is_some() {
            return Ok(known);
        }
        match self.ended_otp(request_id).await {
            Err(ReadOtpError::NotFound) => Ok(known),
            ended => ended.map(|mut ended| {
                ended.refresh(known);
                ended
            }),
        }
    }
}

/// Sends a one-time password under this id.
pub(crate) fn send(
    context: &mut Context<'_>,
    mut command: SendOtp,
    id: RequestId,
) -> Result<OtpSent, SendOtpError> {
    resolve_languages(command.more.as_deref_mut(), context)?;
    let phone = command.phone;
    let through = code_sender::choose_for_send(&mut command, context)?;
    let down = through.or(context.core.number).and_then(|number| context.down_for(number));
    let through = through.filter(|_| phone.known().is_some());
    let noted = code_sender::to_note(context, phone, through)?;
    let sent = send_otp(context.core, command, id, down, context.effects)?;
    if context.core.goes_through_number(id) {
        sticky_sender::put(context, &phone.into(), noted);
    }
    Ok(sent)
}

/// Sets the languages of a send: the first with a template that may be sent, and with a text.
///
/// Nothing is looked up for a send that asks for none.
fn resolve_languages(
    more: Option<&mut SendMore>,
    context: &Context<'_>,
) -> Result<(), SendOtpError> {
    let Some(more) = more else { return Ok(()) };
    let Some(language) = &more.language else { return Ok(()) };
    let own = &context.core.otp_template;
    if more.inbound {
        // The person writes it, and nothing is sent.
        let text = sent_language(language.served_by().chain([&*own.language]));
        more.languages = Some(OtpLanguages { template: text.into(), text: text.into() });
        return Ok(());
    }
    // An unknown number is refused when the number is chosen.
    let named = more.from.as_deref().and_then(|name| sticky_sender::named(context, name));
    let mut template = &*own.language;
    for wanted in language.served_by() {
        if wanted == &*own.language {
            break;
        }
        if languages::has_sendable_template(context.core, wanted, named) {
            template = wanted;
            break;
        }
    }
    let text = languages::text_language(context.core, language.served_by());
    more.languages = Some(OtpLanguages { template: template.into(), text: text.into() });
    Ok(())
}

/// Sends a request's code once more, as message `message`.
pub(crate) fn resend(
    context: &mut Context<'_>,
    (id, only): (RequestId, Option<OtpChannel>),
    message: MessageId,
) -> Result<OtpSent, ResendOtpError> {
    let moved = code_sender::choose_for_resend(context, id).map_err(ResendOtpError::Refused)?;
    let to = moved.as_ref().map(|moved| moved.number);
    let down = to.or_else(|| context.core.next_number(id));
    let down = down.and_then(|number| context.down_for(number));
    let sent = resend_otp(context.core, (id, only), message, (to, down), context.effects)?;
    if let Some(moved) = moved
        && context.core.goes_through_number(id)
    {
        sticky_sender::put(context, &moved.contact, moved.noted);
    }
    Ok(sent)
}

/// The command to send a one-time password, beside the hot path.
struct SendOtpCommand {
    command: SendOtp,
    unique: u128,
}

impl Command for SendOtpCommand {
    type Answer = OtpSent;
    type Error = SendOtpError;

    const FOOTPRINT: Footprint = Footprint::Grows;
    const SENDS: bool = true;
    // It leaves nothing but events, which expire by age, and a code must not wait for campaigns.
    const IS_HELD_TO_QUOTA: bool = false;

    fn carry_out(self, context: &mut Context<'_>) -> Result<OtpSent, SendOtpError> {
        let now = context.now();
        send(context, self.command, RequestId::from_parts(now, self.unique))
    }
}

/// The command to cancel a request.
struct CancelOtp(RequestId);

impl Command for CancelOtp {
    type Answer = ();
    type Error = VerifyOtpError;

    fn carry_out(self, context: &mut Context<'_>) -> Result<(), VerifyOtpError> {
        cancel_otp(context.core, self.0, context.effects)
    }
}

/// Applies the channel's answer to the message of a code through a number.
///
/// If the template cannot be read now, the channel's answer to the next code has the same effect.
pub(crate) fn note_answer(
    context: &mut Context<'_>,
    (id, number): (RequestId, NumberId),
    settled: &FinalOutcome,
) {
    let FinalOutcome::Failed(failure) = settled else { return };
    let (template, now) = (languages::template_of(context.core, id), context.now());
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
            let template = languages::template_of(context.core, id);
            // The provider's clock may be behind ours.
            let at = at.max(id.timestamp());
            update::refused(context, (&template, number), (failure, at))
        }
        _ => Ok(()),
    }
}
