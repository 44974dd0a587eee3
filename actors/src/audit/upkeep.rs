//! Removes audit records after their retention time, in slices beside the actors.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

use postrider_domain::Timestamp;
use postrider_store::view::audit::{self, DamagedRow, ExpiredRecords};
use postrider_workspace::services::Services;
use postrider_workspace::sweep::SLICE_MAX;

use super::AuditLog;

/// The interval between checks of the log.
const EVERY: Duration = Duration::from_secs(60);

/// The periodic work on the log.
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
            self.next = now.plus(EVERY);
            let shared = Arc::clone(&self.log.shared);
            self.sweep = Some(tokio::spawn(sweep(shared, kept_for)));
        }
    }
}

/// Removes all old records, in slices. After a failure the next sweep continues.
async fn sweep(shared: Arc<Services>, kept_for: Duration) {
    // A clock that has jumped may make young records look old.
    while !shared.clock.deletion_rests() {
        let Some(_turn) = shared.sweep_turns.take().await else { return };
        let (store, oldest) = (Arc::clone(&shared.store), shared.clock.now().minus(kept_for));
        let scan = move || audit::expired(store.as_ref(), oldest, SLICE_MAX);
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
