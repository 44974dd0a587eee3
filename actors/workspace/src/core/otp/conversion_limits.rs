//! Pure: the destinations that stay limited for a while, and the number of their probes.
//!
//! Refused codes do not count, so under a flood the counts of a destination run dry. Its limit is
//! held for a time after the counts last showed it. A fifth of the codes shows it again meanwhile.
//! No snapshot has the limits: a restart starts with the present counts.

use std::collections::BTreeMap;
use std::time::Duration;

use postrider_domain::Timestamp;
use postrider_domain::destination::Prefix;

use super::conversion_spans::Conversion;
use crate::core::settings::AdaptiveOptions;

/// The maximum of destinations that are held.
const HELD_MAX: usize = 10_000;
/// The divisor of `min_sends` for a destination that is held: a fifth of the codes is enough.
const HELD_SHARE: u32 = 5;

/// The limit of one destination.
#[derive(Debug, Clone, Copy)]
struct Hold {
    until: Timestamp,
    /// The start of the window of probes, and the probes since then.
    probes: (Timestamp, u32),
}

/// The destinations that are limited, or were of late.
#[derive(Debug, Default)]
pub(crate) struct ConversionLimits(BTreeMap<Prefix, Hold>);

impl AdaptiveOptions {
    /// Returns whether so many codes, by their verified share, limit a destination by themselves.
    pub(crate) fn has_too_few(&self, of: Conversion) -> bool {
        of.ended >= self.min_sends && self.is_under(of)
    }

    /// Returns whether the verified share is too small.
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
    /// Returns whether a destination is held, whatever its counts show.
    pub(crate) fn is_held(&self, destination: Prefix, now: Timestamp) -> bool {
        self.0.get(&destination).is_some_and(|hold| now < hold.until)
    }

    /// Returns whether a destination with these counts is limited.
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
