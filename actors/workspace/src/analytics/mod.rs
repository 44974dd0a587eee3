//! Counts by day of the effects of broadcasts and advertisements.
//!
//! The counts are written in the commits that make them true.

mod ads;
mod campaigns;

pub use ads::AdDay;
pub use campaigns::{CampaignCounts, CampaignDays, CampaignGrouping, CampaignRow};

pub(crate) use ads::note_referral;
pub(crate) use campaigns::note;

use std::time::Duration;

use postrider_domain::day::Day;
use postrider_store::{StoreError, Table};

use crate::sweep::{self, Look, RecordKeys, SweepCursor};

/// The number of further days for which counted days are kept.
const DAYS_KEPT: u32 = 400;
/// The interval of the search for days to forget.
const ROUND: Duration = Duration::from_secs(3600);
/// The letter of the keys of broadcasts' counts.
pub(crate) const CAMPAIGNS: u8 = b'c';
/// The letter of the keys of advertisements' counts.
pub(crate) const ADS: u8 = b'a';
/// The letter of the keys of contacts that were counted for an advertisement.
pub(crate) const COUNTED: u8 = b's';

/// Days that are asked about, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DayRange {
    /// The first.
    pub from: Day,
    /// The last.
    pub to: Day,
}

/// Reads the counts of days long past, under keys of the kind `BY`.
pub(crate) fn long_past<const BY: u8>(
    look: &Look<'_>,
    cursor: &mut SweepCursor,
) -> Result<RecordKeys, StoreError> {
    let first = Day::of(look.now).minus(DAYS_KEPT);
    let prefix = [look.workspace.as_str().as_bytes(), &[0, BY]].concat();
    let (keys, more) = sweep::while_over(look, (Table::Analytics, &prefix), &cursor.from, |key| {
        let day = key.first_chunk().map(|day| u32::from_be_bytes(*day));
        day.is_some_and(|day| day < first.number())
    })?;
    if let Some((_, key)) = keys.last() {
        cursor.pass(key);
    }
    if !more {
        cursor.rest_until(look.now.plus(ROUND));
    }
    Ok(keys)
}
