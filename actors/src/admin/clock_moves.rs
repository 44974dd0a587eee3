//! Moves of engine time by an administrator or the sandbox, one after the other.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, oneshot};

use crate::audit::record_of;
use crate::engine::clock_offset;
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{AuditContext, AuditEntry};
use postrider_workspace::mailbox::message::WorkspaceMessage;
use postrider_workspace::services::Services;

use super::TIME_MAX;

/// Held while engine time is moved: each move builds on the one before.
#[derive(Clone, Default)]
pub(super) struct ClockMoves(Arc<Mutex<()>>);

impl ClockMoves {
    /// Moves engine time forward, durably, and has its consequences seen to.
    pub(super) async fn advance(
        &self,
        shared: &Services,
        caller: &AuditContext,
        step: Duration,
    ) -> Result<(), Unavailable> {
        let _one_at_a_time = self.0.lock().await;
        let now = shared.clock.now();
        let step = step.min(TIME_MAX.since(now));
        let offset = shared.clock.offset().saturating_add(step);
        let entry = AuditEntry::new("clock.advance").change("seconds", step.as_secs());
        let changes = vec![clock_offset::change(offset), record_of(now, caller, entry)];
        shared.writer.commit(changes).await?;
        shared.clock.advance(step);
        time_has_moved(shared).await;
        Ok(())
    }

    /// Takes the wall clock's time at once. Nothing of that is durable, so the record comes first.
    pub(super) async fn follow(
        &self,
        shared: &Services,
        caller: &AuditContext,
    ) -> Result<Option<Duration>, Unavailable> {
        let _one_at_a_time = self.0.lock().await;
        let difference_ms = shared.clock.health().difference_ms;
        let entry = AuditEntry::new("clock.follow").change("difference_ms", difference_ms);
        shared.writer.commit(vec![record_of(shared.clock.now(), caller, entry)]).await?;
        let moved = shared.clock.follow();
        if moved.is_some() {
            time_has_moved(shared).await;
        }
        Ok(moved)
    }
}

/// Has every live workspace see to what has become due.
async fn time_has_moved(shared: &Services) {
    shared.broadcasts.beat();
    for actor in shared.workspaces.slots().iter().filter_map(|slot| slot.live()) {
        let (done, seen) = oneshot::channel();
        if actor.cast(WorkspaceMessage::Barrier(done)).is_ok() {
            // Dropped unanswered: the workspace restarts, and sees to it then.
            drop(seen.await);
        }
    }
}
