//! Pure: a broadcast's messages, counted by the day of each change of their state.
//!
//! [`Table::Analytics`] holds the counts under `workspace ‖ 0 ‖ c ‖ day ‖ broadcast ‖ who`. The
//! fan-out counts the channel's answers and the workspace counts later reports, each in the commit
//! that makes them durable. So neither waits for the other, and a reader adds the two.

use std::collections::BTreeMap;

use postrider_domain::day::Day;
use postrider_domain::{BroadcastId, WorkspaceId};
use postrider_store::{Change, StoreError, Table, View};
use serde::{Deserialize, Serialize};

use crate::plan::UncountedOutcomes;

/// The number of one broadcast's messages that changed their state on one day.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DayCounts {
    /// The broadcast's name, because the counts outlive its record.
    pub name: Box<str>,
    /// Messages that were sent to the channel, which did not refuse them.
    pub sent: u32,
    /// Messages that reached the recipient's device.
    pub delivered: u32,
    /// Messages that the recipient opened.
    pub read: u32,
    /// Messages that were refused, not sent in time, or not delivered.
    pub failed: u32,
    /// Messages to which the recipient replied.
    pub replied: u32,
}

/// The actor that counts; a byte of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counter {
    /// The fan-out, which counts the channel's answers.
    FanOut = 0,
    /// The workspace, which counts later reports and replies.
    Workspace = 1,
}

impl DayCounts {
    /// Decodes the output of [`encode`](Self::encode).
    ///
    /// # Errors
    /// [`StoreError::Damaged`] if the bytes are something else.
    pub fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        let damaged = |_| StoreError::Damaged("a broadcast's counts cannot be read".to_owned());
        postcard::from_bytes(bytes).map_err(damaged)
    }

    /// Returns the counts in postcard's format.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        postrider_domain::event::encode(self, &mut bytes);
        bytes
    }
}

/// Returns the prefix of the keys of a workspace's counts.
pub fn prefix(workspace: &WorkspaceId) -> Vec<u8> {
    [workspace.as_str().as_bytes(), b"\0c"].concat()
}

/// Returns the key of a broadcast's counts of one day.
pub fn key(workspace: &WorkspaceId, day: Day, id: BroadcastId, who: Counter) -> Vec<u8> {
    let day = day.number().to_be_bytes();
    [&*prefix(workspace), &day, id.as_bytes(), &[who as u8]].concat()
}

/// Returns the day and the broadcast of a key whose prefix was removed.
pub fn read_key(rest: &[u8]) -> Option<(Day, BroadcastId)> {
    let (day, rest) = rest.split_first_chunk()?;
    let id = rest.first_chunk()?;
    Some((Day::from_number(u32::from_be_bytes(*day)), BroadcastId::from_bytes(*id)))
}

/// The counts of one fan-out, by day.
#[derive(Debug, Default)]
pub struct FanoutCounts {
    /// The complete counts of each day, as they must be written.
    days: BTreeMap<Day, DayCounts>,
    dirty: bool,
}

impl FanoutCounts {
    /// Adds messages whose outcome became known on this day. `stored` reads the counts from before
    /// a restart.
    ///
    /// # Errors
    /// The errors of `stored`. Then nothing is counted.
    pub fn count(
        &mut self,
        day: Day,
        outcomes: UncountedOutcomes,
        stored: impl FnOnce() -> Result<DayCounts, StoreError>,
    ) -> Result<(), StoreError> {
        if outcomes == UncountedOutcomes::default() {
            return Ok(());
        }
        let counts = match self.days.entry(day) {
            std::collections::btree_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::btree_map::Entry::Vacant(new) => new.insert(stored()?),
        };
        counts.sent += outcomes.sent;
        counts.failed += outcomes.failed;
        self.dirty = true;
        Ok(())
    }

    /// Returns the changes that write the counts that are not durable yet. They hold totals, not
    /// increments. So repeating a commit that failed but was made durable counts nothing twice.
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

    /// Records that all counts are durable, and drops all days except the last.
    pub fn written(&mut self) {
        self.dirty = false;
        while self.days.len() > 1 {
            self.days.pop_first();
        }
    }
}

/// Returns a fan-out's counts of a day from before a restart.
///
/// # Errors
/// [`StoreError::Damaged`] if the record cannot be decoded, and the errors of [`View::get`].
pub fn read_stored(
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
