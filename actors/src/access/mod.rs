//! API keys and request limits: answered from memory, without asking an actor.
//!
//! A key is 32 random bytes; the store and the memory hold its SHA-256 only. Since the hash of a
//! guess tells nothing about the key next to it, a look-up by hash leaks nothing by its time.

mod address_buckets;
#[cfg(test)]
mod golden;
mod key_buckets;
mod keys;
mod saved_buckets;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use dashmap::DashMap;
use parking_lot::Mutex;

use crate::engine::{Services, StartError};
use postrider_domain::{KeyId, Limits, LimitsOverride, Scopes, WorkspaceId};
use postrider_runtime::clock::Clock;
use postrider_store::StoreError;
use postrider_store::writer::CommitError;
use postrider_workspace::Workspace;

use address_buckets::Addresses;
use key_buckets::{KeyBuckets, WINDOWS};
pub use keys::{CreatedKey, KeyInfo, NewKey};
use keys::{KeyHash, KeyRecord};
pub(crate) use postrider_runtime::shared_bucket::BucketState;
use postrider_runtime::shared_bucket::nanos;
use saved_buckets::SavedBuckets;

const MINUTE: Duration = Duration::from_secs(60);

/// The keys and buckets of an engine. Cheap to clone.
#[derive(Clone)]
pub struct Access {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Services>,
    by_hash: DashMap<KeyHash, Arc<Caller>>,
    addresses: Addresses,
    saved: SavedBuckets,
    /// The callers whose buckets may differ from what is saved, or have yet to fill.
    used: Mutex<Vec<Arc<Caller>>>,
    /// A checkpoint is under way.
    saving: AtomicBool,
}

/// Who a good key stands for.
pub struct Caller {
    /// The key's id.
    pub key_id: KeyId,
    /// The workspace that it belongs to.
    pub workspace: Workspace,
    /// What it may do.
    pub scopes: Scopes,
    record: KeyRecord,
    buckets: ArcSwap<KeyBuckets>,
    /// Whether it is among those whose buckets are looked at with the next checkpoint.
    is_used: AtomicBool,
}

impl std::fmt::Debug for Caller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Caller").field("key_id", &self.key_id).finish_non_exhaustive()
    }
}

/// What the token buckets said of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admission {
    /// `None`: it may go on. Otherwise the time until one like it may.
    pub refused: Option<Duration>,
    /// The bucket with the least share left; `None` when no limit is on.
    pub bucket: Option<BucketState>,
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Access")
    }
}

impl Access {
    /// Reads keys and buckets from the store.
    pub(crate) async fn load(shared: Arc<Services>) -> Result<Self, StartError> {
        let store = Arc::clone(&shared.store);
        let read = tokio::task::spawn_blocking(move || {
            let keys = keys::load_all(store.as_ref())?;
            Ok::<_, StoreError>((keys, SavedBuckets::load(store.as_ref())?))
        });
        let read = read.await.map_err(|error| StartError::Directory(error.to_string()))?;
        let (records, saved) = read?;
        let addresses = Addresses::new(shared.limits.unauthenticated_per_minute);
        addresses.restore(&saved, &shared.clock);
        saved.each(|name, full_at_ns| shared.creations.restore(name, full_at_ns, &shared.clock));
        let inner = Inner {
            shared,
            by_hash: DashMap::new(),
            addresses,
            saved,
            used: Mutex::default(),
            saving: AtomicBool::new(false),
        };
        let access = Self { inner: Arc::new(inner) };
        for record in records {
            access.add(record).await?;
        }
        Ok(access)
    }

    fn clock(&self) -> &Clock {
        &self.inner.shared.clock
    }

    /// The caller that a bearer token stands for; `None` when no key is that token, or it was
    /// revoked.
    #[must_use]
    pub fn authenticate(&self, token: &str) -> Option<Arc<Caller>> {
        let hash = KeyHash::of(token);
        let caller = self.inner.by_hash.get(&hash)?;
        caller.record.hash.matches(&hash).then(|| Arc::clone(&caller))
    }

    /// Takes one request from the key's buckets, or from none of them if one is empty.
    #[must_use]
    pub fn admit(&self, caller: &Arc<Caller>) -> Admission {
        let admission = caller.buckets.load().admit(self.clock());
        // Afterwards, so that a checkpoint that clears the mark sees what was taken.
        self.note_use(caller);
        admission
    }

    /// Has the buckets of a caller looked at with the next checkpoint.
    fn note_use(&self, caller: &Arc<Caller>) {
        if !caller.is_used.swap(true, Ordering::AcqRel) {
            self.inner.used.lock().push(Arc::clone(caller));
        }
    }

    /// Takes one request from the bucket of a client's address. IPv6 addresses share a bucket with
    /// their /64 network, which is what one client is given.
    #[must_use]
    pub fn admit_address(&self, address: IpAddr) -> Admission {
        self.inner.addresses.admit(address, self.clock())
    }

