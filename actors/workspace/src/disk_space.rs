//! The limits on writing, by the free space of the disk.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::core::command::Footprint;
use postrider_domain::unavailable::{Unavailable, UnavailableReason};

/// The retry time of a caller that is refused for lack of space: an operator has to make some.
const RETRY_AFTER: Duration = Duration::from_secs(30);
/// The free space before it is first measured, or if nothing measures it.
const UNKNOWN: u64 = u64::MAX;

/// The last measured free space of the disk, and the limits by it.
///
/// Below the mark no command that adds data is accepted; below half of it no new command that
/// writes. Running work continues, because its outcome must be recorded.
#[derive(Debug)]
pub struct DiskSpace {
    free: AtomicU64,
    /// The mark; 0 for none.
    min: u64,
}

impl DiskSpace {
    /// Returns the state without a measurement, in which nothing is refused.
    #[must_use]
    pub const fn new(min: u64) -> Self {
        Self { free: AtomicU64::new(UNKNOWN), min }
    }

    /// Records a measurement, and logs when it crosses a mark.
    pub fn measured(&self, free: u64) {
        let before = self.level(self.free.swap(free, Ordering::Relaxed));
        let now = self.level(free);
        if now > before {
            tracing::warn!(free, min = self.min, "the disk is almost full; less is accepted");
        } else if now < before {
            tracing::info!(free, min = self.min, "the disk has more space; more is accepted");
        }
    }

    /// Returns the free bytes, if they were measured.
    pub fn free(&self) -> Option<u64> {
        Some(self.free.load(Ordering::Relaxed)).filter(|free| *free != UNKNOWN)
    }

    /// Checks that a command may be accepted.
    ///
    /// # Errors
    /// [`UnavailableReason::DiskFull`].
    pub fn admit(&self, footprint: Footprint) -> Result<(), Unavailable> {
        let refused_from = match footprint {
            Footprint::Grows => 1,
            Footprint::Settles => 2,
            Footprint::Ends => return Ok(()),
        };
        if self.level(self.free.load(Ordering::Relaxed)) < refused_from {
            return Ok(());
        }
        Err(Unavailable { reason: UnavailableReason::DiskFull, retry_after: RETRY_AFTER })
    }

    /// Returns the warning to the operator, if the space is below a mark.
    pub fn warning(&self) -> Option<String> {
        let free = self.free.load(Ordering::Relaxed);
        let what = match self.level(free) {
            0 => return None,
            1 => "nothing more is made",
            _ => "nothing more is begun",
        };
        Some(format!("disk: {free} bytes are free, of at least {}, so {what}", self.min))
    }

    /// Returns the number of marks above this free space.
    const fn level(&self, free: u64) -> u8 {
        (free < self.min) as u8 + (free < self.min / 2) as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_is_taken_below_each_mark_and_more_above_it_again() {
        let disk = DiskSpace::new(1000);
        let taken = || [Footprint::Grows, Footprint::Settles].map(|what| disk.admit(what).is_ok());
        assert_eq!((taken(), disk.free(), disk.warning()), ([true, true], None, None));
        for (free, expected) in [
            (1000, [true, true]),
            (999, [false, true]),
            (500, [false, true]),
            (499, [false, false]),
            (0, [false, false]),
            (2000, [true, true]),
        ] {
            disk.measured(free);
            assert_eq!((taken(), disk.free()), (expected, Some(free)));
            assert_eq!(disk.warning().is_some(), !expected[0]);
            assert_eq!(disk.admit(Footprint::Ends), Ok(()), "what ends something is always taken");
        }
        let unbounded = DiskSpace::new(0);
        unbounded.measured(0);
        assert!(unbounded.admit(Footprint::Grows).is_ok());
    }
}
