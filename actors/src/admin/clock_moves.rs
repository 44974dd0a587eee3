//! Moves engine time for an administrator or the sandbox, one move after the other.

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

/// The lock of moves of engine time: each move builds on the one before.
#[derive(Clone, Default)]
pub(super) struct ClockMoves(Arc<Mutex<()>>);

impl ClockMoves {
    /// Moves engine time forward, durably, and waits until its consequences are handled.
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

    /// Advances engine time to the wall clock. The move is not durable, so its record comes first.
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

/// Asks every live workspace to handle its due work.
async fn time_has_moved(shared: &Services) {
    shared.broadcasts.beat();
    for actor in shared.workspaces.slots().iter().filter_map(|slot| slot.live()) {
        let (done, seen) = oneshot::channel();
        if actor.cast(WorkspaceMessage::Barrier(done)).is_ok() {
            // No reply came: the workspace restarts, and handles its due work then.
            drop(seen.await);
        }
    }
}
