//! The audit log: changes and their authors. This module reads, verifies and trims it.
//!
//! The commit of a change contains the record of the change. This module writes only the records
//! that belong to no change: starts, stops, refused authentications, and readings of everything.

mod failures;

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use postrider_domain::unavailable::{Unavailable, UnavailableReason};
use postrider_domain::{
    ActorKind, AuditActor, AuditContext, AuditEntry, KeyId, Timestamp, WorkspaceId,
};
use postrider_runtime::random;
use postrider_store::audit_chain::{
    self, AuditCheck, AuditFilter, AuditPage, DamagedRow, ExpiredRecords,
};
use postrider_store::directory::{DirectoryError, open_stopped};
use postrider_store::{Change, CommitError, Direction, StoreError, View};
use postrider_workspace::services::Services;
use postrider_workspace::sweep::SLICE_MAX;
use tokio::task::JoinHandle;

use failures::{FailureCount, FailureSource, Failures, MINUTE};

/// The maximum number of records that one call verifies, so that it returns soon.
const VERIFIED_AT_ONCE: u64 = 50_000;
/// The interval between checks whether records are to be removed.
const UPKEEP_EVERY: Duration = Duration::from_secs(60);

/// The options of the audit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditOptions {
    /// The retention time of a record; `None` for ever.
    pub kept_for: Option<Duration>,
}

impl Default for AuditOptions {
    /// Returns 400 days.
    fn default() -> Self {
        Self { kept_for: Some(Duration::from_secs(400 * 24 * 3600)) }
    }
}

/// The audit log of an engine. Cheap to clone.
#[derive(Clone)]
pub struct AuditLog {
    shared: Arc<Services>,
    options: AuditOptions,
    /// Callers without a valid key, token or signature.
    failed: Arc<Failures>,
    /// Valid keys from addresses that they do not allow.
    refused: Arc<Failures>,
}

impl std::fmt::Debug for AuditLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AuditLog").field("options", &self.options).finish_non_exhaustive()
    }
}

impl AuditLog {
    pub(crate) fn new(shared: Arc<Services>, options: AuditOptions) -> Self {
        let [failed, refused] = ["authentication.fail", "authentication.refuse"]
            .map(|action| Arc::new(Failures::of(action)));
        Self { shared, options, failed, refused }
    }

