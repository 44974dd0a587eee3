//! The audit log: who changed what. It is read, verified and kept for a time here.
//!
//! The record of a change is written by whoever carries the change out, in the same commit. Here
//! are only the records that belong to no change: starts, stops and failed authentications.

mod failures;
mod upkeep;

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use postrider_domain::unavailable::{Unavailable, UnavailableReason};
use postrider_domain::{ActorKind, AuditActor, AuditContext, AuditEntry, Timestamp};
use postrider_runtime::random;
use postrider_store::view::audit::{self, AuditCheck, AuditFilter, AuditPage};
use postrider_store::{Change, CommitError, Direction, FjallStore, StoreError, View};
use postrider_workspace::services::Services;

use failures::{EndedMinute, Failures, MINUTE};
pub(crate) use upkeep::AuditUpkeep;

/// Records that one call verifies at the most, so that it answers soon.
const VERIFIED_AT_ONCE: u64 = 50_000;

/// How the audit log is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditOptions {
    /// How long a record is kept. `None`: for ever.
    pub kept_for: Option<Duration>,
}

impl Default for AuditOptions {
    /// 400 days.
    fn default() -> Self {
        Self { kept_for: Some(Duration::from_secs(400 * 24 * 3600)) }
    }
}

/// The audit log of an engine. Cheap to clone.
#[derive(Clone)]
pub struct AuditLog {
    shared: Arc<Services>,
    options: AuditOptions,
    failures: Arc<Failures>,
}

impl std::fmt::Debug for AuditLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AuditLog").field("options", &self.options).finish_non_exhaustive()
    }
}

impl AuditLog {
    pub(crate) fn new(shared: Arc<Services>, options: AuditOptions) -> Self {
        Self { shared, options, failures: Arc::default() }
    }

    /// Reads at most `limit` records that match, oldest first or newest first. `cursor` is the
    /// sequence of the record to go on after.
    ///
    /// # Errors
    /// [`Unavailable`]: the log cannot be read.
    pub async fn page(
        &self,
        filter: AuditFilter,
        direction: Direction,
        cursor: Option<u64>,
        limit: usize,
    ) -> Result<AuditPage, Unavailable> {
        self.read(move |store| audit::page(store, &filter, direction, cursor, limit)).await
    }

    /// The sequence of the newest record; 0 if there is none.
    ///
    /// # Errors
    /// [`Unavailable`]: the log cannot be read.
    pub async fn newest(&self) -> Result<u64, Unavailable> {
        Ok(self.read(audit::head).await?.sequence)
    }

    /// Verifies the next records after the sequence `after`, or the oldest ones. While the answer
    /// names a sequence to go on after, there are more.
    ///
    /// # Errors
    /// [`Unavailable`]: the log cannot be read.
    pub async fn verify(&self, after: Option<u64>) -> Result<AuditCheck, Unavailable> {
        self.read(move |store| audit::verify(store, after, VERIFIED_AT_ONCE)).await
    }

    /// Counts a caller that showed no good key, token or signature. The first one of an address in
    /// a minute is logged and recorded; the others of that minute are recorded together, as a
    /// count.
    pub fn authentication_failed(&self, address: IpAddr, request_id: &str) {
        let noted = self.failures.note(address, self.shared.clock.now());
        let mut changes: Vec<_> = noted.ended.iter().map(|it| self.ended_change(it)).collect();
        if noted.is_first {
            // An address that is not counted by itself is not named.
            let named = noted.address.map(tracing::field::display);
            tracing::warn!(address = named, request_id, "authentication failed");
            changes.push(self.failures_change(noted.address, Some(request_id), 1));
        }
        self.commit_soon(changes);
    }

    /// Records the counts of the minutes that have ended.
    fn record_ended_failures(&self) {
        let ended = self.failures.ended(self.shared.clock.now().minus(MINUTE));
        self.commit_soon(ended.iter().map(|it| self.ended_change(it)).collect());
    }

    fn ended_change(&self, ended: &EndedMinute) -> Change {
        self.failures_change(ended.address, None, ended.count)
    }

    fn failures_change(
        &self,
        address: Option<IpAddr>,
        request_id: Option<&str>,
        count: u64,
    ) -> Change {
        let context = AuditContext {
            actor: AuditActor::of_kind(ActorKind::Anonymous),
            address: address.map(|address| address.to_string().into()),
            request_id: request_id.map(Into::into),
        };
        let entry = AuditEntry::new("authentication.fail").change("count", count);
        self.change(&context, entry)
    }

    /// Writes records of failures. No caller waits for them.
    fn commit_soon(&self, changes: Vec<Change>) {
        if changes.is_empty() {
            return;
        }
        let writer = self.shared.writer.clone();
        drop(tokio::spawn(async move {
            if let Err(error) = writer.commit(changes).await {
                tracing::warn!(%error, "failed authentications were not recorded");
            }
        }));
    }

    /// Records something that the server does by itself. Durable when this returns.
    pub(crate) async fn record(&self, entry: AuditEntry) -> Result<(), CommitError> {
        let change = self.change(&AuditContext::system(), entry);
        self.shared.writer.commit(vec![change]).await
    }

    /// Makes everything durable that is only counted, and then the record of the stop.
    pub(crate) async fn record_stop(&self) -> Result<(), CommitError> {
        let rest = self.failures.ended(Timestamp::from_millis(u64::MAX));
        let mut changes: Vec<_> = rest.iter().map(|it| self.ended_change(it)).collect();
        changes.push(self.change(&AuditContext::system(), AuditEntry::new("server.stop")));
        self.shared.writer.commit(changes).await
    }

    fn change(&self, context: &AuditContext, entry: AuditEntry) -> Change {
        record_of(self.shared.clock.now(), context, entry)
    }

    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&dyn View) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Unavailable> {
        let store = Arc::clone(&self.shared.store);
        match tokio::task::spawn_blocking(move || read(store.as_ref())).await {
            Ok(Ok(read)) => Ok(read),
            Ok(Err(error)) => {
                tracing::error!(%error, "the audit log cannot be read");
                Err(Unavailable::because(UnavailableReason::Storage))
            }
            Err(_) => Err(Unavailable::because(UnavailableReason::Storage)),
        }
    }
}

/// The change that records `entry`. It belongs into the commit of what it records.
pub(crate) fn record_of(now: Timestamp, context: &AuditContext, entry: AuditEntry) -> Change {
    audit::record_change(now, &entry.record(random::audit_id(now), context))
}

/// Verifies the whole audit log of a data directory that no server uses.
///
/// # Errors
/// [`StoreError`]: there is no data, a server uses it, or it cannot be read.
pub fn verify_audit_directory(directory: &Path) -> Result<AuditCheck, StoreError> {
    let store = FjallStore::open_existing(&directory.join("store"), Default::default())?;
    audit::verify(&store, None, u64::MAX)
}
