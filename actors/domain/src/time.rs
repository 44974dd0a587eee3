//! Pure: a point in engine time, in milliseconds, and a day of it, counted in UTC.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The milliseconds since the Unix epoch, UTC. Displayed in RFC 3339 with milliseconds and `Z`.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Timestamp(u64);

/// The seconds of a day. No time zone is this far from UTC.
const DAY_SECONDS: u64 = 24 * 3600;
/// The number of characters of a date, whose year has four digits.
const DATE_CHARS: usize = 10;

/// The text is not a date and time in RFC 3339, or the time is before 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be an RFC 3339 date and time after 1969, such as 2026-01-31T09:30:00Z, at most 23:59 hours \
     from UTC"
)]
pub struct TimestampError;

impl Timestamp {
    /// Returns the time this many milliseconds after the Unix epoch.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Returns the milliseconds since the Unix epoch.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// Returns the whole seconds since the Unix epoch, rounded down.
    #[must_use]
    pub const fn as_secs(self) -> u64 {
        self.0 / 1000
    }

    /// Returns the time `duration` later. Saturates at the largest value.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)))
    }

    /// Returns the time `duration` earlier. Saturates at the epoch.
    #[must_use]
    pub fn minus(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)))
    }

    /// Returns the duration from `earlier` to this time, or zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 <= LAST_WRITTEN {
            let text = text_of(self.0);
            // All bytes are digits and signs.
            return f.write_str(std::str::from_utf8(&text).unwrap_or_default());
        }
        let moment = i64::try_from(self.0)
            .ok()
            .and_then(|millis| jiff::Timestamp::from_millisecond(millis).ok())
            .unwrap_or(jiff::Timestamp::MAX);
        write!(f, "{moment:.3}")
    }
}

/// The last time with an exact text: all later ones have the same text.
const LAST_WRITTEN: u64 = 253_402_207_200_000 - 1;

/// Returns the text of a time up to that one, without a formatter: responses and events have many.
fn text_of(millis: u64) -> [u8; 24] {
    let (seconds, days) = (millis / 1000, millis / (1000 * DAY_SECONDS));
    let second_of_day = seconds % DAY_SECONDS;
    let [year, month, day] = date_of(days);
    let mut text = *b"0000-00-00T00:00:00.000Z";
    let numbers = [
        (0..4, year),
        (5..7, month),
        (8..10, day),
        (11..13, second_of_day / 3600),
        (14..16, second_of_day / 60 % 60),
        (17..19, second_of_day % 60),
        (20..23, millis % 1000),
    ];
    for (places, mut number) in numbers {
        for digit in text[places].iter_mut().rev() {
            *digit = b'0' + (number % 10) as u8;
            number /= 10;
        }
    }
    text
}

/// Returns year, month and day of the Gregorian calendar, so many days after 1 January 1970. The
/// computation starts years in March, so that the leap day is the last one.
const fn date_of(days: u64) -> [u64; 3] {
    const DAYS_OF_400_YEARS: u64 = 146_097;
    // From 1 March of the year 0 on.
    let days = days + 719_468;
    let (era, day_of_era) = (days / DAYS_OF_400_YEARS, days % DAYS_OF_400_YEARS);
    let leap_days = day_of_era / 1460 + day_of_era / 146_096;
    let year_of_era = (day_of_era + day_of_era / 36_524 - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + if month <= 2 { 1 } else { 0 };
    [year, month, day]
}

impl FromStr for Timestamp {
    type Err = TimestampError;

    fn from_str(text: &str) -> Result<Self, TimestampError> {
        let moment: jiff::Timestamp = text.parse().map_err(|_| TimestampError)?;
        let pieces = jiff::fmt::temporal::Pieces::parse(text).map_err(|_| TimestampError)?;
        let offset = pieces.to_numeric_offset().ok_or(TimestampError)?;
        if u64::from(offset.seconds().unsigned_abs()) >= DAY_SECONDS {
            return Err(TimestampError);
        }
        u64::try_from(moment.as_millisecond()).map(Self).map_err(|_| TimestampError)
    }
}

/// Returns a duration in whole seconds, rounded up and at least 1, for a `Retry-After` header.
#[must_use]
pub fn whole_seconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis().div_ceil(1000)).unwrap_or(u64::MAX).max(1)
}

