//! Pure: a day of engine time, counted in UTC.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::time::Timestamp;

const DAY_SECONDS: u64 = 24 * 3600;
/// The number of characters of a date, whose year has four digits.
const DATE_CHARS: usize = 10;

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
        assert_eq!(
            (Day::of(last), Day::of(last.plus(std::time::Duration::from_millis(1)))),
            (Day(0), Day(1))
        );
        assert_eq!(Day(5).minus(9), Day(0));
    }
}
