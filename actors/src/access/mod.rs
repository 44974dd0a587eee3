//! API keys and request limits: checked in memory, without a message to an actor.
//!
//! A key is 32 random bytes; the store and the memory hold its SHA-256 only. Since the hash of a
//! guess reveals nothing about the key next to it, a look-up by hash leaks nothing by its time.

mod admin_tokens;
mod buckets;
#[cfg(test)]
mod golden;
mod keys;
mod saved_use;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use dashmap::DashMap;
use hashbrown::HashSet;
use parking_lot::Mutex;
use postrider_domain::{
    AuditContext, KeyId, Limits, LimitsOverride, Scopes, Timestamp, WorkspaceId,
};
use postrider_runtime::clock::Clock;
use postrider_store::writer::CommitError;
use postrider_store::{Change, StoreError};
use postrider_workspace::Workspace;

use crate::audit::record_of;
use crate::engine::{Services, StartError};
use admin_tokens::AdminTokens;
use buckets::{AddressBuckets, KeyBuckets, SavedBuckets, WINDOWS};
use keys::{KeyHash, KeyRecord};
use saved_use::{LastUse, delete_last_use, load_last_uses};

pub use admin_tokens::{AdminTokenInfo, CreatedAdminToken, NewAdminToken};
pub(crate) use keys::key_parts;
pub use keys::{CreatedKey, KeyChange, KeyInfo, KeyMark, NewKey, home_in_key, home_of, key_mark};
pub(crate) use postrider_runtime::shared_bucket::BucketState;
pub(crate) use saved_use::rebased;

const MINUTE: Duration = Duration::from_secs(60);

/// The keys and buckets of an engine. Cheap to clone.
#[derive(Clone)]
pub struct Access {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Services>,
    by_hash: DashMap<KeyHash, Arc<Caller>>,
    admin_tokens: AdminTokens,
    addresses: AddressBuckets,
    saved: SavedBuckets,
    /// The callers whose buckets may differ from the saved ones, or have yet to fill.
    used: Mutex<Vec<Arc<Caller>>>,
    /// Saved buckets of keys that were revoked before the start, until they are deleted.
    orphans: Mutex<Vec<Vec<u8>>>,
    /// Set while a save of the use is in progress.
    saving: AtomicBool,
    /// Set if new keys carry the home of their workspace.
    keys_carry_home: bool,
    /// The saved last uses of revoked keys, which the next save deletes.
    stray_uses: Mutex<Vec<KeyId>>,
}

/// The workspace and the permissions of a valid key.
pub struct Caller {
    /// The key's id.
    pub key_id: KeyId,
    /// The workspace that it belongs to.
    pub workspace: Workspace,
    /// The key's permissions.
    pub scopes: Scopes,
    record: ArcSwap<KeyRecord>,
    buckets: ArcSwap<KeyBuckets>,
    /// Set if the next save examines its buckets.
    is_used: AtomicBool,
    /// Set once the key was revoked: its buckets are no longer saved.
    is_revoked: AtomicBool,
    last_use: LastUse,
}

impl Caller {
    /// Returns whether the key may be used from this address.
    #[must_use]
    pub fn allows(&self, address: IpAddr) -> bool {
        self.record.load().allows(address)
    }

    /// Returns the time at which the key expires.
    #[must_use]
    pub fn expires_at(&self) -> Option<Timestamp> {
        self.record.load().expires_at
    }

    /// Returns the key's name for people.
    #[must_use]
    pub fn key_name(&self) -> String {
        self.record.load().name.clone()
    }

    /// Appends the name to a text.
    pub fn add_key_name(&self, text: &mut String) {
        text.push_str(&self.record.load().name);
    }
}

impl std::fmt::Debug for Caller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Caller").field("key_id", &self.key_id).finish_non_exhaustive()
    }
}

/// The decision of the token buckets about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admission {
    /// `None` if the request is admitted. Otherwise the time until one like it is.
    pub refused: Option<Duration>,
    /// The bucket with the least share left; `None` if no limit is on.
    pub bucket: Option<BucketState>,
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Access")
    }
}

