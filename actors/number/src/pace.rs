//! Pure: the pace of a number: the most messages that it may send in a second.
//!
//! The token bucket of the number's actor enforces it.

use postrider_channel::number_facts::{NumberFacts, Throughput};

use crate::record::{NumberInfo, NumberKind};

/// The default maximum messages per second through a number of the Cloud API.
const CLOUD_API_PACE: u32 = 80;

impl NumberInfo {
    /// Returns the maximum messages per second, 0 for no limit. It is the number's own figure, or
    /// that of the settings, or of its provider, or of its kind.
    #[must_use]
    pub fn pace(&self, setting: Option<u32>, facts: &NumberFacts) -> u32 {
        let of_kind = if self.kind == NumberKind::CloudApi { CLOUD_API_PACE } else { 0 };
        let said = || facts.throughput.and_then(Throughput::pace);
        self.messages_per_second.or(setting).or_else(said).unwrap_or(of_kind)
    }
}
