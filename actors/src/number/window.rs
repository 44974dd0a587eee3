//! How many messages may be with the channel at once: a few more while it answers quickly, half as
//! many when it throttles or gets slow.

use std::time::Duration;

const START: f64 = 16.0;
const MAX: f64 = 1000.0;
/// What a throttle leaves of it, and what slowness does.
const THROTTLED: f64 = 0.5;
const SLOW: f64 = 0.7;
/// Answers are slow that take twice as long as the quickest, and this much longer.
const SLACK_MS: f64 = 50.0;
/// What one answer counts in the average.
const WEIGHT: f64 = 0.1;
/// How fast the quickest is forgotten, for each answer.
const FORGOTTEN: f64 = 1.001;

/// Additive increase, multiplicative decrease. Pure: the caller measures.
#[derive(Debug)]
pub(super) struct Window {
    limit: f64,
    /// Nothing has slowed it down yet: it grows with each answer.
    opening: bool,
    /// The quickest answer, slowly forgotten, and the average, in milliseconds.
    quickest_ms: f64,
    average_ms: f64,
    /// Answers since it was last made smaller. Those of messages that were under way then say
    /// nothing new.
    answers: f64,
}

impl Default for Window {
    fn default() -> Self {
        Self {
            limit: START,
            opening: true,
            quickest_ms: f64::INFINITY,
            average_ms: 0.0,
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
        let took_ms = took.as_secs_f64() * 1000.0;
        if self.quickest_ms.is_infinite() {
            self.average_ms = took_ms;
        }
        self.quickest_ms = (self.quickest_ms * FORGOTTEN).min(took_ms);
        self.average_ms += (took_ms - self.average_ms) * WEIGHT;
        self.answers += 1.0;
        if self.average_ms > 2.0 * self.quickest_ms + SLACK_MS {
            self.shrink(SLOW);
        } else if under_way * 2 >= self.limit() {
            // More is of no use while less is needed.
            let step = if self.opening { 1.0 } else { 1.0 / self.limit };
            self.limit = (self.limit + step).min(MAX);
        }
    }

    /// The channel asked to be sent less, or did not answer.
    pub(super) fn throttled(&mut self) {
        self.answers += 1.0;
        self.shrink(THROTTLED);
    }

    fn shrink(&mut self, to: f64) {
        self.opening = false;
        if self.answers >= self.limit {
            self.limit = (self.limit * to).max(1.0);
            self.answers = 0.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: Duration = Duration::from_millis(100);

    /// Answers a whole window's messages.
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
}
