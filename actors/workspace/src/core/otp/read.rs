//! Pure: reads the state of a request for a one-time password, until the request is forgotten.

use postrider_domain::RequestId;

use super::failover::{channel_of, tries_of};
use super::types::{OtpState, ReadOtpError};
use super::{inbound, languages};
use crate::core::Core;

/// Returns the state of a request.
pub(crate) fn otp_state(core: &Core, id: RequestId) -> Result<OtpState, ReadOtpError> {
    let otp = core.known(id).ok_or(ReadOtpError::NotFound)?;
    let tries = tries_of(core, &otp);
    let channel = channel_of(&tries);
    Ok(OtpState {
        request_id: id,
        status: core.hot.otps.status(&otp, core.hot.now()),
        attempts_remaining: otp.attempts_remaining(),
        expires_at: core.hot.otps.expires_at(&otp),
        delivery: otp.delivery,
        notes: core.hot.otps.extras.notes(id),
        number: core.number_shown(id),
        tries,
        channel,
        language: Some(languages::language_over(core, id, channel)),
        phone: inbound::phone_of(core, &otp).known(),
        is_inbound: core.hot.otps.extras.is_inbound(id),
        inbound_code: inbound::code_of(core, &otp),
    })
}
