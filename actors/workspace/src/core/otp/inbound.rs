//! Pure: codes that people send to a number of the workspace, instead of getting them.
//!
//! A request is verified by a message from its phone that has the code as a word of its own. A word
//! of as many digits that is not the code is a wrong one, as if it had been submitted.

use postrider_domain::code::{CodeLength, Expiry};
use postrider_domain::event::OtpStatus;
use postrider_domain::unavailable::{Unavailable, UnavailableReason};
use postrider_domain::{ContactId, Event, OtpCode, Phone, PublicEvent, RequestId};

use super::caller_log::{Counting, counting};
use super::cancel;
use super::requests::Otp;
use super::types::{OtpSent, SendMore, SendOtpError};
use crate::core::Core;
use crate::core::effects::Effects;

/// Makes a code that a phone is to send. It costs nothing, and counts in the limits.
pub(super) fn begin(
    core: &mut Core,
    (id, phone): (RequestId, Phone),
    (expiry, length): (Expiry, CodeLength),
    more: &SendMore,
    effects: &mut Effects,
) -> Result<OtpSent, SendOtpError> {
    if core.number.is_none() {
        return Err(SendOtpError::NotConnected);
    }
    let counting = counting(&core.keys, &core.rules.limits, &more.context);
    core.check_limits(phone, &counting)?;
    if core.hot.otps.len() >= core.rules.otps_max {
        return Err(Unavailable::because(UnavailableReason::Overloaded).into());
    }
    let key_version = core.keys.current_version();
    core.perform(Event::OtpInbound { id, phone, expiry, length, key_version }, effects);
    for Counting { hash: caller, .. } in counting {
        core.perform(Event::OtpCaller { caller, at: core.now() }, effects);
    }
    cancel::note(core, id, Some(more), false, effects);
    let expires_at = id.timestamp().plus(expiry.duration());
    let event = PublicEvent::OtpSent { request_id: id, phone, expires_at, resend: false };
    core.tell(id, event, effects);
    Ok(OtpSent { request_id: id, expires_at })
}

/// Takes what a phone wrote: the requests whose code it has are verified, and others count a wrong
/// one.
pub(crate) fn take(
    core: &mut Core,
    (phone, contact): (Phone, ContactId),
    text: &str,
    effects: &mut Effects,
) {
    let asked = core.hot.otps.extras.inbound_of(phone);
    let active = |id: RequestId| {
        let otp = core.active(id).ok()?;
        core.code_of(&otp).map(|code| (otp, code))
    };
    let wanted: Vec<(Otp, OtpCode)> = asked.into_iter().filter_map(active).collect();
    if wanted.is_empty() {
        return;
    }
    let words = text.split(|it: char| !it.is_alphanumeric()).filter(|word| !word.is_empty());
    let is_a_code = |word: &str| wanted.iter().any(|(_, code)| code.matches(word));
    let (right, wrong): (Vec<_>, Vec<_>) = words.partition(|word| is_a_code(word));
    for (otp, code) in wanted {
        if right.iter().any(|word| code.matches(word)) {
            verified(core, &otp, contact, effects);
            continue;
        }
        for _ in wrong.iter().filter(|word| code.is_like(word)) {
            // The fifth ends it.
            if let Ok(otp) = core.active(otp.id) {
                core.miss(&otp, effects);
            }
        }
    }
}

fn verified(core: &mut Core, otp: &Otp, contact: ContactId, effects: &mut Effects) {
    let mut notes = core.hot.otps.extras.notes(otp.id);
    notes.contact_id = Some(contact);
    if let Some(notes) = notes.to_json() {
        core.perform(Event::OtpNoted { id: otp.id, notes }, effects);
    }
    core.perform(Event::OtpVerified { id: otp.id }, effects);
    core.keep_ended(otp, OtpStatus::Verified, effects);
    let event = PublicEvent::OtpVerified { request_id: otp.id, phone: otp.phone };
    core.tell(otp.id, event, effects);
}