impl Access {
    /// Reads keys and buckets from the store.
    pub(crate) async fn load(
        shared: Arc<Services>,
        keys_carry_home: bool,
    ) -> Result<Self, StartError> {
        let store = Arc::clone(&shared.store);
        let read = tokio::task::spawn_blocking(move || {
            let keys = keys::load_all(store.as_ref())?;
            let (saved, uses) =
                (SavedBuckets::load(store.as_ref())?, load_last_uses(store.as_ref())?);
            Ok::<_, StoreError>((keys, saved, uses, AdminTokens::load(store.as_ref())?))
        });
        let read = read.await.map_err(|error| StartError::Directory(error.to_string()))?;
        let (records, saved, mut uses, admin_tokens) = read?;
        let addresses = AddressBuckets::new(shared.limits.unauthenticated_per_minute);
        addresses.restore(&saved, &shared.clock);
        saved.each(|name, full_at_ns| shared.creations.restore(name, full_at_ns, &shared.clock));
        let inner = Inner {
            shared,
            by_hash: DashMap::new(),
            admin_tokens,
            addresses,
            saved,
            used: Mutex::default(),
            orphans: Mutex::default(),
            saving: AtomicBool::new(false),
            keys_carry_home,
            stray_uses: Mutex::default(),
        };
        let access = Self { inner: Arc::new(inner) };
        let known: HashSet<KeyId> = records.iter().map(|record| record.id).collect();
        access.inner.orphans.lock().extend(access.inner.saved.keys_other_than(&known));
        for record in records {
            let last_use = LastUse::saved_at(uses.remove(&record.id));
            access.add(record, last_use).await?;
        }
        access.inner.stray_uses.lock().extend(uses.into_keys());
        Ok(access)
    }

    fn clock(&self) -> &Clock {
        &self.inner.shared.clock
    }

    /// Returns the caller of a bearer token. It is `None` if there is no such key, or it was
    /// revoked or has expired.
    #[must_use]
    pub fn authenticate(&self, token: &str) -> Option<Arc<Caller>> {
        let hash = KeyHash::of(token);
        let caller = self.inner.by_hash.get(&hash)?;
        let record = caller.record.load();
        let works = record.hash.matches(&hash) && !record.has_expired(|| self.clock().now());
        works.then(|| Arc::clone(&caller))
    }

    /// Returns whether a valid key is still valid: it was not revoked and has not expired.
    #[must_use]
    pub fn still_works(&self, caller: &Caller) -> bool {
        let is_revoked = caller.is_revoked.load(Ordering::Acquire);
        !is_revoked && !caller.record.load().has_expired(|| self.clock().now())
    }

    /// Takes one request from the key's buckets, or from none of them if one is empty.
    #[must_use]
    pub fn admit(&self, caller: &Arc<Caller>) -> Admission {
        let now = self.clock().now();
        let admission = caller.buckets.load().admit(self.clock(), now);
        caller.last_use.note(now);
        // Afterwards, so that a save that clears the mark sees the taken tokens.
        self.note_use(caller);
        admission
    }

    /// Marks the caller, so that the next save examines its buckets.
    fn note_use(&self, caller: &Arc<Caller>) {
        if !caller.is_used.swap(true, Ordering::AcqRel) {
            self.inner.used.lock().push(Arc::clone(caller));
        }
    }

    /// Takes one request from the bucket of a client's address. IPv6 addresses share a bucket with
    /// their /64 network, which is usually one client's.
    #[must_use]
    pub fn admit_address(&self, address: IpAddr) -> Admission {
        self.inner.addresses.admit(address, self.clock())
    }

    /// Returns how long a client's address has to wait until a request would be admitted. It is
    /// `None` if it would be now. Takes nothing.
    #[must_use]
    pub fn address_wait(&self, address: IpAddr) -> Option<Duration> {
        self.inner.addresses.wait(address, self.clock())
    }

