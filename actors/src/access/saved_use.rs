//! Saves the use of keys and addresses: the levels of their buckets, and the last use of each key.
//!
//! So a restart does not refill the buckets. A row of a last use is written together with them, and
//! only if its minute has changed: a key costs at most one write a minute, however many requests
//! use it.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::HashMap;
use postrider_domain::{KeyId, Timestamp};
use postrider_runtime::shared_bucket::nanos;
use postrider_store::{Change, Direction, StoreError, Table, View};

use super::buckets::{WINDOWS, key_bucket_name, put_bucket};
use super::{Access, Caller};

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

/// Returns the change that saves a use.
pub(super) fn put_last_use(key: KeyId, at: Timestamp) -> Change {
    let value = [&[VERSION], at.as_millis().to_be_bytes().as_slice()].concat();
    Change::put(Table::Buckets, last_use_name(key), value)
}

/// Returns the change that deletes a key's last use.
pub(super) fn delete_last_use(key: KeyId) -> Change {
    Change::delete(Table::Buckets, last_use_name(key))
}

fn last_use_name(key: KeyId) -> Vec<u8> {
    [&[OF_LAST_USE], key.as_bytes().as_slice()].concat()
}

/// Returns the last use of every key that has one. A row of another version is ignored: the next
/// use writes it again.
pub(super) fn load_last_uses(store: &dyn View) -> Result<HashMap<KeyId, Timestamp>, StoreError> {
    let mut uses = HashMap::new();
    store.scan(Table::Buckets, &[OF_LAST_USE], None, Direction::Forward, &mut |name, value| {
        if let Some(Ok(id)) = name.get(1..).map(<[u8; 16]>::try_from)
            && let Some((&VERSION, millis)) = value.split_first()
            && let Ok(millis) = millis.try_into()
        {
            let at = Timestamp::from_millis(u64::from_be_bytes(millis));
            uses.insert(KeyId::from_bytes(id), at);
        }
        ControlFlow::Continue(())
    })?;
    Ok(uses)
}

/// The buckets and keys that were used since the last save.
pub(super) struct UnsavedUse {
    /// The name in the store of each bucket, and the time at which it is full, in nanoseconds.
    pub(super) buckets: Vec<(Vec<u8>, u64)>,
    /// The last use of each key whose last use is not saved.
    uses: Vec<(Arc<Caller>, Timestamp)>,
}

impl Access {
    /// Writes the buckets that were used since the last save, so that a restart does not
    /// refill them. Also writes the times at which keys were last used.
    pub(crate) async fn save_use(&self) {
        let UnsavedUse { buckets, uses } = self.unsaved_use();
        let mut changes = self.inner.saved.changes(buckets, self.clock().now());
        changes.extend(uses.iter().map(|(caller, at)| put_last_use(caller.key_id, *at)));
        let strays = std::mem::take(&mut *self.inner.stray_uses.lock());
        changes.extend(strays.iter().map(|key| delete_last_use(*key)));
        if changes.is_empty() {
            return;
        }
        match self.inner.shared.writer.commit(changes).await {
            Ok(()) => uses.iter().for_each(|(caller, at)| caller.last_use.note_saved(*at)),
            Err(error) => {
                // They are written again next time: only durable values are recorded as saved.
                tracing::warn!(%error, "request limits were not saved");
                self.inner.saved.forget_noted();
                uses.iter().for_each(|(caller, _)| self.note_use(caller));
                self.inner.stray_uses.lock().extend(strays);
            }
        }
    }

    /// Does the same in the background, unless the last save is still in progress.
    pub(crate) fn save_use_in_background(&self) {
        if self.inner.saving.swap(true, Ordering::AcqRel) {
            return;
        }
        let access = self.clone();
        drop(tokio::spawn(async move {
            access.save_use().await;
            access.inner.saving.store(false, Ordering::Release);
        }));
    }

    /// Returns the values used since the last save, and each bucket that was not full then.
    /// Unused buckets cost nothing.
    pub(super) fn unsaved_use(&self) -> UnsavedUse {
        let now = self.clock().now();
        let (mut buckets, mut uses) = (Vec::new(), Vec::new());
        buckets.extend(self.inner.orphans.lock().drain(..).map(|name| (name, 0)));
        let callers = std::mem::take(&mut *self.inner.used.lock());
        for caller in callers {
            // First, so that a caller that takes from them after this is noted again.
            caller.is_used.store(false, Ordering::Release);
            let is_revoked = caller.is_revoked.load(Ordering::Acquire);
            if is_revoked {
                let names = WINDOWS.map(|window| window.as_secs() as u32);
                let names = names.map(|window| key_bucket_name(caller.key_id, window));
                // A full bucket is deleted.
                buckets.extend(names.map(|name| (name, 0)));
                // A save in progress may have saved it after the revocation.
                self.inner.stray_uses.lock().push(caller.key_id);
                continue;
            }
            let mut fills = false;
            for bucket in caller.buckets.load().iter() {
                let name = key_bucket_name(caller.key_id, bucket.window_s());
                let full_at_ns = bucket.full_at_ns();
                fills |= full_at_ns > nanos(now);
                buckets.push((name, full_at_ns));
            }
            if fills {
                self.note_use(&caller);
            }
            if let Some(at) = caller.last_use.unsaved() {
                uses.push((caller, at));
            }
        }
        self.inner.addresses.collect(&mut buckets, now);
        self.inner.shared.creations.collect(&mut buckets, now);
        UnsavedUse { buckets, uses }
    }
}

/// Returns the changes after which no bucket is full later than `to`, and no key was used later. A
/// bucket that would stay empty for as long as the clock was ahead is full.
pub(crate) fn rebased(store: &dyn View, to: Timestamp) -> Result<Vec<Change>, StoreError> {
    let mut changes = Vec::new();
    store.scan(Table::Buckets, &[], None, Direction::Forward, &mut |name, value| {
        if let Ok(full_at_ns) = value.try_into()
            && u64::from_be_bytes(full_at_ns) > nanos(to)
        {
            changes.push(put_bucket(name, nanos(to)));
        }
        ControlFlow::Continue(())
    })?;
    let uses = load_last_uses(store)?;
    let later = uses.into_iter().filter(|(_, at)| *at > to);
    changes.extend(later.map(|(key, _)| put_last_use(key, to)));
    Ok(changes)
}

#[cfg(test)]
mod tests {
    use postrider_domain::KeyId;
    use postrider_store::{Group, MemoryStore, Store as _};

    use super::*;

    #[test]
    fn buckets_are_full_and_uses_are_not_later() {
        let at = Timestamp::from_millis;
        let key = |number| KeyId::from_parts(at(1), number);
        let store = MemoryStore::new();
        let (early, late) = (key_bucket_name(key(1), 60), key_bucket_name(key(2), 60));
        let saved = [
            put_bucket(&early, nanos(at(1_000))),
            put_bucket(&late, nanos(at(9_000))),
            put_last_use(key(1), at(1_000)),
            put_last_use(key(2), at(9_000)),
        ];
        store.commit(Group::new(None, &saved)).unwrap();
        let to = at(2_000);
        let expected = [put_bucket(&late, nanos(to)), put_last_use(key(2), to)];
        assert_eq!(rebased(&store, to).unwrap(), expected);
        store.commit(Group::new(None, &expected)).unwrap();
        assert_eq!(rebased(&store, to).unwrap(), []);
    }
}