/// Days since the Unix epoch. It is displayed and parsed as a date, such as `2026-01-31`.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Day(u32);

/// The text is not a date, or the date is before 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be a date after 1969, such as 2026-01-31")]
pub struct DayError;

impl Day {
    /// The last day that can be displayed.
    pub const MAX: Self = Self(2_932_895);

    /// Returns the day that contains a moment.
    #[must_use]
    pub fn of(at: Timestamp) -> Self {
        Self(
            u32::try_from(at.as_secs() / DAY_SECONDS)
                .map_or(Self::MAX.0, |day| day.min(Self::MAX.0)),
        )
    }

    /// Returns the number of days since the Unix epoch.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }

    /// Returns the day that is this many days after the Unix epoch.
    #[must_use]
    pub const fn from_number(number: u32) -> Self {
        Self(number)
    }

    /// Returns the day that is `days` earlier. Saturates at the epoch.
    #[must_use]
    pub const fn minus(self, days: u32) -> Self {
        Self(self.0.saturating_sub(days))
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moment = Timestamp::from_millis(u64::from(self.0) * DAY_SECONDS * 1000).to_string();
        f.write_str(moment.get(..DATE_CHARS).unwrap_or(&moment))
    }
}

impl FromStr for Day {
    type Err = DayError;

    fn from_str(text: &str) -> Result<Self, DayError> {
        if text.len() != DATE_CHARS {
            return Err(DayError);
        }
        let moment: Timestamp = format!("{text}T00:00:00Z").parse().map_err(|_| DayError)?;
        Ok(Self::of(moment))
    }
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
    fn text_is_what_the_calendar_says() {
        let same = |millis: u64| {
            let moment = jiff::Timestamp::from_millisecond(millis as i64).unwrap();
            assert_eq!(Timestamp::from_millis(millis).to_string(), format!("{moment:.3}"));
        };
        // Steps of a day and a part, through all of it.
        (0..=LAST_WRITTEN).step_by(86_400_000 * 37 + 3_661_001).for_each(same);
        for leap in [951_782_400_000, 4_107_456_000_000, 1_709_164_800_000, 1_735_603_200_000] {
            (leap..leap + 3 * 86_400_000).step_by(3_599_999).for_each(same);
        }
        [LAST_WRITTEN, LAST_WRITTEN + 1].into_iter().for_each(same);
        let last = Timestamp::from_millis(u64::MAX).to_string();
        assert_eq!(last, format!("{:.3}", jiff::Timestamp::MAX));
    }

    #[test]
    fn retry_after_rounds_up() {
        for (millis, seconds) in [(0, 1), (1, 1), (1000, 1), (1001, 2), (599_999, 600)] {
            assert_eq!(whole_seconds(Duration::from_millis(millis)), seconds);
        }
    }

    #[test]
    fn a_day_is_its_date() {
        for (text, number) in [("1970-01-01", 0), ("2026-01-31", 20_484), ("9999-12-30", 2_932_895)]
        {
            assert_eq!(text.parse(), Ok(Day(number)), "{text}");
            assert_eq!(Day(number).to_string(), text);
        }
        for bad in
            ["", "2026-1-31", "2026-02-30", "today", "1969-12-31", "2026-01-31Z", "20260131xx"]
        {
            assert_eq!(bad.parse::<Day>(), Err(DayError), "{bad}");
        }
        let last = Timestamp::from_millis(DAY_SECONDS * 1000 - 1);
        assert_eq!((Day::of(last), Day::of(last.plus(Duration::from_millis(1)))), (Day(0), Day(1)));
        assert_eq!(Day(5).minus(9), Day(0));
    }
}
