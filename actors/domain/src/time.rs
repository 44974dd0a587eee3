//! Pure: a moment of engine time, in milliseconds.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Milliseconds since the Unix epoch, UTC. It is displayed in RFC 3339 with milliseconds and `Z`.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Timestamp(u64);

/// Seconds of a day. No time zone is this far from UTC.
const DAY_SECONDS: u32 = 24 * 3600;

/// The text is not a date and time in RFC 3339, or the moment is before 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be an RFC 3339 date and time after 1969, such as 2026-01-31T09:30:00Z, at most 23:59 hours \
     from UTC"
)]
pub struct TimestampError;

impl Timestamp {
    /// The moment this many milliseconds after the Unix epoch.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the Unix epoch.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// Whole seconds since the Unix epoch, rounded down.
    #[must_use]
    pub const fn as_secs(self) -> u64 {
        self.0 / 1000
    }

    /// The moment `duration` later. Saturates at the largest value.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)))
    }

    /// The moment `duration` earlier. Saturates at the epoch.
    #[must_use]
    pub fn minus(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)))
    }

    /// The time from `earlier` to this moment, or zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moment = i64::try_from(self.0)
            .ok()
            .and_then(|millis| jiff::Timestamp::from_millisecond(millis).ok())
            .unwrap_or(jiff::Timestamp::MAX);
        write!(f, "{moment:.3}")
    }
}

impl FromStr for Timestamp {
    type Err = TimestampError;

    fn from_str(text: &str) -> Result<Self, TimestampError> {
        let moment: jiff::Timestamp = text.parse().map_err(|_| TimestampError)?;
        let pieces = jiff::fmt::temporal::Pieces::parse(text).map_err(|_| TimestampError)?;
        let offset = pieces.to_numeric_offset().ok_or(TimestampError)?;
        if offset.seconds().unsigned_abs() >= DAY_SECONDS {
            return Err(TimestampError);
        }
        u64::try_from(moment.as_millisecond()).map(Self).map_err(|_| TimestampError)
    }
}

/// A duration in whole seconds, rounded up and at least 1: the value of a `Retry-After` header.
#[must_use]
pub fn whole_seconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis().div_ceil(1000)).unwrap_or(u64::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_has_milliseconds_and_z() {
        let moment = Timestamp::from_millis(1_700_000_000_007);
        assert_eq!(moment.to_string(), "2023-11-14T22:13:20.007Z");
        assert_eq!("2023-11-14T23:13:20.007+01:00".parse(), Ok(moment));
        assert_eq!(Timestamp::from_millis(0).to_string(), "1970-01-01T00:00:00.000Z");
        assert_eq!("2023-11-15T22:12:20.007+23:59".parse(), Ok(moment));
        assert_eq!("2023-11-13T22:14:20.007-23:59".parse(), Ok(moment));
        for bad in [
            "",
            "2023-11-14",
            "now",
            "1969-12-31T23:59:59Z",
            "2023-13-01T00:00:00Z",
            "2023-11-14T22:13:20",
            "2023-11-14T22:13:20+24:00",
            "2023-11-14T22:13:20-25:00",
        ] {
            assert_eq!(bad.parse::<Timestamp>(), Err(TimestampError), "{bad}");
        }
        assert!(!Timestamp::from_millis(u64::MAX).to_string().is_empty());
    }

    #[test]
    fn retry_after_rounds_up() {
        for (millis, seconds) in [(0, 1), (1, 1), (1000, 1), (1001, 2), (599_999, 600)] {
            assert_eq!(whole_seconds(Duration::from_millis(millis)), seconds);
        }
    }
}
