//! Pure: sends a one-time password, if the number, template, credits, limits and guards allow it.
//!
//! A refusal consumes no quota and no credit. An accepted code is charged in the same commit, or by
//! the first step of its chain.

use std::time::Duration;

use postrider_domain::code::Expiry;
use postrider_domain::destination::calling_code;
use postrider_domain::event::chain::{ChainPlan, OtpChannel};
use postrider_domain::event::decision::OtpDecision;
use postrider_domain::unavailable::{Unavailable, UnavailableReason};
use postrider_domain::{Event, MessageId, Phone, PublicEvent, RequestId, Timestamp};

use super::day_counts::CountedEvent;
use super::extras::note_send;
use super::failover_plan::plan_of;
use super::limits::{check_limits, count_callers};
use super::requests::Otp;
use super::rolling_window::{CallerQuota, quota_of_mailbox, quotas_of_caller};
use super::types::{OtpSent, SendMore, SendOtp, SendOtpError};
use super::{conversion_guard, failover, inbound, languages, message, pumping_guard};
use crate::core::effects::Effects;
use crate::core::{Core, credits};

/// Sends a one-time password under the id `id`, which carries the moment.
///
/// `down` is how long the number is still down because it keeps failing.
pub(crate) fn send_otp(
    core: &mut Core,
    command: SendOtp,
    id: RequestId,
    down: Option<Duration>,
    effects: &mut Effects,
) -> Result<OtpSent, SendOtpError> {
    let SendOtp { phone, expiry, length, more } = command;
    debug_assert!(id.timestamp() == core.hot.now());
    // A code without a phone can only be sent by a person.
    if more.as_deref().is_some_and(|more| more.inbound) || phone.known().is_none() {
        let more = SendMore { inbound: true, ..more.map(|more| *more).unwrap_or_default() };
        return inbound::begin(core, (id, phone), (expiry, length), &more, effects);
    }
    if core.test_phones.code(phone).is_some() {
        return send_test(core, phone, expiry, more.as_deref(), id, effects);
    }
    let plan = plan_of(core, more.as_deref())?;
    let mut quotas = match &more {
        Some(more) => quotas_of_caller(&core.keys, &core.rules.limits, &more.context),
        None => Vec::new(),
    };
    quotas.extend(quota_of_mailbox(&core.keys, &core.rules.limits, plan.as_ref()));
    let found = languages::has_found_template(core, more.as_deref());
    let asked = (phone, &*quotas, plan.as_ref());
    let decision = check_send(core, (id, false), asked, (found, down), effects);
    if let Err(refused) = &decision
        && !matches!(refused, SendOtpError::Unavailable(_) | SendOtpError::NotConnected)
    {
        core.otp_days.note_refused(core.hot.now(), calling_code(phone));
    }
    let decision = decision?;
    let key_version = core.keys.current_version();
    core.perform(Event::OtpSent { id, phone, expiry, length, key_version }, effects);
    count_callers(core, quotas, effects);
    note_send(core, id, more.as_deref(), false, effects);
    conversion_guard::note(core, id, decision, effects);
    let otp = Otp::new(id, phone, expiry, length, key_version);
    core.count(phone, CountedEvent::Sent, effects);
    if let Some(plan) = plan {
        let expires_at = emit_send(core, &otp, false, effects);
        core.perform(Event::OtpChain { id, plan: Box::new(plan) }, effects);
        failover::next_step(core, id, down.is_some(), effects);
        return Ok(OtpSent { request_id: id, expires_at, number: core.number_shown(id) });
    }
    let price = core.rules.prices.otp;
    credits::charge(core, price, effects);
    let message = MessageId::from_bytes(*id.as_bytes());
    announce_send(core, &otp, message, effects).ok_or(SendOtpError::NotConnected)
}

/// Accepts a one-time password to a test phone: nothing is sent, counted or paid.
fn send_test(
    core: &mut Core,
    phone: Phone,
    expiry: Expiry,
    more: Option<&SendMore>,
    id: RequestId,
    effects: &mut Effects,
) -> Result<OtpSent, SendOtpError> {
    if core.hot.otps.len() >= core.rules.otps_max {
        return Err(Unavailable::because(UnavailableReason::Overloaded).into());
    }
    let key_version = core.keys.current_version();
    core.perform(Event::OtpTest { id, phone, expiry, key_version }, effects);
    note_send(core, id, more, true, effects);
    let expires_at = id.timestamp().plus(expiry.duration());
    let event = PublicEvent::OtpSent { request_id: id, phone, expires_at, resend: false };
    core.emit(id, event, effects);
    Ok(OtpSent { request_id: id, expires_at, number: None })
}

/// Checks whether a send to `phone` is allowed and paid for, and can be taken now.
///
/// It changes nothing, but may emit a suspicion or a decision. The flag of `request` is `true`
/// if the request was sent before.
pub(super) fn check_send(
    core: &mut Core,
    request: (RequestId, bool),
    (phone, quotas, plan): (Phone, &[CallerQuota], Option<&ChainPlan>),
    (found_template, down): (bool, Option<Duration>),
    effects: &mut Effects,
) -> Result<Option<OtpDecision>, SendOtpError> {
    let prices = core.rules.prices;
    let first = plan.and_then(|plan| plan.steps.first());
    let first = first.map_or(OtpChannel::Messaging, |step| step.channel);
    let needs_number =
        plan.is_none_or(|plan| plan.steps.iter().any(|step| step.channel == OtpChannel::Messaging));
    if needs_number && core.number.is_none() {
        return Err(SendOtpError::NotConnected);
    }
    if first == OtpChannel::Messaging && !found_template {
        languages::check_own_template(core)?;
    }
    let price = prices.of_channel(first);
    if core.credits < price {
        let (needed, available) = (price, core.credits);
        return Err(SendOtpError::InsufficientCredits { needed, available });
    }
    check_limits(core, phone, quotas)?;
    pumping_guard::check(core, phone, effects)?;
    // A chain goes on with its next step.
    if let Some(retry_after) = down.filter(|_| plan.is_none()) {
        return Err(Unavailable { reason: UnavailableReason::ChannelDown, retry_after }.into());
    }
    if !request.1 && core.hot.otps.len() >= core.rules.otps_max {
        return Err(Unavailable::because(UnavailableReason::Overloaded).into());
    }
    conversion_guard::check(core, request, (phone, plan), effects)
}

/// Emits the event of a send and hands the message over.
pub(super) fn announce_send(
    core: &Core,
    otp: &Otp,
    message: MessageId,
    effects: &mut Effects,
) -> Option<OtpSent> {
    let resend = message.as_bytes() != otp.id.as_bytes();
    let expires_at = emit_send(core, otp, resend, effects);
    let message = message::code_message(core, otp, message)?;
    let number = Some(message.number);
    effects.outbound.push(message.into());
    Some(OtpSent { request_id: otp.id, expires_at, number })
}

/// Emits the event of a send; returns when the code expires.
pub(super) fn emit_send(core: &Core, otp: &Otp, resend: bool, effects: &mut Effects) -> Timestamp {
    let (id, expires_at) = (otp.id, core.hot.otps.expires_at(otp));
    let event = PublicEvent::OtpSent { request_id: id, phone: otp.phone, expires_at, resend };
    core.emit(id, event, effects);
    expires_at
}
