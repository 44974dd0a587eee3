//! Pure: verifies a submitted code and counts wrong ones, of which the fifth ends the request.
//!
//! A request is verified at most once, and each attempt is counted before its answer.

use postrider_domain::event::{OtpFailure, OtpStatus};
use postrider_domain::{Event, PublicEvent, RequestId};

use super::day_counts::CountedEvent;
use super::requests::Otp;
use super::types::{Verification, VerifyOtpError};
use crate::core::Core;
use crate::core::effects::Effects;

/// Compares a submitted code.
///
/// The attempt is counted whether or not it is right: the answer waits for the commit of the
/// count.
pub(crate) fn verify_otp(
    core: &mut Core,
    id: RequestId,
    submitted: &str,
    effects: &mut Effects,
) -> Result<Verification, VerifyOtpError> {
    let otp = outbound_only(core, id)?;
    let is_test = core.hot.otps.extras.is_test(id);
    if core.code_of(&otp).is_some_and(|code| code.matches(submitted)) {
        core.perform(Event::OtpVerified { id }, effects);
        core.keep_ended(&otp, OtpStatus::Verified, effects);
        if !is_test {
            core.count(otp.phone, CountedEvent::Verified, effects);
        }
        core.emit(id, PublicEvent::OtpVerified { request_id: id, phone: otp.phone }, effects);
        return Ok(Verification::Verified);
    }
    match count_wrong_code(core, &otp, effects) {
        0 => Err(VerifyOtpError::MaxAttempts),
        attempts_remaining => Ok(Verification::Wrong { attempts_remaining }),
    }
}

/// Counts a wrong code of an active request, which the fifth ends. Returns how many remain.
pub(super) fn count_wrong_code(core: &mut Core, otp: &Otp, effects: &mut Effects) -> u8 {
    let (id, attempts) = (otp.id, otp.attempts + 1);
    core.perform(Event::OtpMissed { id, attempts }, effects);
    if !core.hot.otps.extras.is_uncounted(id) {
        core.count(otp.phone, CountedEvent::Wrong, effects);
    }
    let otp = Otp { attempts, ..*otp };
    if otp.attempts_remaining() == 0 {
        core.keep_ended(&otp, OtpStatus::Invalidated, effects);
        core.emit_failure(&otp, OtpFailure::MaxAttempts, effects);
    }
    otp.attempts_remaining()
}

/// Returns the request, if it can be verified by a submitted code.
pub(super) fn outbound_only(core: &Core, id: RequestId) -> Result<Otp, VerifyOtpError> {
    if core.hot.otps.extras.is_inbound(id) && core.known(id).is_some() {
        return Err(VerifyOtpError::InboundOnly);
    }
    core.active(id)
}
