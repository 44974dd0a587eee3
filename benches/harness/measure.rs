//! Rounds, rates and latencies.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

// The one clock of the harness: the engine's own way to the monotonic one.
pub(crate) use postrider_actors::clock::Stopwatch;
use postrider_actors::domain::Phone;

use crate::Result;
use crate::scale::Scale;

/// The times that single operations took, in nanoseconds; more than four seconds count as four.
#[derive(Debug, Default)]
pub(crate) struct Latencies(Vec<u32>);

impl Latencies {
    /// None yet, with room for a round's worth of one connection.
    pub(crate) fn new() -> Self {
        Self(Vec::with_capacity(4096))
    }

    /// Adds one.
    pub(crate) fn add(&mut self, time: Duration) {
        self.0.push(u32::try_from(time.as_nanos()).unwrap_or(u32::MAX));
    }

    /// Adds all of another's.
    pub(crate) fn merge(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The time in milliseconds that this share of them did not exceed.
    fn percentile_ms(&mut self, share: f64) -> f64 {
        let Some(last) = self.0.len().checked_sub(1) else { return f64::NAN };
        let (_, time, _) = self.0.select_nth_unstable((last as f64 * share) as usize);
        f64::from(*time) / 1e6
    }
}

/// What one side did in one round, or in all of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measured {
    /// Per second.
    pub(crate) rate: f64,
    /// Half of the operations took at most this; not a number where that is not measured.
    pub(crate) p50_ms: f64,
    /// All but one in a hundred took at most this.
    pub(crate) p99_ms: f64,
    /// All but one in a thousand.
    pub(crate) p999_ms: f64,
    /// Microseconds of processor time for each; not a number where that is not measured.
    pub(crate) cpu_us: f64,
}

impl Measured {
    /// From the operations' times in a round that took `elapsed`.
    pub(crate) fn operations(latencies: Latencies, elapsed: Duration) -> Self {
        Self { rate: latencies.len() as f64 / elapsed.as_secs_f64(), ..Self::times(latencies) }
    }

    /// Times alone.
    pub(crate) fn times(mut latencies: Latencies) -> Self {
        Self {
            rate: f64::NAN,
            p50_ms: latencies.percentile_ms(0.5),
            p99_ms: latencies.percentile_ms(0.99),
            p999_ms: latencies.percentile_ms(0.999),
            cpu_us: f64::NAN,
        }
    }

    /// A rate alone.
    pub(crate) const fn rate(rate: f64) -> Self {
        Self { rate, p50_ms: f64::NAN, p99_ms: f64::NAN, p999_ms: f64::NAN, cpu_us: f64::NAN }
    }

    /// The same with the processor time of each.
    pub(crate) const fn with_cpu(self, cpu_us: f64) -> Self {
        Self { cpu_us, ..self }
    }

    /// The rate, and the processor time where it was measured.
    fn shown(&self) -> String {
        let Self { rate, cpu_us, .. } = self;
        match cpu_us.is_nan() {
            true => format!("{rate:.0}/s"),
            false => format!("{rate:.0}/s ({cpu_us:.1} µs of processor time each)"),
        }
    }

    /// Of each figure by itself: a round that something disturbed counts for nothing.
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

/// The middle one, or the mean of the middle two.
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
    /// What the budget is about.
    pub(crate) subject: Measured,
    /// What it is compared with.
    pub(crate) reference: Measured,
}

impl Pair {
    /// The medians of rounds.
    pub(crate) fn of_rounds(subjects: &[Measured], references: &[Measured]) -> Self {
        Self { subject: Measured::median(subjects), reference: Measured::median(references) }
    }
}

/// Runs both sides in alternating rounds, after a warm-up of each; medians of the rounds. The side
/// that goes first changes with each pair, so that a machine that becomes slower favours neither.
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

/// Phones for a whole run, each given once: the digits of one, all of the same length.
#[derive(Debug)]
pub(crate) struct Phones(AtomicU64);

impl Phones {
    /// Digits of every phone.
    pub(crate) const DIGITS: usize = 12;

    /// The first one.
    pub(crate) const FIRST: u64 = 491_500_000_000;

    /// From the first on.
    pub(crate) const fn new() -> Self {
        Self(AtomicU64::new(Self::FIRST))
    }

    /// The next one.
    pub(crate) fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }

    /// The next one, parsed; cheap, for what an embedding program has is not text.
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
