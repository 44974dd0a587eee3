//! Token buckets in the store: a restart must not refill them.

use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;

use postrider_domain::{KeyId, Timestamp};
use postrider_runtime::shared_bucket::nanos;
use postrider_store::{Change, Direction, StoreError, Table, View};

/// The table of the buckets.
const BUCKETS: Table = Table::Buckets;

/// The first byte of a key's bucket.
const OF_KEY: u8 = b'k';
/// The first byte of an address's bucket.
pub(super) const OF_ADDRESS: u8 = b'a';

/// Returns the change that saves a bucket.
pub(super) fn put(name: &[u8], full_at_ns: u64) -> Change {
    Change::put(BUCKETS, name, full_at_ns.to_be_bytes())
}

/// Returns the name of a key's bucket in the store.
pub(super) fn key_name(key: KeyId, window_s: u32) -> Vec<u8> {
    [&[OF_KEY], key.as_bytes().as_slice(), &window_s.to_be_bytes()].concat()
}

/// The buckets in the store: the name, and the time at which each is full.
pub(super) struct SavedBuckets(Mutex<HashMap<Vec<u8>, u64>>);

impl SavedBuckets {
    pub(super) fn load(store: &dyn View) -> Result<Self, StoreError> {
        let mut saved = HashMap::new();
        store.scan(BUCKETS, &[], None, Direction::Forward, &mut |name, value| {
            if let Ok(full_at_ns) = value.try_into() {
                saved.insert(name.to_vec(), u64::from_be_bytes(full_at_ns));
            }
            std::ops::ControlFlow::Continue(())
        })?;
        Ok(Self(Mutex::new(saved)))
    }

    /// Visits every name, and the time at which its bucket is full.
    pub(super) fn each(&self, mut visit: impl FnMut(&[u8], u64)) {
        self.0.lock().iter().for_each(|(name, full_at_ns)| visit(name, *full_at_ns));
    }

    /// Returns the names of the buckets of keys that are not among these.
    pub(super) fn keys_other_than(&self, known: &HashSet<KeyId>) -> Vec<Vec<u8>> {
        let is_other = |name: &&Vec<u8>| {
            let Some((&OF_KEY, rest)) = name.split_first() else { return false };
            rest.first_chunk().is_none_or(|id| !known.contains(&KeyId::from_bytes(*id)))
        };
        self.0.lock().keys().filter(is_other).cloned().collect()
    }

    /// Returns the saved time at which a key's bucket is full.
    pub(super) fn key(&self, key: KeyId, window_s: u32) -> Option<u64> {
        self.0.lock().get(&key_name(key, window_s)).copied()
    }

    /// Returns the changes after which the store holds `buckets`. They write changed ones and
    /// delete full ones.
    pub(super) fn changes(&self, buckets: Vec<(Vec<u8>, u64)>, now: Timestamp) -> Vec<Change> {
        let now_ns = nanos(now);
        let mut saved = self.0.lock();
        let mut changes = Vec::new();
        for (name, full_at_ns) in buckets {
            let before = saved.get(&name).copied();
            if full_at_ns <= now_ns {
                if before.is_some() {
                    saved.remove(&name);
                    changes.push(Change::delete(BUCKETS, name));
                }
            } else if before != Some(full_at_ns) {
                changes.push(put(&name, full_at_ns));
                saved.insert(name, full_at_ns);
            }
        }
        changes
    }

    /// Discards the record of saved buckets, so that the next time writes all.
    pub(super) fn forget_noted(&self) {
        self.0.lock().values_mut().for_each(|full_at_ns| *full_at_ns = 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_changed_is_written_and_full_ones_are_deleted() {
        let saved = SavedBuckets(Mutex::default());
        let at = |seconds: u64| Timestamp::from_millis(seconds * 1000);
        let bucket = |full_at: u64| vec![(b"k1".to_vec(), nanos(at(full_at)))];
        assert_eq!(saved.changes(bucket(10), at(5)).len(), 1);
        assert_eq!(saved.changes(bucket(10), at(6)), []);
        saved.forget_noted();
        assert_eq!(saved.changes(bucket(10), at(7)).len(), 1);
        let deleted = saved.changes(bucket(10), at(10));
        assert_eq!(deleted, [Change::delete(BUCKETS, b"k1".to_vec())]);
        assert_eq!(saved.changes(bucket(10), at(11)), []);
    }
}
