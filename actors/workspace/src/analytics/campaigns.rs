//! What became of broadcasts, by day.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use crate::Workspace;
use crate::core::command::Context;
use crate::core::view::unreadable;
use postrider_broadcast::daily_counts::{self, Counter, DayCounts};
use postrider_broadcast::record::Record;
use postrider_domain::BroadcastId;
use postrider_domain::day::Day;
use postrider_domain::unavailable::Unavailable;
use postrider_store::{Direction, StoreError, Table, View};

use crate::analytics::DayRange;

/// What happened to messages of broadcasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CampaignCounts {
    /// The channel was handed them, and did not refuse them; those whose answer got lost are among
    /// them.
    pub sent: u64,
    /// They came onto their recipient's device.
    pub delivered: u64,
    /// Their recipient opened them.
    pub read: u64,
    /// They were refused, came too late, or were not delivered.
    pub failed: u64,
    /// Recipients that wrote back.
    pub replied: u64,
}

/// What the rows are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CampaignGrouping {
    /// A broadcast on one day.
    DayAndBroadcast,
    /// All broadcasts on one day.
    Day,
    /// A broadcast on all days.
    Broadcast,
}

/// One row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CampaignRow {
    /// The day, unless the row is of all of them.
    pub day: Option<Day>,
    /// The broadcast and its name, unless the row is of all of them.
    pub broadcast: Option<(BroadcastId, Box<str>)>,
    /// What happened.
    pub counts: CampaignCounts,
}

/// A page of rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CampaignDays {
    /// The rows of the page: the newest day first, then the newest broadcast.
    pub rows: Vec<CampaignRow>,
    /// Rows of all pages.
    pub total: usize,
    /// Of all rows together.
    pub counts: CampaignCounts,
}

impl CampaignCounts {
    fn add(&mut self, counts: &DayCounts) {
        self.sent += u64::from(counts.sent);
        self.delivered += u64::from(counts.delivered);
        self.read += u64::from(counts.read);
        self.failed += u64::from(counts.failed);
        self.replied += u64::from(counts.replied);
    }
}

/// Counts something of a broadcast that happens today.
pub(crate) fn note(
    context: &mut Context<'_>,
    record: &Record,
    count: impl FnOnce(&mut DayCounts),
) -> Result<(), Unavailable> {
    let day = Day::of(context.now());
    let key = daily_counts::key(&context.core.id, day, record.id, Counter::Workspace);
    let stored = context.get(Table::Analytics, &key)?;
    let stored = stored.map(|bytes| DayCounts::decode(&bytes)).transpose().map_err(unreadable)?;
    let new = || DayCounts { name: record.name.clone(), ..DayCounts::default() };
    let mut counts = stored.unwrap_or_else(new);
    count(&mut counts);
    context.put(Table::Analytics, key, counts.encode());
    Ok(())
}

impl Workspace {
    /// What became of broadcasts on these days.
    ///
    /// # Errors
    /// [`Unavailable`]: the store cannot be read.
    pub async fn campaign_days(
        &self,
        range: DayRange,
        grouping: CampaignGrouping,
        skip: usize,
        limit: usize,
    ) -> Result<CampaignDays, Unavailable> {
        self.scan(move |store, workspace| {
            let prefix = daily_counts::prefix(workspace);
            let mut rows = BTreeMap::new();
            let mut all = CampaignCounts::default();
            scan(store, &prefix, range, &mut |day, id, counts| {
                let (by_day, by_broadcast) = match grouping {
                    CampaignGrouping::DayAndBroadcast => (Some(day), Some(id)),
                    CampaignGrouping::Day => (Some(day), None),
                    CampaignGrouping::Broadcast => (None, Some(id)),
                };
                all.add(&counts);
                let row = rows.entry((by_day, by_broadcast)).or_insert_with(|| CampaignRow {
                    day: by_day,
                    broadcast: by_broadcast.map(|id| (id, counts.name.clone())),
                    counts: CampaignCounts::default(),
                });
                row.counts.add(&counts);
            })?;
            let total = rows.len();
            let rows = rows.into_values().rev().skip(skip).take(limit).collect();
            Ok(CampaignDays { rows, total, counts: all })
        })
        .await
    }
}

fn scan(
    store: &dyn View,
    prefix: &[u8],
    range: DayRange,
    visit: &mut dyn FnMut(Day, BroadcastId, DayCounts),
) -> Result<(), StoreError> {
    let from = [prefix, &range.from.number().to_be_bytes()].concat();
    let mut damage = None;
    let direction = Direction::Forward;
    store.scan(Table::Analytics, prefix, Some(&from), direction, &mut |key, value| {
        let Some((day, id)) = daily_counts::read_key(&key[prefix.len()..]) else {
            return ControlFlow::Continue(());
        };
        if day > range.to {
            return ControlFlow::Break(());
        }
        match DayCounts::decode(value) {
            Ok(counts) => visit(day, id, counts),
            Err(error) => damage = Some(error),
        }
        ControlFlow::Continue(())
    })?;
    damage.map_or(Ok(()), Err)
}
