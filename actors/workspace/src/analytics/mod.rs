//! Counts by day of the effects of broadcasts and advertisements: here those of broadcasts.
//!
//! The counts are written in the commits that make them true.

mod ads;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;

use hashbrown::HashMap;
use postrider_broadcast::daily_counts::{self, Counter, DayCounts};
use postrider_broadcast::record::Record;
use postrider_domain::day::Day;
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{BroadcastId, WorkspaceId};
use postrider_store::{Direction, StoreError, Table, View};

use crate::core::command::Context;
use crate::core::view::unreadable;
use crate::sweep::{Look, RecordKeys, SweepCursor};
use crate::{Workspace, sweep};

pub use ads::AdDay;
pub(crate) use ads::note_referral;

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

/// The counts of broadcasts' messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CampaignCounts {
    /// Messages that were handed to the channel and not refused. Messages whose answer got lost are
    /// included, and all that have arrived.
    pub sent: u64,
    /// Messages that arrived on their recipient's device.
    pub delivered: u64,
    /// Messages that their recipient opened.
    pub read: u64,
    /// Messages that were refused, came too late, or were not delivered.
    pub failed: u64,
    /// Recipients that wrote back.
    pub replied: u64,
}

/// The grouping of the rows.
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
    /// The counts of the row.
    pub counts: CampaignCounts,
}

/// A page of rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CampaignDays {
    /// The rows of the page: the newest day first, then the newest broadcast.
    pub rows: Vec<CampaignRow>,
    /// The number of rows of all pages.
    pub total: usize,
    /// The counts of all rows together.
    pub counts: CampaignCounts,
}

impl CampaignCounts {
    const fn add(&mut self, counts: &Self) {
        self.sent += counts.sent;
        self.delivered += counts.delivered;
        self.read += counts.read;
        self.failed += counts.failed;
        self.replied += counts.replied;
    }

    /// Returns the number of sent messages, also as known from their later outcomes.
    fn surely_sent(&self) -> u64 {
        self.sent.max(self.delivered).max(self.replied)
    }
}

/// Counts an event of a broadcast that happens today.
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
    /// Returns the counts of broadcasts on these days.
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
            let mut rows = BTreeMap::new();
            let mut all = CampaignCounts::default();
            for ((day, id), (name, counts)) in counts_by_day(store, workspace, range)? {
                let (by_day, by_broadcast) = match grouping {
                    CampaignGrouping::DayAndBroadcast => (Some(day), Some(id)),
                    CampaignGrouping::Day => (Some(day), None),
                    CampaignGrouping::Broadcast => (None, Some(id)),
                };
                all.add(&counts);
                let row = rows.entry((by_day, by_broadcast)).or_insert_with(|| CampaignRow {
                    day: by_day,
                    broadcast: by_broadcast.map(|id| (id, name)),
                    counts: CampaignCounts::default(),
                });
                row.counts.add(&counts);
            }
            let total = rows.len();
            let rows = rows.into_values().rev().skip(skip).take(limit).collect();
            Ok(CampaignDays { rows, total, counts: all })
        })
        .await
    }
}

/// The counts of each day and broadcast, with the broadcast's name.
type CountsByDay = BTreeMap<(Day, BroadcastId), (Box<str>, CampaignCounts)>;

/// Returns the counts of these days.
///
/// The workspace may note that a message has arrived before the fan-out notes that it was sent. It
/// counts as sent all the same, so the arrived messages are never more than the sent ones.
fn counts_by_day(
    store: &dyn View,
    workspace: &WorkspaceId,
    range: DayRange,
) -> Result<CountsByDay, StoreError> {
    let mut found = CountsByDay::new();
    scan(store, &daily_counts::prefix(workspace), range, &mut |day, id, counts| {
        let DayCounts { name, sent, delivered, read, failed, replied } = counts;
        let new = || (name, CampaignCounts::default());
        let (_, all) = found.entry((day, id)).or_insert_with(new);
        all.add(&CampaignCounts {
            sent: sent.into(),
            delivered: delivered.into(),
            read: read.into(),
            failed: failed.into(),
            replied: replied.into(),
        });
    })?;
    let mut until_then = HashMap::<BroadcastId, CampaignCounts>::new();
    for ((_, id), (_, counts)) in &mut found {
        // Messages of an older one that arrive now may have been sent before these days.
        if Day::of(id.timestamp()) >= range.from {
            let all = until_then.entry(*id).or_default();
            let before = all.surely_sent();
            all.add(counts);
            counts.sent = all.surely_sent() - before;
        }
    }
    Ok(found)
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

#[cfg(test)]
mod tests {
    use postrider_domain::Timestamp;
    use postrider_store::{Change, Group, MemoryStore, Store};

    use super::*;

    #[test]
    fn what_has_arrived_was_sent() {
        let (store, workspace) = (MemoryStore::new(), "acme".parse().unwrap());
        let today = Day::from_number(20_000);
        let at = Timestamp::from_millis(20_000 * 24 * 3_600_000 + 5);
        let id = BroadcastId::from_parts(at, 1);
        let note = |day, who, sent, delivered, replied| {
            let counts =
                DayCounts { name: "Sale".into(), sent, delivered, read: 0, failed: 0, replied };
            let key = daily_counts::key(&workspace, day, id, who);
            let change = Change::put(Table::Analytics, key, counts.encode());
            store.commit(Group::new(None, &[change])).unwrap();
        };
        let sent = |from: Day, to: Day| {
            let found = counts_by_day(&store, &workspace, DayRange { from, to }).unwrap();
            found.values().map(|(_, counts)| counts.sent).collect::<Vec<_>>()
        };
        let tomorrow = Day::from_number(20_001);
        note(today, Counter::FanOut, 4, 0, 0);
        note(today, Counter::Workspace, 0, 6, 0);
        assert_eq!(sent(today, today), [6]);
        note(today, Counter::FanOut, 6, 0, 0);
        assert_eq!(sent(today, today), [6]);
        // The fan-out's notes after midnight are counted once, and so are arrivals then.
        note(today, Counter::Workspace, 0, 7, 8);
        note(tomorrow, Counter::FanOut, 3, 0, 0);
        note(tomorrow, Counter::Workspace, 0, 2, 0);
        assert_eq!(sent(today, tomorrow), [8, 1]);
        // Only both days together show whether it was sent the day before.
        assert_eq!(sent(tomorrow, tomorrow), [3]);
    }
}
