//! Pure: cancels a request for a one-time password, which ends it once.

use postrider_domain::event::OtpStatus;
use postrider_domain::event::otp::OtpData;
use postrider_domain::{Event, EventData, RequestId};

use super::types::VerifyOtpError;
use crate::core::Core;
use crate::core::effects::Effects;

/// Cancels a request: its code verifies nothing from now on, and unsent messages are withdrawn.
///
/// A second call changes nothing.
pub(crate) fn cancel_otp(
    core: &mut Core,
    id: RequestId,
    effects: &mut Effects,
) -> Result<(), VerifyOtpError> {
    let otp = match core.active(id) {
        Err(VerifyOtpError::Cancelled) => return Ok(()),
        otp => otp?,
    };
    core.perform(Event::OtpCancelled { id }, effects);
    core.keep_ended(&otp, OtpStatus::Cancelled, effects);
    let data = EventData::OtpCancelled(OtpData::of(id, otp.phone));
    core.emit(id, data.into(), effects);
    effects.withdrawn.extend(core.number_of(id).map(|number| (number, id)));
    Ok(())
}
