//! Analytics counts by day what broadcasts and advertisements brought.
//!
//! The counts are written in the commits that make them true.

mod ads;
mod campaigns;

pub use ads::AdDay;
pub use campaigns::{CampaignCounts, CampaignDays, CampaignGrouping, CampaignRow};

pub(crate) use ads::note_referral;
pub(crate) use campaigns::note;

use std::ops::ControlFlow;

use postrider_domain::day::Day;
use postrider_store::Table;

use crate::core::command::Context;
use postrider_domain::unavailable::Unavailable;

/// Days that are counted are kept for so many more.
const DAYS_KEPT: u32 = 400;
/// What is kept by day, by the letter of its keys.
const BY_DAY: [u8; 3] = [b'c', b'a', b's'];

/// Days that are asked about, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DayRange {
    /// The first.
    pub from: Day,
    /// The last.
    pub to: Day,
}

/// The keys of what is counted of days long past, so many at the most.
pub(crate) fn past(
    context: &Context<'_>,
    max: usize,
) -> Result<Vec<(Table, Vec<u8>)>, Unavailable> {
    let first = Day::of(context.now()).minus(DAYS_KEPT);
    let mut past = Vec::new();
    for kind in BY_DAY {
        let prefix = [context.core.id.as_str().as_bytes(), &[0, kind]].concat();
        context.scan(Table::Analytics, &prefix, &mut |key, _| {
            let day = key[prefix.len()..].first_chunk().map(|day| u32::from_be_bytes(*day));
            if past.len() == max || day.is_none_or(|day| day >= first.number()) {
                return ControlFlow::Break(());
            }
            past.push((Table::Analytics, key.to_vec()));
            ControlFlow::Continue(())
        })?;
    }
    Ok(past)
}
