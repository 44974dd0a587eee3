//! What is counted of a broadcast by day.
//!
//! [`Table::Analytics`] holds it under `workspace ‖ 0 ‖ c ‖ day ‖ broadcast ‖ who`: the fan-out
//! counts what the channel answers, the workspace what comes later, each in the commit that makes
//! it true, so neither waits for the other; a reader adds the two.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use postrider_domain::day::Day;
use postrider_domain::{BroadcastId, WorkspaceId};
use postrider_store::{Change, StoreError, Table, View};

use super::plan::UncountedOutcomes;

/// Messages of one broadcast that something happened to on one day.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DayCounts {
    /// The broadcast's name: it outlives its record.
    pub name: Box<str>,
    /// The channel was handed them, and did not refuse them.
    pub sent: u32,
    /// They came onto their recipient's device.
    pub delivered: u32,
    /// Their recipient opened them.
    pub read: u32,
    /// They were refused, came too late, or were not delivered.
    pub failed: u32,
    /// Their recipient wrote.
    pub replied: u32,
}

/// Who counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counter {
    FanOut = 0,
    Workspace = 1,
}

impl DayCounts {
    pub fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        let damaged = |_| StoreError::Damaged("a broadcast's counts cannot be read".to_owned());
        postcard::from_bytes(bytes).map_err(damaged)
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        postrider_domain::event::encode(self, &mut bytes);
        bytes
    }
}

/// What the keys of a workspace's counts begin with.
pub fn prefix(workspace: &WorkspaceId) -> Vec<u8> {
    [workspace.as_str().as_bytes(), b"\0c"].concat()
}

/// The key of a broadcast's counts of one day.
pub fn key(workspace: &WorkspaceId, day: Day, id: BroadcastId, who: Counter) -> Vec<u8> {
    let day = day.number().to_be_bytes();
    [&*prefix(workspace), &day, id.as_bytes(), &[who as u8]].concat()
}

/// The day and the broadcast of a key, behind its prefix.
pub fn read_key(rest: &[u8]) -> Option<(Day, BroadcastId)> {
    let (day, rest) = rest.split_first_chunk()?;
    let id = rest.first_chunk()?;
    Some((Day::from_number(u32::from_be_bytes(*day)), BroadcastId::from_bytes(*id)))
}

/// What a fan-out counts.
#[derive(Debug, Default)]
pub struct Counted {
    /// Whole, as they are to be written.
    days: BTreeMap<Day, DayCounts>,
    dirty: bool,
}

impl Counted {
    /// Counts messages whose outcome became known on this day. What was counted before a restart is
    /// read from the store.
    pub fn count(
        &mut self,
        day: Day,
        news: UncountedOutcomes,
        stored: impl FnOnce() -> Result<DayCounts, StoreError>,
    ) -> Result<(), StoreError> {
        if news == UncountedOutcomes::default() {
            return Ok(());
        }
        let counts = match self.days.entry(day) {
            std::collections::btree_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::btree_map::Entry::Vacant(new) => new.insert(stored()?),
        };
        counts.sent += news.sent;
        counts.failed += news.failed;
        self.dirty = true;
        Ok(())
    }

    /// What is not written as it is. A day keeps its own, so that a commit that failed and was made
    /// all the same is written over.
    pub fn changes(&self, workspace: &WorkspaceId, id: BroadcastId) -> Vec<Change> {
        let days = self.days.iter().filter(|_| self.dirty);
        let change = |(day, counts): (&Day, &DayCounts)| {
            Change::put(
                Table::Analytics,
                key(workspace, *day, id, Counter::FanOut),
                counts.encode(),
            )
        };
        days.map(change).collect()
    }

    /// All of it is durable. Earlier days are over.
    pub fn written(&mut self) {
        self.dirty = false;
        while self.days.len() > 1 {
            self.days.pop_first();
        }
    }
}

/// What a fan-out has counted of a day before.
pub fn stored(
    store: &dyn View,
    workspace: &WorkspaceId,
    id: BroadcastId,
    (day, name): (Day, &str),
) -> Result<DayCounts, StoreError> {
    match store.get(Table::Analytics, &key(workspace, day, id, Counter::FanOut))? {
        Some(counts) => DayCounts::decode(&counts),
        None => Ok(DayCounts { name: name.into(), ..DayCounts::default() }),
    }
}
