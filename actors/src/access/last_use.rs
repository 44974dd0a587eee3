//! The last use of each API key, to the minute, in memory and in the store.
//!
//! A row is written with a checkpoint of the buckets, and only if the minute has changed. So a key
//! costs at most one write a minute, however many requests use it.

use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::HashMap;

use postrider_domain::{KeyId, Timestamp};
use postrider_store::{Change, Direction, StoreError, Table, View};

/// The first byte of a row's name. The rows are beside the buckets.
const OF_LAST_USE: u8 = b'u';
/// The first byte of a row. Eight bytes with the time in milliseconds follow.
const VERSION: u8 = 1;
const MINUTE_MS: u64 = 60_000;

/// The last use of one key, in minutes since the epoch; 0 is never.
#[derive(Debug, Default)]
pub(super) struct LastUse {
    used: AtomicU64,
    saved: AtomicU64,
}

impl LastUse {
    /// Creates the last use from its saved time.
    pub(super) fn saved_at(at: Option<Timestamp>) -> Self {
        let minute = at.map_or(0, |at| at.as_millis() / MINUTE_MS);
        Self { used: AtomicU64::new(minute), saved: AtomicU64::new(minute) }
    }

    /// Notes a use.
    pub(super) fn note(&self, now: Timestamp) {
        let minute = now.as_millis() / MINUTE_MS;
        // Most requests find the same minute: reading first spares a write to a shared line.
        if self.used.load(Ordering::Relaxed) < minute {
            self.used.fetch_max(minute, Ordering::Relaxed);
        }
    }

    /// Returns the time of the last use, or `None` if there was none.
    pub(super) fn at(&self) -> Option<Timestamp> {
        moment(self.used.load(Ordering::Relaxed))
    }

    /// Returns the time of the last use, if it is not saved.
    pub(super) fn unsaved(&self) -> Option<Timestamp> {
        let used = self.used.load(Ordering::Relaxed);
        if used == self.saved.load(Ordering::Relaxed) { None } else { moment(used) }
    }

    /// Notes that a use is durable.
    pub(super) fn note_saved(&self, at: Timestamp) {
        self.saved.store(at.as_millis() / MINUTE_MS, Ordering::Relaxed);
    }
}

fn moment(minute: u64) -> Option<Timestamp> {
    (minute > 0).then(|| Timestamp::from_millis(minute * MINUTE_MS))
}

fn name(key: KeyId) -> Vec<u8> {
    [&[OF_LAST_USE], key.as_bytes().as_slice()].concat()
}

/// Returns the change that saves a use.
pub(super) fn put(key: KeyId, at: Timestamp) -> Change {
    let value = [&[VERSION], at.as_millis().to_be_bytes().as_slice()].concat();
    Change::put(Table::Buckets, name(key), value)
}

/// Returns the change that deletes a key's last use.
pub(super) fn delete(key: KeyId) -> Change {
    Change::delete(Table::Buckets, name(key))
}

/// Returns the last use of every key that has one. A row of another version is ignored: the next
/// use writes it again.
pub(super) fn load_all(store: &dyn View) -> Result<HashMap<KeyId, Timestamp>, StoreError> {
    let mut uses = HashMap::new();
    store.scan(Table::Buckets, &[OF_LAST_USE], None, Direction::Forward, &mut |name, value| {
        if let Some(Ok(id)) = name.get(1..).map(<[u8; 16]>::try_from)
            && let Some((&VERSION, millis)) = value.split_first()
            && let Ok(millis) = millis.try_into()
        {
            let at = Timestamp::from_millis(u64::from_be_bytes(millis));
            uses.insert(KeyId::from_bytes(id), at);
        }
        std::ops::ControlFlow::Continue(())
    })?;
    Ok(uses)
}
