//! Pure: detects SMS pumping by the destinations of codes, and the number of unverified ones.
//!
//! Many codes to one country are a sign of it: fraudsters request codes to numbers whose carrier
//! pays them for each delivered message. Codes that nobody verified are counted by country in the
//! running hour.

use std::sync::atomic::AtomicU64;

use hashbrown::HashMap;
use postrider_domain::destination::calling_code;
use postrider_domain::event::EventDecodeError;
use postrider_domain::event::otp::OtpPumpingData;
use postrider_domain::{Event, EventData, Phone, Timestamp};

use crate::core::Core;
use crate::core::effects::Effects;
use crate::core::otp::types::{BlockedBy, SendOtpError};
use crate::core::settings::{GuardMode, GuardOptions};

/// Milliseconds of an hour.
const HOUR_MS: u64 = 3_600_000;

/// The counts of one hour, by country calling code.
#[derive(Debug, Default)]
pub(crate) struct PrefixCounts {
    /// The hour since the epoch.
    hour: u64,
    counts: HashMap<u16, PrefixCount>,
}

/// The count of one country.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PrefixCount {
    /// Requests of this hour that were not verified.
    pub(crate) unverified: u32,
    /// Set if it was reported that these are too many.
    pub(crate) suspected: bool,
}

/// Returns the hour of a moment.
const fn hour(at: Timestamp) -> u64 {
    at.as_millis() / HOUR_MS
}

/// Returns the start of the hour of a moment.
pub(crate) const fn hour_start(at: Timestamp) -> Timestamp {
    Timestamp::from_millis(hour(at) * HOUR_MS)
}

impl PrefixCounts {
    /// Returns the count of a country in the hour of `now`.
    pub(crate) fn get(&self, now: Timestamp, code: u16) -> PrefixCount {
        let is_current = self.hour == hour(now);
        self.counts.get(&code).copied().filter(|_| is_current).unwrap_or_default()
    }

    /// Counts a request that was sent at `now`.
    pub(crate) fn sent(&mut self, now: Timestamp, code: u16) {
        let count = self.entry(now, code);
        count.unverified = count.unverified.saturating_add(1);
    }

    /// Counts a request, sent at `sent_at`, as verified.
    pub(crate) fn verified(&mut self, sent_at: Timestamp, code: u16) {
        if self.hour == hour(sent_at)
            && let Some(count) = self.counts.get_mut(&code)
        {
            count.unverified = count.unverified.saturating_sub(1);
        }
    }

    /// Notes that it was reported at `now` that a country has too many.
    pub(crate) fn suspected(&mut self, now: Timestamp, code: u16) {
        self.entry(now, code).suspected = true;
    }

    /// Moves counts of an hour after that of `to` to the hour of `to`.
    pub(crate) fn rebase(&mut self, to: Timestamp) {
        self.hour = self.hour.min(hour(to));
    }

    fn entry(&mut self, now: Timestamp, code: u16) -> &mut PrefixCount {
        if self.hour < hour(now) {
            self.hour = hour(now);
            self.counts.clear();
        }
        self.counts.entry(code).or_default()
    }

    /// Returns all counts of the hour of `now`, by country.
    #[cfg(test)]
    pub(crate) fn all(&self, now: Timestamp) -> Vec<(u16, PrefixCount)> {
        let is_current = self.hour == hour(now);
        let counts = self.counts.iter().filter(|_| is_current);
        let mut all: Vec<_> = counts.map(|(code, count)| (*code, *count)).collect();
        all.sort_unstable_by_key(|(code, _)| *code);
        all
    }

    /// Appends the counts, for a snapshot.
    pub(crate) fn encode_into(&self, out: &mut Vec<u8>) {
        let counts = self.counts.iter();
        let counts: Vec<_> =
            counts.map(|(code, count)| (*code, count.unverified, count.suspected)).collect();
        postrider_domain::event::encode(&(self.hour, counts), out);
    }

    /// Reads the bytes of [`encode_into`](Self::encode_into) from the front of `bytes`.
    pub(crate) fn take_from(bytes: &mut &[u8]) -> Result<Self, EventDecodeError> {
        type Encoded = (u64, Vec<(u16, u32, bool)>);
        let ((hour, counts), rest) =
            postcard::take_from_bytes::<Encoded>(bytes).map_err(|_| EventDecodeError)?;
        *bytes = rest;
        let count = |(code, unverified, suspected)| (code, PrefixCount { unverified, suspected });
        Ok(Self { hour, counts: counts.into_iter().map(count).collect() })
    }
}

/// The guard of an engine.
#[derive(Debug)]
pub struct PumpingGuard {
    /// The options of the guard.
    pub options: GuardOptions,
    /// The number of times that it noticed suspiciously many codes to one country.
    pub suspicions: AtomicU64,
}

impl PumpingGuard {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_is_counted_by_itself() {
        let at = |minutes: u64| Timestamp::from_millis(minutes * 60_000);
        let count = |unverified| PrefixCount { unverified, suspected: false };
        let mut counts = PrefixCounts::default();
        counts.sent(at(61), 49);
        counts.sent(at(62), 49);
        counts.sent(at(63), 1);
        assert_eq!(counts.all(at(119)), [(1, count(1)), (49, count(2))]);
        counts.verified(at(61), 49);
        assert_eq!(counts.get(at(119), 49), count(1));
        counts.suspected(at(119), 49);
        assert!(counts.get(at(119), 49).suspected);
        assert_eq!(counts.get(at(120), 49), count(0));
        counts.sent(at(121), 49);
        counts.verified(at(62), 49);
        assert_eq!(counts.all(at(121)), [(49, count(1))], "of the hour before is none there");
        let mut bytes = Vec::new();
        counts.encode_into(&mut bytes);
        let read = PrefixCounts::take_from(&mut bytes.as_slice()).unwrap();
        assert_eq!(read.all(at(121)), counts.all(at(121)));
    }
}
