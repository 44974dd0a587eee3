//! Pure: reads the state of a request for a one-time password, until the request is forgotten.

use postrider_domain::RequestId;

use super::failover::{channel_of, tries_of};
use super::types::{OtpState, OtpStatus, ReadOtpError};
use super::{inbound, languages};
use crate::core::Core;

/// Returns the state of a request. Of the ends only the time of an expiry is known here: the others
/// are in the record that the end has written.
pub(crate) fn otp_state(core: &Core, id: RequestId) -> Result<OtpState, ReadOtpError> {
    let otp = core.known(id).ok_or(ReadOtpError::NotFound)?;
    let tries = tries_of(core, &otp);
    let channel = channel_of(&tries);
    let status = core.hot.otps.status(&otp, core.hot.now());
    let expires_at = core.hot.otps.expires_at(&otp);
    Ok(OtpState {
        request_id: id,
        status,
        attempts_remaining: otp.attempts_remaining(),
        expires_at,
        delivery: otp.delivery,
        sends: core.hot.otps.earlier.newest(id),
        verified_at: None,
        // It may have expired before a tick has come to it.
        ended_at: (status == OtpStatus::Expired).then_some(expires_at),
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
