//! How many messages may be with the channel at once: a few more while it answers quickly, half as
//! many when it throttles or gets slow.

use std::time::Duration;

/// Where it begins; slowness makes it no smaller than this.
const START: f64 = 16.0;
const MAX: f64 = 1000.0;
/// What a throttle leaves of it, and what slowness does.
const THROTTLED: f64 = 0.5;
const SLOW: f64 = 0.7;
/// The channel is slow when its answers take twice as long as usual, and this much longer.
const SLACK_MS: f64 = 50.0;
/// What one answer counts in the average. So little, because single answers of one channel differ
/// much, busy or not.
const WEIGHT: f64 = 0.01;
/// How fast what is usual follows the average, down and up: what has long been slow is usual.
const USUAL_DOWN: f64 = 0.01;
const USUAL_UP: f64 = 0.001;

/// Additive increase, multiplicative decrease. Pure: the caller measures.
#[derive(Debug)]
pub(super) struct Window {
    limit: f64,
    /// Nothing has slowed it down yet: it grows with each answer.
    opening: bool,
    /// What an answer takes, in milliseconds: lately, and usually.
    average_ms: f64,
    usual_ms: f64,
    /// Outcomes that were measured.
    measured: f64,
    /// Outcomes since it was last made smaller. Those of messages that were under way then say
    /// nothing new.
    answers: f64,
}

impl Default for Window {
    fn default() -> Self {
        Self {
            limit: START,
            opening: true,
            average_ms: 0.0,
            usual_ms: 0.0,
            measured: 0.0,
            answers: START,
        }
    }
}

impl Window {
    /// Most messages with the channel: 1 to 1000.
    pub(super) const fn limit(&self) -> usize {
        self.limit as usize
    }

    /// An answer took this long, with so many messages under way.
    pub(super) fn answered(&mut self, took: Duration, under_way: usize) {
        self.measure(took.as_secs_f64() * 1000.0);
        self.answers += 1.0;
        // Few messages are not what makes a channel slow.
        if self.limit > START && self.average_ms > 2.0 * self.usual_ms + SLACK_MS {
            self.shrink(SLOW, START);
        } else if under_way * 2 >= self.limit() {
            // More is of no use while less is needed.
            let step = if self.opening { 1.0 } else { 1.0 / self.limit };
            self.limit = (self.limit + step).min(MAX);
        }
    }

    fn measure(&mut self, took_ms: f64) {
        self.measured += 1.0;
        // The first ones count the same: no single one is taken for what is usual.
        let weight = WEIGHT.max(1.0 / self.measured);
        self.average_ms += (took_ms - self.average_ms) * weight;
        if weight > WEIGHT {
            self.usual_ms = self.average_ms;
        } else {
            let follow = if self.average_ms < self.usual_ms { USUAL_DOWN } else { USUAL_UP };
            self.usual_ms += (self.average_ms - self.usual_ms) * follow;
        }
    }

    /// The channel asked to be sent less, or did not answer.
    pub(super) fn throttled(&mut self) {
        self.answers += 1.0;
        self.shrink(THROTTLED, 1.0);
    }

    fn shrink(&mut self, to: f64, least: f64) {
        self.opening = false;
        if self.answers >= self.limit {
            self.limit = (self.limit * to).max(least);
            self.answers = 0.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: Duration = Duration::from_millis(100);

    /// Outcomes a whole window's messages.
    fn round(window: &mut Window, took: Duration) {
        let under_way = window.limit();
        (0..under_way).for_each(|_| window.answered(took, under_way));
    }

    #[test]
    fn it_opens_fast_and_not_without_end() {
        let mut window = Window::default();
        round(&mut window, QUICK);
        assert_eq!(window.limit(), 32);
        (0..10).for_each(|_| round(&mut window, QUICK));
        assert_eq!(window.limit(), 1000);
    }

    #[test]
    fn it_does_not_grow_when_little_is_under_way() {
        let mut window = Window::default();
        (0..1000).for_each(|_| window.answered(QUICK, 3));
        assert_eq!(window.limit(), 16);
    }

    #[test]
    fn a_throttle_halves_it_once_for_all_that_were_under_way() {
        let mut window = Window::default();
        (0..3).for_each(|_| round(&mut window, QUICK));
        assert_eq!(window.limit(), 128);
        (0..64).for_each(|_| window.throttled());
        assert_eq!(window.limit(), 64);
        // From then on it grows by one for each round.
        round(&mut window, QUICK);
        assert_eq!(window.limit(), 64);
        round(&mut window, QUICK);
        assert_eq!(window.limit(), 65);
        (0..2000).for_each(|_| window.throttled());
        assert_eq!(window.limit(), 1);
    }

    #[test]
    fn slowness_makes_it_smaller_until_answers_are_quick_again() {
        let mut window = Window::default();
        (0..4).for_each(|_| round(&mut window, QUICK));
        let wide = window.limit();
        (0..4).for_each(|_| round(&mut window, Duration::from_secs(2)));
        let narrow = window.limit();
        assert!(narrow < wide / 2, "{narrow} of {wide}");
        (0..30).for_each(|_| round(&mut window, QUICK));
        assert!(window.limit() > narrow);
    }

    #[test]
    fn a_channel_that_is_always_slow_is_not_slowed_down() {
        let mut window = Window::default();
        (0..10).for_each(|_| round(&mut window, Duration::from_secs(5)));
        assert_eq!(window.limit(), 1000);
    }

    #[test]
    fn what_has_long_been_slow_is_usual() {
        let mut window = Window::default();
        (0..4).for_each(|_| round(&mut window, QUICK));
        (0..20).for_each(|_| round(&mut window, Duration::from_secs(2)));
        let narrow = window.limit();
        assert!((16..200).contains(&narrow), "{narrow}");
        (0..200).for_each(|_| round(&mut window, Duration::from_secs(2)));
        assert!(window.limit() > narrow + 100, "{} after {narrow}", window.limit());
    }

    /// Outcomes differ much, from one to the next, and nothing is wrong.
    #[test]
    fn answers_that_differ_do_not_make_it_smaller() {
        /// What an answer takes, in milliseconds, by a fraction from 0 to 1.
        type TookMs = fn(f64) -> f64;
        let channels: [(&str, TookMs); 3] = [
            ("a long tail", |part| 80.0 - 220.0 * (1.0 - part).ln()),
            ("anything up to two seconds", |part| 2000.0 * part),
            ("one in twenty takes five seconds", |part| if part < 0.95 { 50.0 } else { 5000.0 }),
        ];
        for (name, took_ms) in channels {
            for throttled_first in [false, true] {
                let mut window = Window::default();
                if throttled_first {
                    (0..200).for_each(|_| window.throttled());
                    assert_eq!(window.limit(), 1);
                }
                let mut part = 0.5_f64;
                for _ in 0..20_000 {
                    // The golden ratio spreads them evenly, in no order.
                    part = (part + 0.618_033_988_75).fract();
                    let took = Duration::from_secs_f64(took_ms(part) / 1000.0);
                    window.answered(took, window.limit());
                }
                assert!(window.limit() > 100, "{name}: {}", window.limit());
            }
        }
    }
}
