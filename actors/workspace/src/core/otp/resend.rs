//! Pure: sends the code of a request once more, with the same expiry and attempts.
//!
//! The conditions and the price are those of a send. Only an active request is sent again.

use std::time::Duration;

use postrider_domain::event::chain::{ChainStep, OtpChannel};
use postrider_domain::unavailable::{Unavailable, UnavailableReason};
use postrider_domain::{Event, MessageId, NumberId, RequestId};

use super::failover_plan::plan_again;
use super::limits::count_callers;
use super::rolling_window::quota_of_mailbox;
use super::send::{announce_send, check_send, emit_send};
use super::types::{OtpSent, ResendOtpError, SendOtpError};
use super::verify::outbound_only;
use super::{conversion_guard, failover, languages};
use crate::core::effects::Effects;
use crate::core::{Core, credits};

/// Sends a request's code once more, as message `message`.
///
/// It leaves through the number `through` if that is another one than before.
pub(crate) fn resend_otp(
    core: &mut Core,
    (id, only): (RequestId, Option<OtpChannel>),
    message: MessageId,
    (through, down): (Option<NumberId>, Option<Duration>),
    effects: &mut Effects,
) -> Result<OtpSent, ResendOtpError> {
    let otp = outbound_only(core, id).map_err(ResendOtpError::Ended)?;
    if core.hot.otps.extras.is_test(id) {
        let expires_at = core.hot.otps.expires_at(&otp);
        return Ok(OtpSent { request_id: id, expires_at, number: None });
    }
    let plan = plan_again(core, id, only).map_err(ResendOtpError::Refused)?;
    let is_message = |step: &ChainStep| step.channel == OtpChannel::Messaging;
    let needs_number = plan.as_ref().is_none_or(|plan| plan.steps.iter().all(is_message));
    if needs_number && !core.has_number(id) {
        return Err(ResendOtpError::Refused(SendOtpError::NotConnected));
    }
    let chain = core.hot.otps.chains.get(id);
    let tries = chain.map_or_else(|| core.hot.otps.earlier.newest(id), |chain| chain.newest());
    if plan.is_some() && tries >= failover::TRIES_MAX {
        let full = Unavailable::because(UnavailableReason::Overloaded);
        return Err(ResendOtpError::Refused(full.into()));
    }
    let found = languages::template_of(core, id).language != core.otp_template.language;
    let mailbox = quota_of_mailbox(&core.keys, &core.rules.limits, plan.as_ref());
    let asked = (otp.phone, mailbox.as_slice(), plan.as_ref());
    let decision = check_send(core, (id, true), asked, (found, down), effects);
    conversion_guard::note(core, id, decision.map_err(ResendOtpError::Refused)?, effects);
    match through {
        Some(number) => core.move_request(id, number, effects),
        None if plan.is_none() => core.note_next_number(id, effects),
        // The steps of the chain do that.
        None => {}
    }
    let is_chain = plan.is_some();
    if let Some(plan) = plan {
        // Its messages so far become tries, so the next send is none of them.
        core.perform(Event::OtpChain { id, plan: Box::new(plan) }, effects);
    }
    core.perform(Event::OtpResent { id, at: core.hot.now() }, effects);
    count_callers(core, mailbox, effects);
    if is_chain {
        failover::end_newest(core, &otp, effects);
        let expires_at = emit_send(core, &otp, true, effects);
        failover::next_step(core, id, down.is_some(), effects);
        return Ok(OtpSent { request_id: id, expires_at, number: core.number_shown(id) });
    }
    let price = core.rules.prices.otp;
    credits::charge(core, price, effects);
    announce_send(core, &otp, message, effects)
        .ok_or(ResendOtpError::Refused(SendOtpError::NotConnected))
}
