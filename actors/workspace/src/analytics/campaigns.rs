//! What became of broadcasts, by day.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use hashbrown::HashMap;

use crate::Workspace;
use crate::core::command::Context;
use crate::core::view::unreadable;
use postrider_broadcast::daily_counts::{self, Counter, DayCounts};
use postrider_broadcast::record::Record;
use postrider_domain::day::Day;
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{BroadcastId, WorkspaceId};
use postrider_store::{Direction, StoreError, Table, View};

use crate::analytics::DayRange;

/// What happened to messages of broadcasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CampaignCounts {
    /// The channel was handed them, and did not refuse them; those whose answer got lost are among
    /// them, and all that have arrived.
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
    const fn add(&mut self, counts: &Self) {
        self.sent += counts.sent;
        self.delivered += counts.delivered;
        self.read += counts.read;
        self.failed += counts.failed;
        self.replied += counts.replied;
    }

    /// Those that were sent, as far as is known from what became of them too.
    fn surely_sent(&self) -> u64 {
        self.sent.max(self.delivered).max(self.replied)
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
            let mut rows = BTreeMap::new();
            let mut all = CampaignCounts::default();
            for ((day, id), (name, counts)) in counted(store, workspace, range)? {
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
type Counted = BTreeMap<(Day, BroadcastId), (Box<str>, CampaignCounts)>;

/// What was counted on these days. The workspace may note that a message has arrived before the
/// fan-out notes that it was sent. It counts as sent all the same, so that what arrived is never
/// more than what was sent.
fn counted(
    store: &dyn View,
    workspace: &WorkspaceId,
    range: DayRange,
) -> Result<Counted, StoreError> {
    let mut found = Counted::new();
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
        // Of an older one, what arrives may have been sent before these days.
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
            let found = counted(&store, &workspace, DayRange { from, to }).unwrap();
            found.values().map(|(_, counts)| counts.sent).collect::<Vec<_>>()
        };
        let tomorrow = Day::from_number(20_001);
        note(today, Counter::FanOut, 4, 0, 0);
        note(today, Counter::Workspace, 0, 6, 0);
        assert_eq!(sent(today, today), [6]);
        note(today, Counter::FanOut, 6, 0, 0);
        assert_eq!(sent(today, today), [6]);
        // What the fan-out notes after midnight is counted once, and so is what arrives then.
        note(today, Counter::Workspace, 0, 7, 8);
        note(tomorrow, Counter::FanOut, 3, 0, 0);
        note(tomorrow, Counter::Workspace, 0, 2, 0);
        assert_eq!(sent(today, tomorrow), [8, 1]);
        // Whether it was sent the day before, only both days say.
        assert_eq!(sent(tomorrow, tomorrow), [3]);
    }
}