    /// Reads at most `limit` records that match, oldest first or newest first. `cursor` is the
    /// sequence of the record after which the page starts.
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
        self.read(move |store| audit_chain::page(store, &filter, direction, cursor, limit)).await
    }

    /// Returns the sequence of the newest record; 0 if there is none.
    ///
    /// # Errors
    /// [`Unavailable`]: the log cannot be read.
    pub async fn newest(&self) -> Result<u64, Unavailable> {
        Ok(self.read(audit_chain::head).await?.sequence)
    }

    /// Verifies the next records after the sequence `after`, or the oldest ones. While the result
    /// has a sequence to continue after, there are more.
    ///
    /// # Errors
    /// [`Unavailable`]: the log cannot be read.
    pub async fn verify(&self, after: Option<u64>) -> Result<AuditCheck, Unavailable> {
        self.read(move |store| audit_chain::verify(store, after, VERIFIED_AT_ONCE)).await
    }

    /// Counts a caller without a valid key, token or signature. The first one of an address in a
    /// minute is logged and recorded. The others of that minute are recorded together, as a count.
    pub fn authentication_failed(&self, address: IpAddr, request_id: &str) {
        let source = FailureSource { address: Some(address), key: None };
        if let Some(FailureSource { address, .. }) = self.note(&self.failed, source, request_id) {
            // An address that is not counted separately is not logged.
            let address = address.map(tracing::field::display);
            tracing::warn!(address, request_id, "authentication failed");
        }
    }

    /// Counts the use of a valid key from an address that it does not allow. The first one of an
    /// address and key in a minute is logged and recorded; the others are recorded as a count.
    pub fn key_refused(
        &self,
        key: KeyId,
        workspace: &WorkspaceId,
        address: IpAddr,
        request_id: &str,
    ) {
        let key = Some((key, workspace.clone()));
        let source = FailureSource { address: Some(address), key };
        if let Some(FailureSource { address, key }) = self.note(&self.refused, source, request_id) {
            let address = address.map(tracing::field::display);
            let key_id = key.map(|(id, _)| tracing::field::display(id));
            tracing::warn!(address, key_id, request_id, "a key may not be used from this address");
        }
    }

    /// Counts a failure. Returns the source by which it is counted if it is the first of its
    /// minute.
    fn note(
        &self,
        failures: &Arc<Failures>,
        source: FailureSource,
        request_id: &str,
    ) -> Option<FailureSource> {
        let noted = failures.note(source, self.shared.clock.now());
        let ended = noted.ended.map(|ended| (ended, None));
        let first = noted.is_first.then(|| FailureCount { source: noted.source.clone(), count: 1 });
        let first = first.map(|first| (first, Some(request_id)));
        self.commit_soon(failures, ended.into_iter().chain(first).collect());
        noted.is_first.then_some(noted.source)
    }

    /// Records the counts of the minutes that have ended.
    fn record_ended_failures(&self) {
        let over = self.shared.clock.now().minus(MINUTE);
        for failures in [&self.failed, &self.refused] {
            let ended = failures.ended(over).into_iter().map(|ended| (ended, None));
            self.commit_soon(failures, ended.collect());
        }
    }

    fn failures_change(
        &self,
        failures: &Failures,
        counted: &FailureCount,
        request_id: Option<&str>,
    ) -> Change {
        let FailureCount { source: FailureSource { address, key }, count } = counted;
        let context = AuditContext {
            actor: AuditActor::of_kind(ActorKind::Anonymous),
            address: address.map(|address| address.to_string().into()),
            request_id: request_id.map(Into::into),
        };
        let entry = AuditEntry::new(failures.action).change("count", count);
        let entry = match key {
            Some((id, workspace)) => entry.target(id).workspace(workspace),
            None => entry,
        };
        self.change(&context, entry)
    }

    /// Writes records of failures. No caller waits for them. They are few (`failures.rs`), so they
    /// are not refused for lack of room.
    fn commit_soon(&self, failures: &Arc<Failures>, counted: Vec<(FailureCount, Option<&str>)>) {
        if counted.is_empty() {
            return;
        }
        let changes = counted.iter().map(|(it, id)| self.failures_change(failures, it, *id));
        let changes = changes.collect();
        let counted = counted.into_iter().map(|(it, _)| it).collect();
        let (shared, failures) = (Arc::clone(&self.shared), Arc::clone(failures));
        drop(tokio::spawn(async move {
            if let Err(error) = shared.writer.commit_own(changes).await {
                tracing::warn!(%error, "failed authentications are recorded later");
                failures.put_back(counted, shared.clock.now());
            }
        }));
    }

    /// Records that a caller reads everything of a kind, such as `contacts.export`. Durable when
    /// this returns.
    ///
    /// # Errors
    /// [`Unavailable`]: the record cannot be written now, so nothing may be read either.
    pub async fn record_reading(
        &self,
        by: &AuditContext,
        entry: AuditEntry,
    ) -> Result<(), Unavailable> {
        let change = self.change(by, entry);
        Ok(self.shared.writer.commit(vec![change]).await?)
    }

    /// Records an action of the server itself. Durable when this returns.
    pub(crate) async fn record(&self, entry: AuditEntry) -> Result<(), CommitError> {
        let change = self.change(&AuditContext::system(), entry);
        self.shared.writer.commit_own(vec![change]).await
    }

    /// Makes all unrecorded counts durable, and then the record of the stop.
    pub(crate) async fn record_stop(&self) -> Result<(), CommitError> {
        let mut changes = Vec::new();
        for failures in [&self.failed, &self.refused] {
            let rest = failures.ended(Timestamp::from_millis(u64::MAX));
            changes.extend(rest.iter().map(|it| self.failures_change(failures, it, None)));
        }
        changes.push(self.change(&AuditContext::system(), AuditEntry::new("server.stop")));
        // The stop waits for its record, whatever is queued.
        self.shared.writer.commit_own(changes).await
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

/// Returns the change that records `entry`. It belongs into the commit of the recorded change.
pub(crate) fn record_of(now: Timestamp, context: &AuditContext, entry: AuditEntry) -> Change {
    audit_chain::record_change(now, &entry.record(random::audit_id(now), context))
}

/// The periodic work on the log: it records counts of failures, and removes old records.
#[derive(Debug)]
pub(crate) struct AuditUpkeep {
    log: AuditLog,
    /// The time of the next check.
    next: Timestamp,
    sweep: Option<JoinHandle<()>>,
}

impl AuditUpkeep {
    pub(crate) fn new(log: AuditLog) -> Self {
        Self { log, next: Timestamp::default(), sweep: None }
    }

    /// Handles a beat: records the counts, and removes old records if it is time.
    pub(crate) fn beat(&mut self) {
        self.log.record_ended_failures();
        let now = self.log.shared.clock.now();
        let is_running = self.sweep.as_ref().is_some_and(|sweep| !sweep.is_finished());
        if let Some(kept_for) = self.log.options.kept_for
            && now >= self.next
            && !is_running
        {
            self.next = now.plus(UPKEEP_EVERY);
            let shared = Arc::clone(&self.log.shared);
            self.sweep = Some(tokio::spawn(sweep(shared, kept_for)));
        }
    }
}

/// Removes all old records, in slices beside the actors. After a failure the next sweep continues.
async fn sweep(shared: Arc<Services>, kept_for: Duration) {
    // A clock that has jumped may make young records look old.
    while !shared.clock.deletion_rests() {
        let Some(_turn) = shared.sweep_turns.take().await else { return };
        let (store, oldest) = (Arc::clone(&shared.store), shared.clock.now().minus(kept_for));
        let scan = move || audit_chain::expired(store.as_ref(), oldest, SLICE_MAX);
        let ExpiredRecords { changes, damaged } = match tokio::task::spawn_blocking(scan).await {
            Ok(Ok(expired)) => expired,
            Ok(Err(error)) => {
                tracing::error!(%error, "old audit records cannot be removed");
                return;
            }
            Err(_) => return,
        };
        if changes.is_empty() || shared.writer.commit(changes).await.is_err() {
            return;
        }
        for DamagedRow { sequence, why, .. } in damaged {
            tracing::warn!(sequence, why, "an audit record that cannot be read was removed by age");
        }
    }
}

/// Verifies the whole audit log of a data directory that no server uses.
///
/// # Errors
/// [`StoreError`]: there is no data, a server uses it, or it cannot be read.
pub fn verify_audit_directory(directory: &Path) -> Result<AuditCheck, StoreError> {
    let failed = |error: DirectoryError| match error {
        DirectoryError::Store(error) => error,
        error => StoreError::Failed(error.to_string()),
    };
    let store = open_stopped(directory).map_err(failed)?;
    audit_chain::verify(&store, None, u64::MAX)
}
