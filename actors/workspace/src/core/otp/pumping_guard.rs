//! Pure: detects SMS pumping by the destinations of codes, and the number of unverified ones.

use std::sync::atomic::AtomicU64;

use postrider_domain::destination::calling_code;
use postrider_domain::event::otp::OtpPumpingData;
use postrider_domain::{Event, EventData, Phone};

use crate::core::Core;
use crate::core::effects::Effects;
use crate::core::otp::country_counts::hour_start;
use crate::core::otp::types::{BlockedBy, SendOtpError};
use crate::core::settings::{GuardMode, GuardOptions};

/// The guard of an engine.
#[derive(Debug)]
pub struct Guard {
    /// The options of the guard.
    pub options: GuardOptions,
    /// The number of times that it noticed suspiciously many codes to one country.
    pub suspicions: AtomicU64,
}

impl Guard {
    /// Creates a guard that has seen nothing yet.
    pub const fn new(options: GuardOptions) -> Self {
        Self { options, suspicions: AtomicU64::new(0) }
    }
}

/// Checks whether a one-time password may go to the phone.
///
/// Emits a suspicion once for each country and hour with suspiciously many codes.
pub(super) fn check(
    core: &mut Core,
    phone: Phone,
    effects: &mut Effects,
) -> Result<(), SendOtpError> {
    if !core.destinations.permit(phone) {
        return Err(SendOtpError::DestinationBlocked(BlockedBy::Destinations));
    }
    let GuardOptions { unverified_per_prefix_hour: most, mode, .. } = core.rules.guard;
    if most == 0 {
        return Ok(());
    }
    let (now, code) = (core.now(), calling_code(phone));
    let count = core.hot.prefixes.get(now, code);
    if count.unverified < most {
        return Ok(());
    }
    let refused = mode == GuardMode::Refuse;
    if !count.suspected {
        core.perform(Event::PumpingSuspected { calling_code: code, at: now }, effects);
        let data = OtpPumpingData {
            calling_code: code.to_string(),
            unverified: count.unverified,
            hour: hour_start(now),
            refused,
        };
        effects.emit(now, EventData::OtpPumpingSuspected(data));
        effects.suspected = Some(code);
    }
    if !refused {
        return Ok(());
    }
    let by = BlockedBy::Unverified { calling_code: code, unverified: count.unverified };
    Err(SendOtpError::DestinationBlocked(by))
}
