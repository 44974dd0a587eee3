//! Pure: keeps real time by a monotonic clock, and follows the wall clock only by slewing.
//!
//! A wall clock can step: an administrator sets it, a time daemon corrects it, a machine wakes with
//! a wrong one. A step must not reach those who wait for elapsed time. So real time runs with the
//! monotonic clock. A comparison each second corrects it by at most 50 ms until the next one. Its
//! rate is between 0.95 and 1.05 times the monotonic rate: it never runs backwards and never stops.

/// The time between two comparisons with the wall clock, in milliseconds.
const INTERVAL_MS: u64 = 1000;

/// The maximum correction in one interval, in milliseconds.
const CORRECTION_MS: i64 = 50;

/// Real time as a function of the monotonic clock.
///
/// All times are in milliseconds; real and wall time count from the Unix epoch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Discipline {
    /// The monotonic moment of the last comparison.
    anchor_mono_ms: u64,
    /// Real time at that moment.
    anchor_real_ms: u64,
    /// The time by which the interval after the anchor is longer (or shorter) in real time.
    correction_ms: i64,
    /// The wall clock less real time, as of the last comparison.
    difference_ms: i64,
    /// The difference above which it is a step.
    step_ms: u64,
    in_step: bool,
}

/// A change that a comparison found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StepChange {
    /// The wall clock has stepped away from real time.
    Began,
    /// The wall clock and real time agree again.
    Ended,
}

impl Discipline {
    /// Starts real time with the wall clock's time.
    pub(crate) fn new(mono_ms: u64, wall_ms: u64, step_ms: u64) -> Self {
        Self {
            anchor_mono_ms: mono_ms,
            anchor_real_ms: wall_ms,
            correction_ms: 0,
            difference_ms: 0,
            step_ms,
            in_step: false,
        }
    }

    /// Returns real time at a monotonic moment.
    pub(crate) fn real_ms(&self, mono_ms: u64) -> u64 {
        let elapsed = mono_ms.saturating_sub(self.anchor_mono_ms);
        // At most INTERVAL_MS, so the product is small.
        let part = elapsed.min(INTERVAL_MS) as i64;
        let corrected = self.correction_ms * part / INTERVAL_MS as i64;
        self.anchor_real_ms.saturating_add(elapsed).saturating_add_signed(corrected)
    }

    /// Returns whether the last comparison is at least an interval ago.
    pub(crate) fn is_due(&self, mono_ms: u64) -> bool {
        mono_ms.saturating_sub(self.anchor_mono_ms) >= INTERVAL_MS
    }

    /// Compares real time with the wall clock and starts the next interval.
    pub(crate) fn compare(&mut self, mono_ms: u64, wall_ms: u64) -> Option<StepChange> {
        let real_ms = self.real_ms(mono_ms);
        self.anchor_mono_ms = mono_ms;
        self.anchor_real_ms = real_ms;
        self.difference_ms = signed_difference(wall_ms, real_ms);
        self.correction_ms = self.difference_ms.clamp(-CORRECTION_MS, CORRECTION_MS);
        let before = self.in_step;
        self.in_step = self.difference_ms.unsigned_abs() > self.step_ms;
        match (before, self.in_step) {
            (false, true) => Some(StepChange::Began),
            (true, false) => Some(StepChange::Ended),
            _ => None,
        }
    }

    /// Takes the wall clock's time at once, if it is ahead. Returns by how much.
    pub(crate) fn follow(&mut self, mono_ms: u64, wall_ms: u64) -> Option<u64> {
        let real_ms = self.real_ms(mono_ms);
        let ahead = wall_ms.checked_sub(real_ms)?;
        *self = Self::new(mono_ms, wall_ms, self.step_ms);
        Some(ahead)
    }

    /// Returns the wall clock less real time, in milliseconds, as of the last comparison.
    pub(crate) fn difference_ms(&self) -> i64 {
        self.difference_ms
    }