    /// The buckets of a workspace's keys take their size from the limits in force.
    pub(crate) fn limits_changed(&self, workspace: &WorkspaceId, limits: Limits) {
        let of_workspace = |entry: &dashmap::mapref::multiple::RefMulti<'_, _, Arc<Caller>>| {
            entry.value().record.workspace == *workspace
        };
        for caller in self.inner.by_hash.iter().filter(of_workspace) {
            let limits = limits.with(caller.record.limits);
            let old = caller.buckets.load();
            let full_at_ns = |window_s| old.full_at_ns(window_s);
            caller.buckets.store(Arc::new(KeyBuckets::new(limits, full_at_ns, self.clock())));
            self.note_use(&caller);
        }
    }

    /// Makes a key. It works when this returns.
    pub(crate) async fn create_key(
        &self,
        workspace: &WorkspaceId,
        new: NewKey,
    ) -> Result<CreatedKey, CommitError> {
        let (record, secret) = KeyRecord::create(workspace, new, self.clock().now());
        self.inner.shared.writer.commit(vec![record.put()]).await?;
        let info = record.info();
        // The workspace was there a moment ago, and none is ever removed.
        self.add(record).await.map_err(|_| CommitError::Closed)?;
        Ok(CreatedKey { info, key: secret })
    }

    /// The keys of a workspace, oldest first.
    pub(crate) fn keys_of(&self, workspace: &WorkspaceId) -> Vec<KeyInfo> {
        let mut keys: Vec<_> = self
            .inner
            .by_hash
            .iter()
            .filter(|caller| caller.record.workspace == *workspace)
            .map(|caller| caller.record.info())
            .collect();
        keys.sort_by_key(|key| key.id);
        keys
    }

    /// Revokes a key: it does not work any more when this returns. `false` when the workspace has
    /// no such key.
    pub(crate) async fn revoke_key(
        &self,
        workspace: &WorkspaceId,
        key: KeyId,
    ) -> Result<bool, CommitError> {
        let record = self.inner.by_hash.iter().find_map(|caller| {
            let record = &caller.record;
            (record.id == key && record.workspace == *workspace).then(|| record.clone())
        });
        let Some(record) = record else { return Ok(false) };
        self.inner.shared.writer.commit(vec![record.delete()]).await?;
        self.inner.by_hash.remove(&record.hash);
        Ok(true)
    }

    /// Adds a durable key with its buckets as they were saved.
    async fn add(&self, record: KeyRecord) -> Result<(), StartError> {
        let shared = &self.inner.shared;
        let Some(slot) = shared.workspaces.slot(&record.workspace) else {
            tracing::error!(key = %record.id, "a key belongs to no workspace and does not work");
            return Ok(());
        };
        let limits = self.limits_of(&record.workspace).await?;
        let saved = |window_s| self.inner.saved.key(record.id, window_s);
        let is_saved = WINDOWS.iter().any(|window| saved(window.as_secs() as u32).is_some());
        let buckets = KeyBuckets::new(limits.with(record.limits), saved, self.clock());
        let caller = Caller {
            key_id: record.id,
            workspace: Workspace::new(Arc::clone(shared), slot),
            scopes: record.scopes,
            buckets: ArcSwap::from_pointee(buckets),
            is_used: AtomicBool::new(false),
            record,
        };
        let caller = Arc::new(caller);
        if is_saved {
            // What is saved goes when they are full.
            self.note_use(&caller);
        }
        self.inner.by_hash.insert(caller.record.hash, caller);
        Ok(())
    }

    /// The limits in force in a workspace, from its record: it may have no actor.
    async fn limits_of(&self, workspace: &WorkspaceId) -> Result<Limits, StartError> {
        let shared = &self.inner.shared;
        let (store, id) = (Arc::clone(&shared.store), workspace.clone());
        let read = tokio::task::spawn_blocking(move || {
            postrider_workspace::core::records::load(store.as_ref(), &id)
        });
        let read = read.await.map_err(|error| StartError::Directory(error.to_string()))?;
        let own = match read {
            Ok(records) => records.map(|records| records.profile.limits).unwrap_or_default(),
            Err(StoreError::Damaged(why)) => {
                // Its actor parks it for that; the other workspaces must start.
                tracing::error!(%workspace, why, "a workspace's own limits cannot be read");
                LimitsOverride::default()
            }
            Err(error) => return Err(error.into()),
        };
        Ok(shared.limits.with(own))
    }

    /// Writes the buckets that were used since the last time. A restart then refills none.
    pub(crate) async fn checkpoint(&self) {
        let changes = self.inner.saved.changes(self.used_buckets(), self.clock().now());
        if changes.is_empty() {
            return;
        }
        if let Err(error) = self.inner.shared.writer.commit(changes).await {
            // They are written again next time: what was saved is only noted when it is durable.
            tracing::warn!(%error, "request limits were not saved");
            self.inner.saved.forget_noted();
        }
    }

    /// The same without waiting for it, unless the last one is still under way.
    pub(crate) fn checkpoint_in_background(&self) {
        if self.inner.saving.swap(true, Ordering::AcqRel) {
            return;
        }
        let access = self.clone();
        drop(tokio::spawn(async move {
            access.checkpoint().await;
            access.inner.saving.store(false, Ordering::Release);
        }));
    }

    /// The name in the store, and the moment at which it is full, in nanoseconds, of each bucket
    /// that was used since the last time, or was not full then. What rests costs nothing.
    fn used_buckets(&self) -> Vec<(Vec<u8>, u64)> {
        let now = self.clock().now();
        let mut used = Vec::new();
        let callers = std::mem::take(&mut *self.inner.used.lock());
        for caller in callers {
            // First, so that whoever takes from them after this is noted again.
            caller.is_used.store(false, Ordering::Release);
            let mut fills = false;
            for bucket in caller.buckets.load().iter() {
                let name = saved_buckets::key_name(caller.key_id, bucket.window_s());
                let full_at_ns = bucket.full_at_ns();
                fills |= full_at_ns > nanos(now);
                used.push((name, full_at_ns));
            }
            if fills {
                self.note_use(&caller);
            }
        }
        self.inner.addresses.collect(&mut used, now);
        self.inner.shared.creations.collect(&mut used, now);
        used
    }
}
