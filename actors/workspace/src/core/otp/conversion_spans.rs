//! Pure: counts of one region, in spans of five minutes.

use serde::{Deserialize, Serialize};

use postrider_domain::Timestamp;

/// The seconds of a span.
pub(super) const SPAN_SECONDS: u64 = 300;
/// The number of spans in which a region is counted.
pub(super) const SPANS: usize = 12;
/// Sends of codes that have ended, and the codes of them that were verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Conversion {
    pub(crate) ended: u32,
    pub(crate) verified: u32,
}

impl Conversion {
    pub(super) const fn plus(self, other: Self) -> Self {
        Self {
            ended: self.ended.saturating_add(other.ended),
            verified: self.verified.saturating_add(other.verified),
        }
    }
}

/// The counts of one span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Span {
    pub(super) ended: u16,
    pub(super) verified: u16,
}

impl Span {
    pub(super) fn add(&mut self, verified: bool, sends: u8) {
        if self.ended > u16::MAX - u16::from(u8::MAX) {
            // The share stays.
            (self.ended, self.verified) = (self.ended / 2, self.verified / 2);
        }
        self.ended += u16::from(sends);
        self.verified = self.verified.saturating_add(verified.into());
    }

    const fn conversion(self) -> Conversion {
        Conversion { ended: self.ended as u32, verified: self.verified as u32 }
    }
}

/// The counts of one region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Region {
    /// The newest span, in spans since the epoch.
    pub(super) newest: u32,
    /// The newest span first.
    pub(super) spans: [Span; SPANS],
}

impl Region {
    /// Returns the counts of a span, while they are held.
    pub(super) fn span_mut(&mut self, span: u32) -> Option<&mut Span> {
        if let Some(later) = span.checked_sub(self.newest).filter(|later| *later > 0) {
            let later = (later as usize).min(SPANS);
            self.spans.copy_within(..SPANS - later, later);
            self.spans[..later].fill(Span::default());
            self.newest = span;
        }
        self.spans.get_mut((self.newest - span) as usize)
    }

    /// Returns the last spans up to that of `now`, newest first, with their numbers.
    pub(super) fn last(&self, now: u32, spans: u32) -> impl Iterator<Item = (u32, Span)> {
        let oldest = (now + 1).saturating_sub(spans);
        let numbered = (0..=self.newest).rev().zip(self.spans);
        numbered.filter(move |(number, _)| (oldest..=now).contains(number))
    }

    /// Returns the sum of the last spans, except those in `without`.
    pub(super) fn sum(&self, (now, spans): (u32, u32), without: &[u32]) -> Conversion {
        let counts = self.last(now, spans).filter(|(number, _)| !without.contains(number));
        counts.fold(Conversion::default(), |sum, (_, span)| sum.plus(span.conversion()))
    }

    pub(super) const fn is_over(&self, now: u32) -> bool {
        self.newest as u64 + SPANS as u64 <= now as u64
    }
}

/// Returns the number of the span that contains a moment.
pub(super) fn span(at: Timestamp) -> u32 {
    u32::try_from(at.as_secs() / SPAN_SECONDS).unwrap_or(u32::MAX - SPANS as u32)
}