    /// Returns whether the wall clock has stepped away from real time.
    pub(crate) fn in_step(&self) -> bool {
        self.in_step
    }
}

fn signed_difference(a: u64, b: u64) -> i64 {
    let size = i64::try_from(a.abs_diff(b)).unwrap_or(i64::MAX);
    if a >= b { size } else { -size }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOUR_MS: u64 = 3_600_000;
    const NOON_MS: u64 = 1_800_000_000_000;

    /// Runs for `seconds` with a wall clock that is off by `off_ms`.
    fn run(discipline: &mut Discipline, mono_ms: &mut u64, seconds: u64, off_ms: i64) {
        for _ in 0..seconds {
            *mono_ms += 1000;
            let wall = (NOON_MS + *mono_ms).saturating_add_signed(off_ms);
            discipline.compare(*mono_ms, wall);
        }
    }

    #[test]
    fn a_glitch_of_the_wall_clock_leaves_real_time_alone() {
        let (mut it, mut mono) = (Discipline::new(0, NOON_MS, 5000), 0);
        run(&mut it, &mut mono, 1, 2 * 24 * HOUR_MS as i64);
        assert!(it.in_step());
        run(&mut it, &mut mono, 2, 0);
        assert!(!it.in_step());
        assert_eq!(it.real_ms(mono), NOON_MS + mono);
    }

    #[test]
    fn a_step_that_stays_is_followed_by_a_twentieth_of_the_time() {
        for (off, after_a_minute) in [(HOUR_MS as i64, 2950), (-(HOUR_MS as i64), -2950)] {
            let (mut it, mut mono) = (Discipline::new(0, NOON_MS, 5000), 0);
            run(&mut it, &mut mono, 60, off);
            let drift = signed_difference(it.real_ms(mono), NOON_MS + mono);
            assert_eq!(drift, after_a_minute, "the first interval has no correction");
            assert_eq!(it.difference_ms(), off - after_a_minute);
        }
    }

    #[test]
    fn small_differences_are_taken_within_a_second_and_are_no_step() {
        let (mut it, mut mono) = (Discipline::new(0, NOON_MS, 5000), 0);
        run(&mut it, &mut mono, 2, 30);
        assert!(!it.in_step());
        assert_eq!(it.real_ms(mono), NOON_MS + mono + 30);
    }

    #[test]
    fn following_takes_a_forward_step_at_once_and_refuses_a_backward_one() {
        let mut it = Discipline::new(0, NOON_MS, 5000);
        assert_eq!(it.follow(1000, NOON_MS), None);
        assert_eq!(it.follow(1000, NOON_MS + 1000 + HOUR_MS), Some(HOUR_MS));
        assert_eq!(it.real_ms(1000), NOON_MS + 1000 + HOUR_MS);
        assert_eq!(it.compare(2000, NOON_MS + 2000 + HOUR_MS), None);
    }

    proptest! {
        #[test]
        fn real_time_never_falls_and_never_runs_faster_than_the_slew(
            steps in prop::collection::vec((1_u64..5000, -10_000_000_i64..10_000_000), 1..200)
        ) {
            let mut it = Discipline::new(0, NOON_MS, 5000);
            let (mut mono, mut before) = (0, NOON_MS);
            for (elapsed, off) in steps {
                mono += elapsed;
                let real = it.real_ms(mono);
                let grown = real.checked_sub(before).expect("real time falls");
                prop_assert!(grown + 1 >= elapsed * 95 / 100, "{grown} in {elapsed}");
                prop_assert!(grown <= elapsed * 105 / 100 + 1, "{grown} in {elapsed}");
                before = real;
                if it.is_due(mono) {
                    it.compare(mono, (NOON_MS + mono).saturating_add_signed(off));
                    prop_assert_eq!(it.real_ms(mono), real, "a comparison moves nothing");
                }
            }
        }
    }
}
