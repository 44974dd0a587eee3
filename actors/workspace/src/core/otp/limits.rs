//! Pure: applies the limits on sends by phone, caller, mailbox and workspace.
//!
//! The windows themselves are in `rolling_window.rs`. A resend counts as a send.

use std::time::Duration;

use postrider_domain::unavailable::{Unavailable, UnavailableReason};
use postrider_domain::{Event, Phone};

use super::rolling_window::CallerQuota;
use super::types::SendOtpError;
use crate::core::Core;
use crate::core::effects::Effects;
use crate::core::settings::Rules;

const TEN_MINUTES: Duration = Duration::from_secs(600);
const HOUR: Duration = Duration::from_secs(3600);

/// Checks whether one more send to `phone` keeps the limits.
pub(super) fn check_limits(
    core: &Core,
    phone: Phone,
    quotas: &[CallerQuota],
) -> Result<(), SendOtpError> {
    let Rules { limits, otps_max, .. } = core.rules;
    let phone_wait = phone.known().and_then(|phone| {
        let wait = |limit, window| core.hot.phone_wait(phone, limit, window);
        wait(limits.otp_per_phone_10m, TEN_MINUTES).max(wait(limits.otp_per_phone_hour, HOUR))
    });
    if let Some(retry_after) = phone_wait {
        return Err(SendOtpError::PhoneLimit { retry_after });
    }
    for of in quotas {
        if let Some(retry_after) = core.hot.callers.wait(core.hot.now(), of) {
            return Err(SendOtpError::CallerLimit { by: of.kind, retry_after });
        }
    }
    let hourly = limits.otp_per_workspace_hour;
    let wait = (hourly > 0).then(|| core.hot.sends.wait_for_any(core.hot.now(), hourly, HOUR));
    if let Some(retry_after) = wait.flatten() {
        return Err(SendOtpError::WorkspaceLimit { retry_after });
    }
    // Resends are counted too and could grow without end where the limits are off.
    if core.hot.sends.len() >= otps_max.saturating_mul(2) {
        return Err(Unavailable::because(UnavailableReason::Overloaded).into());
    }
    Ok(())
}

/// Counts a send for these callers.
pub(super) fn count_callers(
    core: &mut Core,
    quotas: impl IntoIterator<Item = CallerQuota>,
    effects: &mut Effects,
) {
    for CallerQuota { hash: caller, .. } in quotas {
        core.perform(Event::OtpCaller { caller, at: core.hot.now() }, effects);
    }
}
