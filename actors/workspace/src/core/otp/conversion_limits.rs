//! Pure: which destinations stay limited for a while, and how many probes they have had.
//!
//! What is refused does not count, so under a flood the counts of a destination run dry. A limit is
//! held for a time after they last showed it, and a fifth of the codes shows it again meanwhile. It
//! is of no snapshot: a restart begins with what the counts show.

use std::collections::BTreeMap;
use std::time::Duration;

use postrider_domain::Timestamp;
use postrider_domain::destination::Prefix;

use super::conversion_spans::Conversion;
use crate::core::settings::AdaptiveOptions;

/// Most destinations that are held.
const HELD_MAX: usize = 10_000;
/// One of so many codes is enough to judge a destination that is held.
const HELD_SHARE: u32 = 5;

/// The limit of one destination.
#[derive(Debug, Clone, Copy)]
struct Hold {
    until: Timestamp,
    /// Probes since then.
    probes: (Timestamp, u32),
}

/// The destinations that are limited, or were of late.
#[derive(Debug, Default)]
pub(crate) struct ConversionLimits(BTreeMap<Prefix, Hold>);

impl AdaptiveOptions {
    /// Whether so many codes, by their share that was verified, limit a destination by themselves.
    pub(crate) fn has_too_few(&self, of: Conversion) -> bool {
        of.ended >= self.min_sends && self.is_under(of)
    }

    /// Whether the share that was verified is too small.
    pub(crate) fn is_under(&self, of: Conversion) -> bool {
        let percent = u64::from(self.conversion_percent);
        u64::from(of.verified) * 100 < percent * u64::from(of.ended)
    }

    fn window(&self) -> Duration {
        Duration::from_secs(self.window_seconds.into())
    }

    fn hold(&self) -> Duration {
        Duration::from_secs(self.hold_seconds.into())
    }
}

impl ConversionLimits {
    /// Whether a destination is held, whatever its counts show.
    pub(crate) fn is_held(&self, destination: Prefix, now: Timestamp) -> bool {
        self.0.get(&destination).is_some_and(|hold| now < hold.until)
    }

    /// Whether a destination with these counts is limited.
    pub(crate) fn judge(
        &mut self,
        destination: Prefix,
        now: Timestamp,
        counts: Conversion,
        options: &AdaptiveOptions,
    ) -> bool {
        let is_held = self.is_held(destination, now);
        let least = match is_held {
            true => options.min_sends.div_ceil(HELD_SHARE),
            false => options.min_sends,
        };
        if counts.ended < least {
            return is_held;
        }
        if !options.is_under(counts) {
            self.0.remove(&destination);
            return false;
        }
        if self.0.len() >= HELD_MAX && !self.0.contains_key(&destination) {
            let is_over = |hold: &Hold| hold.until.max(hold.probes.0.plus(options.window())) <= now;
            self.0.retain(|_, hold| !is_over(hold));
        }
        if self.0.len() < HELD_MAX {
            let new = Hold { until: now, probes: (now, 0) };
            self.0.entry(destination).or_insert(new).until = now.plus(options.hold());
        }
        true
    }

    /// Takes one of the probes that a limited destination may have in a window, if one is left.
    pub(crate) fn take_probe(
        &mut self,
        destination: Prefix,
        now: Timestamp,
        options: &AdaptiveOptions,
    ) -> bool {
        let Some(Hold { probes: (since, count), .. }) = self.0.get_mut(&destination) else {
            return true;
        };
        if since.plus(options.window()) <= now {
            (*since, *count) = (now, 0);
        }
        let is_left = *count < options.min_sends;
        *count += u32::from(is_left);
        is_left
    }

    /// Ends all holds, as the clock was ahead.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}
