//! The counts of the steps of codes over several channels, for the metrics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use postrider_domain::event::chain::{OtpChannel, TryStatus};

use crate::core::otp::figures::OtpFiguresAdded;

/// The maximum number of durations that are held until they are read; more are dropped.
const TIMES_MAX: usize = 10_000;

/// Steps by channel and status, and the durations until the next step started.
#[derive(Debug, Default)]
pub struct OtpFigures {
    tries: [[AtomicU64; TryStatus::ALL.len()]; OtpChannel::ALL.len()],
    failovers: Mutex<Vec<Duration>>,
}

impl OtpFigures {
    pub(crate) fn add(&self, added: &mut OtpFiguresAdded) {
        for (channel, status) in added.tries.drain(..) {
            let place = |at: Option<usize>| at.unwrap_or_default();
            let row = place(OtpChannel::ALL.iter().position(|it| *it == channel));
            let column = place(TryStatus::ALL.iter().position(|it| *it == status));
            self.tries[row][column].fetch_add(1, Ordering::Relaxed);
        }
        if !added.failovers.is_empty() {
            let mut times = self.failovers.lock();
            let room = TIMES_MAX.saturating_sub(times.len());
            times.extend(added.failovers.drain(..).take(room));
            added.failovers.clear();
        }
    }

    /// Returns each channel and status with the number of steps that ended so.
    pub fn tries(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        OtpChannel::ALL.iter().zip(&self.tries).flat_map(|(channel, row)| {
            let count = |(status, count): (&TryStatus, &AtomicU64)| {
                (channel.as_str(), status.as_str(), count.load(Ordering::Relaxed))
            };
            TryStatus::ALL.iter().zip(row).map(count)
        })
    }

    /// Returns the durations until the next step started, since the last call.
    pub fn take_failovers(&self) -> Vec<Duration> {
        std::mem::take(&mut *self.failovers.lock())
    }
}
