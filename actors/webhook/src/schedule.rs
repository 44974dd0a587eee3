//! Pure: the retry schedule of a failed delivery, and the time for which an endpoint may keep
//! failing.

use std::time::Duration;

const SECOND: u64 = 1;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// The seconds between the attempts of one delivery.
const RETRIES: [u64; 9] = [
    5 * SECOND,
    5 * MINUTE,
    30 * MINUTE,
    2 * HOUR,
    5 * HOUR,
    10 * HOUR,
    14 * HOUR,
    20 * HOUR,
    24 * HOUR,
];
/// The time after which an endpoint with nothing but failures is disabled.
pub(super) const FAILING_MAX: Duration = Duration::from_secs(5 * 24 * HOUR);
/// The pause of an endpoint that asks for one without a length.
const PAUSE: Duration = Duration::from_secs(5);
/// The longest pause that an endpoint can ask for.
const PAUSE_MAX: Duration = Duration::from_secs(24 * HOUR);

/// Returns the wait of a delivery after a failure with `failures` before it.
///
/// `jitter`, a fraction from 0 to 1, varies it by up to a fifth. `None` if the delivery is given
/// up.
pub(super) fn delay(failures: u32, jitter: f64) -> Option<Duration> {
    let seconds = RETRIES.get(usize::try_from(failures).ok()?)?;
    Some(Duration::from_secs(*seconds).mul_f64(0.8 + 0.4 * jitter))
}

/// Returns the pause of an endpoint that asks for one.
pub(super) fn pause(retry_after: Option<Duration>) -> Duration {
    retry_after.unwrap_or(PAUSE).min(PAUSE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nine_more_tries_over_three_days() {
        let seconds = |jitter| {
            let delays = (0..).map_while(|failures| delay(failures, jitter));
            delays.map(|delay| delay.as_millis()).collect::<Vec<_>>()
        };
        let minutes = |minutes: u128| minutes * 60_000;
        let hours = |hours: u128| minutes(hours * 60);
        let exact = vec![
            5_000,
            minutes(5),
            minutes(30),
            hours(2),
            hours(5),
            hours(10),
            hours(14),
            hours(20),
            hours(24),
        ];
        assert_eq!(seconds(0.5), exact);
        let least: Vec<_> = exact.iter().map(|millis| millis * 8 / 10).collect();
        let most: Vec<_> = exact.iter().map(|millis| millis * 12 / 10).collect();
        assert_eq!((seconds(0.0), seconds(1.0)), (least, most));
    }

    #[test]
    fn a_pause_is_as_long_as_asked_and_bounded() {
        for (asked, seconds) in [(None, 5), (Some(0), 0), (Some(90), 90), (Some(u64::MAX), 86_400)]
        {
            assert_eq!(pause(asked.map(Duration::from_secs)).as_secs(), seconds);
        }
    }
}
