//! Pure: the retry schedule of deliveries, pauses, and the rule that disables an endpoint.

use std::time::Duration;

use postrider_domain::Timestamp;

const SECOND: u64 = 1;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// The seconds between the attempts of one delivery. Customers rely on this schedule.
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
const FAILING_MAX: Duration = Duration::from_secs(5 * 24 * HOUR);
/// The pause of an endpoint that asks for one without a length.
const PAUSE: Duration = Duration::from_secs(5);
/// The longest pause that an endpoint can ask for.
const PAUSE_MAX: Duration = Duration::from_secs(24 * HOUR);

/// Returns the wait of a delivery after a failure with `failures` before it.
///
/// `jitter`, a fraction from 0 to 1, varies it by up to a fifth. `None` if the delivery is given
/// up.
pub(super) fn retry_delay(failures: u32, jitter: f64) -> Option<Duration> {
    let seconds = RETRIES.get(usize::try_from(failures).ok()?)?;
    Some(Duration::from_secs(*seconds).mul_f64(0.8 + 0.4 * jitter))
}

/// Returns the pause of an endpoint that asks for one.
pub(super) fn pause_length(retry_after: Option<Duration>) -> Duration {
    retry_after.unwrap_or(PAUSE).min(PAUSE_MAX)
}

/// The reason why an endpoint is disabled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DisabledReason {
    /// It answered 410.
    Gone,
    /// For five days no delivery succeeded.
    Failing,
    /// An administrator disabled it.
    Administrator,
}

impl DisabledReason {
    /// The reason's name: `gone`, `failing` or `administrator`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gone => "gone",
            Self::Failing => "failing",
            Self::Administrator => "administrator",
        }
    }
}

/// Returns the reason why an endpoint must be disabled after a failure, if it must.
///
/// `is_gone`: it answered 410. `failing_since`: its first failure after its last success, or after
/// it was enabled.
pub(super) fn reason_to_disable(
    is_gone: bool,
    failing_since: Timestamp,
    now: Timestamp,
) -> Option<DisabledReason> {
    if is_gone {
        return Some(DisabledReason::Gone);
    }
    (now.since(failing_since) >= FAILING_MAX).then_some(DisabledReason::Failing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nine_more_tries_over_three_days() {
        let seconds = |jitter| {
            let delays = (0..).map_while(|failures| retry_delay(failures, jitter));
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
            assert_eq!(pause_length(asked.map(Duration::from_secs)).as_secs(), seconds);
        }
    }

    #[test]
    fn an_endpoint_is_disabled_once_it_is_gone_or_has_failed_for_five_days() {
        let (since, max) = (Timestamp::from_millis(1_000), FAILING_MAX);
        let almost = since.plus(max - Duration::from_millis(1));
        assert_eq!(reason_to_disable(false, since, almost), None);
        assert_eq!(reason_to_disable(true, since, since), Some(DisabledReason::Gone));
        let failing = reason_to_disable(false, since, since.plus(max));
        assert_eq!(failing, Some(DisabledReason::Failing));
    }
}