    /// Resizes the buckets of a workspace's keys to the limits in force.
    pub(crate) fn limits_changed(&self, workspace: &WorkspaceId, limits: Limits) {
        let of_workspace = |entry: &dashmap::mapref::multiple::RefMulti<'_, _, Arc<Caller>>| {
            entry.value().workspace.id() == workspace
        };
        for caller in self.inner.by_hash.iter().filter(of_workspace) {
            self.resize_buckets(&caller, limits.with(caller.record.load().limits));
        }
    }

    /// Resizes the buckets of a caller to these limits. They stay as full as they are.
    fn resize_buckets(&self, caller: &Arc<Caller>, limits: Limits) {
        let old = caller.buckets.load();
        let full_at_ns = |window_s| old.full_at_ns(window_s);
        caller.buckets.store(Arc::new(KeyBuckets::new(limits, full_at_ns, self.clock())));
        self.note_use(caller);
    }

    /// Makes a key. It works when this returns.
    pub(crate) async fn create_key(
        &self,
        workspace: &WorkspaceId,
        new: NewKey,
        by: &AuditContext,
    ) -> Result<CreatedKey, CommitError> {
        let (now, carries_home) = (self.clock().now(), self.inner.keys_carry_home);
        let (record, secret) = KeyRecord::create(workspace, new, now, &by.actor, carries_home);
        let changes = vec![record.put(), record_of(now, by, record.created_entry())];
        self.inner.shared.writer.commit(changes).await?;
        let info = record.info(None);
        // A key of a workspace that was deleted meanwhile does not work.
        self.add(record, LastUse::default()).await.map_err(|_| CommitError::Closed)?;
        Ok(CreatedKey { info, key: secret })
    }

    /// Returns the keys of a workspace, oldest first.
    pub(crate) fn keys_of(&self, workspace: &WorkspaceId) -> Vec<KeyInfo> {
        let mut keys: Vec<_> = self
            .inner
            .by_hash
            .iter()
            .filter(|caller| caller.workspace.id() == workspace)
            .map(|caller| caller.record.load().info(caller.last_use.at()))
            .collect();
        keys.sort_by_key(|key| key.id);
        keys
    }

    /// Revokes a key: it no longer works when this returns. Returns `false` if the workspace has no
    /// such key.
    pub(crate) async fn revoke_key(
        &self,
        workspace: &WorkspaceId,
        key: KeyId,
        by: &AuditContext,
    ) -> Result<bool, CommitError> {
        let Some(caller) = self.caller_of(workspace, key) else { return Ok(false) };
        let record = caller.record.load_full();
        let revoked = record_of(self.clock().now(), by, record.revoked_entry());
        let changes = vec![record.delete(), delete_last_use(key), revoked];
        self.inner.shared.writer.commit(changes).await?;
        self.forget(&record);
        Ok(true)
    }

    /// Changes a key; it is in force when this returns. `None` if the workspace has no such key.
    pub(crate) async fn update_key(
        &self,
        workspace: &WorkspaceId,
        key: KeyId,
        change: KeyChange,
        by: &AuditContext,
    ) -> Result<Option<KeyInfo>, CommitError> {
        let Some(caller) = self.caller_of(workspace, key) else { return Ok(None) };
        let limits = self.limits_of(workspace).await.map_err(|_| CommitError::Closed)?;
        let (record, entry) = caller.record.load().changed(change);
        let changes = vec![record.put(), record_of(self.clock().now(), by, entry)];
        self.inner.shared.writer.commit(changes).await?;
        self.resize_buckets(&caller, limits.with(record.limits));
        let info = record.info(caller.last_use.at());
        caller.record.store(Arc::new(record));
        Ok(Some(info))
    }

    fn caller_of(&self, workspace: &WorkspaceId, key: KeyId) -> Option<Arc<Caller>> {
        let is_it = |caller: &Caller| caller.key_id == key && caller.workspace.id() == workspace;
        let found = self.inner.by_hash.iter().find(|entry| is_it(entry.value()))?;
        Some(Arc::clone(found.value()))
    }

    /// Returns the changes that delete the keys of a workspace.
    pub(crate) fn deletions_of(&self, workspace: &WorkspaceId) -> Vec<Change> {
        let records = self.records_of(workspace);
        records.iter().flat_map(|key| [key.delete(), delete_last_use(key.id)]).collect()
    }

    /// Removes the deleted keys of a workspace: they no longer work when this returns.
    pub(crate) fn forget_all_of(&self, workspace: &WorkspaceId) {
        self.records_of(workspace).iter().for_each(|record| self.forget(record));
    }

    fn records_of(&self, workspace: &WorkspaceId) -> Vec<Arc<KeyRecord>> {
        let own = |caller: &Arc<Caller>| caller.workspace.id() == workspace;
        let callers = self.inner.by_hash.iter().filter(|entry| own(entry.value()));
        callers.map(|caller| caller.record.load_full()).collect()
    }

    /// Removes a deleted key. The next save deletes its saved buckets.
    fn forget(&self, record: &KeyRecord) {
        if let Some((_, caller)) = self.inner.by_hash.remove(&record.hash) {
            caller.is_revoked.store(true, Ordering::Release);
            self.note_use(&caller);
        }
    }

    /// Adds a durable key with its saved buckets.
    async fn add(&self, record: KeyRecord, last_use: LastUse) -> Result<(), StartError> {
        let shared = &self.inner.shared;
        let Some(slot) = shared.workspaces.slot(&record.workspace) else {
            tracing::error!(key = %record.id, "a key belongs to no workspace and does not work");
            return Ok(());
        };
        let limits = self.limits_of(&record.workspace).await?;
        let saved = |window_s| self.inner.saved.key(record.id, window_s);
        let is_saved = WINDOWS.iter().any(|window| saved(window.as_secs() as u32).is_some());
        let buckets = KeyBuckets::new(limits.with(record.limits), saved, self.clock());
        let hash = record.hash;
        let caller = Caller {
            key_id: record.id,
            workspace: Workspace::new(Arc::clone(shared), slot),
            scopes: record.scopes,
            buckets: ArcSwap::from_pointee(buckets),
            is_used: AtomicBool::new(false),
            is_revoked: AtomicBool::new(false),
            last_use,
            record: ArcSwap::from_pointee(record),
        };
        let caller = Arc::new(caller);
        if is_saved {
            // The saved buckets are deleted when they are full.
            self.note_use(&caller);
        }
        self.inner.by_hash.insert(hash, caller);
        Ok(())
    }

    /// Returns the limits in force in a workspace, from its record: it may have no actor.
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
}
