//! Rounds, rates and latencies.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

// The one clock of the harness: the engine's own way to the monotonic one.
pub(crate) use postrider_actors::clock::Stopwatch;
use postrider_actors::domain::Phone;

use crate::Result;
use crate::scale::Scale;

/// The durations of single operations, in nanoseconds; more than four seconds count as four.
#[derive(Debug, Default)]
pub(crate) struct Latencies(Vec<u32>);

impl Latencies {
    /// Makes an empty list, with room for a round of one connection.
    pub(crate) fn new() -> Self {
        Self(Vec::with_capacity(4096))
    }

    /// Adds one duration.
    pub(crate) fn add(&mut self, time: Duration) {
        self.0.push(u32::try_from(time.as_nanos()).unwrap_or(u32::MAX));
    }

    /// Adds all durations of another list.
    pub(crate) fn merge(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Returns the number of durations.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the time in milliseconds that this share of them did not exceed.
    fn percentile_ms(&mut self, share: f64) -> f64 {
        let Some(last) = self.0.len().checked_sub(1) else { return f64::NAN };
        let (_, time, _) = self.0.select_nth_unstable((last as f64 * share) as usize);
        f64::from(*time) / 1e6
    }
}

/// The result of one side in one round, or in all of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measured {
    /// The operations per second.
    pub(crate) rate: f64,
    /// The time that half of the operations did not exceed; NaN where it is not measured.
    pub(crate) p50_ms: f64,
    /// The time that all but one in a hundred did not exceed.
    pub(crate) p99_ms: f64,
    /// The time that all but one in a thousand did not exceed.
    pub(crate) p999_ms: f64,
    /// The microseconds of processor time per operation; NaN where it is not measured.
    pub(crate) cpu_us: f64,
}

impl Measured {
    /// Makes a result from the operations' times in a round that took `elapsed`.
    pub(crate) fn operations(latencies: Latencies, elapsed: Duration) -> Self {
        Self { rate: latencies.len() as f64 / elapsed.as_secs_f64(), ..Self::times(latencies) }
    }

    /// Makes a result of times alone.
    pub(crate) fn times(mut latencies: Latencies) -> Self {
        Self {
            rate: f64::NAN,
            p50_ms: latencies.percentile_ms(0.5),
            p99_ms: latencies.percentile_ms(0.99),
            p999_ms: latencies.percentile_ms(0.999),
            cpu_us: f64::NAN,
        }
    }

    /// Makes a result of a rate alone.
    pub(crate) const fn rate(rate: f64) -> Self {
        Self { rate, p50_ms: f64::NAN, p99_ms: f64::NAN, p999_ms: f64::NAN, cpu_us: f64::NAN }
    }

    /// Adds the processor time per operation.
    pub(crate) const fn with_cpu(self, cpu_us: f64) -> Self {
        Self { cpu_us, ..self }
    }

    /// Formats the rate, and the processor time where it was measured.
    fn shown(&self) -> String {
        let Self { rate, cpu_us, .. } = self;
        match cpu_us.is_nan() {
            true => format!("{rate:.0}/s"),
            false => format!("{rate:.0}/s ({cpu_us:.1} µs of processor time each)"),
        }
    }

    /// Returns the median of each figure by itself: a disturbed round does not count.
    fn median(rounds: &[Self]) -> Self {
        let of = |figure: fn(&Self) -> f64| median(rounds.iter().map(figure).collect());
        Self {
            rate: of(|it| it.rate),
            p50_ms: of(|it| it.p50_ms),
            p99_ms: of(|it| it.p99_ms),
            p999_ms: of(|it| it.p999_ms),
            cpu_us: of(|it| it.cpu_us),
        }
    }
}

/// Returns the middle value, or the mean of the middle two.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

/// Both sides of a row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pair {
    /// The side that the budget is about.
    pub(crate) subject: Measured,
    /// The side that it is compared with.
    pub(crate) reference: Measured,
}

impl Pair {
    /// Returns the medians of rounds.
    pub(crate) fn of_rounds(subjects: &[Measured], references: &[Measured]) -> Self {
        Self { subject: Measured::median(subjects), reference: Measured::median(references) }
    }
}

/// Runs both sides in alternating rounds, after a warm-up of each; returns the medians.
///
/// The side that goes first changes with each pair, so that a machine that becomes slower favours
/// neither.
pub(crate) fn alternate(
    scale: &Scale,
    mut subject: impl FnMut(Duration) -> Result<Measured>,
    mut reference: impl FnMut(Duration) -> Result<Measured>,
) -> Result<Pair> {
    let reference = &mut |time| match scale.alone {
        true => Ok(Measured::rate(f64::NAN)),
        false => reference(time),
    };
    if !scale.warm_up.is_zero() {
        reference(scale.warm_up)?;
        subject(scale.warm_up)?;
    }
    let (mut subjects, mut references) = (Vec::new(), Vec::new());
    for round in 0..scale.rounds {
        if round % 2 == 0 {
            references.push(reference(scale.round)?);
            subjects.push(subject(scale.round)?);
        } else {
            subjects.push(subject(scale.round)?);
            references.push(reference(scale.round)?);
        }
        let (ours, theirs) = (&subjects[round], &references[round]);
        eprintln!("  round {}: {} against {}", round + 1, ours.shown(), theirs.shown());
    }
    Ok(Pair::of_rounds(&subjects, &references))
}

/// The phones of a whole run, each used once: the digits of a phone, all of the same length.
#[derive(Debug)]
pub(crate) struct Phones(AtomicU64);

impl Phones {
    /// The number of digits of every phone.
    pub(crate) const DIGITS: usize = 12;

    /// The first phone.
    pub(crate) const FIRST: u64 = 491_500_000_000;

    /// Starts from the first phone.
    pub(crate) const fn new() -> Self {
        Self(AtomicU64::new(Self::FIRST))
    }

    /// Returns the next phone.
    pub(crate) fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the next phone, parsed. That is cheap, as an embedding program has no text to parse.
    pub(crate) fn next_phone(&self) -> Result<Phone> {
        let mut text = [b'+'; 1 + Self::DIGITS];
        write_digits(self.next(), &mut text[1..]);
        Ok(std::str::from_utf8(&text)?.parse()?)
    }
}

/// Writes a number's last digits, as many as there is room for.
pub(crate) fn write_digits(mut number: u64, digits: &mut [u8]) {
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}
