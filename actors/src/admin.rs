//! Administration of an engine: workspaces, keys, limits, credits, numbers and engine time.

mod number_claims;
mod numbers;
mod removal;
mod workspaces;

use std::sync::Arc;
use std::time::Duration;

use postrider_domain::unavailable::Unavailable;
use postrider_domain::{AuditContext, AuditEntry, Timestamp, WorkspaceId};
use postrider_number::record::NumberChangeError;
use postrider_people::People;
use postrider_runtime::task::detached;
use postrider_workspace::Workspace;
use postrider_workspace::core::settings::{ChangeError, WorkspaceSettings};
use postrider_workspace::mailbox::message::{Configure, WorkspaceMessage};
use postrider_workspace::services::Services;
use tokio::sync::{Mutex, oneshot};

use crate::access::Access;
use crate::audit::record_of;
use crate::engine::stored_clock::clock_offset_change;
use number_claims::EngineClaims;

pub use number_claims::{HeldClaims, NumberClaim, NumberClaimError, NumberClaims};
pub use numbers::AskError;
pub use removal::DeleteWorkspaceError;
pub use workspaces::{CreateWorkspaceError, WorkspaceInfo, WorkspaceState};

/// The end of engine time, 1 January 2500: token buckets count nanoseconds up to the year 2554.
pub const TIME_MAX: Timestamp = Timestamp::from_millis(16_725_225_600_000);

/// Administration of an engine. A call is carried out even if its caller goes away before its end.
/// Cheap to clone.
#[derive(Clone)]
pub struct Admin {
    shared: Arc<Services>,
    access: Access,
    people: People,
    /// The author of the changes.
    caller: Arc<AuditContext>,
    /// Locked while a workspace is made: of two of one name, one is refused.
    creation: Arc<Mutex<()>>,
    clock_moves: ClockMoves,
    /// Locked while limits change and while a key is made. So the buckets in memory follow the
    /// order of the stored changes.
    bucket_changes: Arc<Mutex<()>>,
    /// Locked while a number is connected, changed or disconnected. So the state in memory follows
    /// the order of the stored changes.
    number_changes: Arc<Mutex<()>>,
    /// The numbers that are reported to other engines.
    claims: EngineClaims,
}

impl std::fmt::Debug for Admin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Admin")
    }
}

impl Admin {
    pub(crate) fn new(
        shared: Arc<Services>,
        access: Access,
        people: People,
        claims: Option<Arc<dyn NumberClaims>>,
    ) -> Self {
        let claims = EngineClaims::new(Arc::clone(&shared), claims);
        Self {
            shared,
            access,
            people,
            caller: Arc::new(AuditContext::system()),
            creation: Arc::default(),
            clock_moves: ClockMoves::default(),
            bucket_changes: Arc::default(),
            number_changes: Arc::default(),
            claims,
        }
    }

    /// Returns the administration whose changes the audit log records as this caller's.
    #[must_use]
    pub fn by(&self, caller: Arc<AuditContext>) -> Self {
        Self { caller, ..self.clone() }
    }

    /// Moves engine time forward; see [`Engine::advance_clock`](crate::Engine::advance_clock).
    ///
    /// # Errors
    /// [`Unavailable`] if the move could not be made durable; then time does not move.
    pub async fn advance_clock(&self, step: Duration) -> Result<(), Unavailable> {
        let admin = self.clone();
        // In a task of its own, so that a caller that goes away does not leave the move half done.
        let moving =
            async move { admin.clock_moves.advance(&admin.shared, &admin.caller, step).await };
        detached(moving).await
    }

    /// Advances engine time to the wall clock at once, if it is behind. See [`Clock::follow`].
    ///
    /// # Errors
    /// [`Unavailable`] if the move could not be recorded; then time does not move.
    ///
    /// [`Clock::follow`]: postrider_runtime::Clock::follow
    pub async fn follow_clock(&self) -> Result<Option<Duration>, Unavailable> {
        let admin = self.clone();
        detached(async move { admin.clock_moves.follow(&admin.shared, &admin.caller).await }).await
    }

    async fn settings(&self, id: &WorkspaceId) -> Result<WorkspaceSettings, AdminError> {
        Ok(self.workspace_of(id)?.settings().await?)
    }

    async fn configure(
        &self,
        id: &WorkspaceId,
        configure: Configure,
        entry: AuditEntry,
    ) -> Result<WorkspaceSettings, AdminError> {
        Ok(self.workspace_of(id)?.configure(configure, entry).await?)
    }

    fn workspace_of(&self, id: &WorkspaceId) -> Result<Workspace, AdminError> {
        let slot = self.shared.workspaces.slot(id).ok_or(AdminError::NoSuchWorkspace)?;
        Ok(Workspace::new(Arc::clone(&self.shared), slot).by(Arc::clone(&self.caller)))
    }
}

/// The reason for which an administrative call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdminError {
    /// There is no such workspace.
    #[error("no such workspace")]
    NoSuchWorkspace,
    /// The workspace has no such key.
    #[error("no such key")]
    NoSuchKey,
    /// The channel knows the number, and it is connected already, in this workspace or another.
    #[error("a number of that phone_number_id is connected already")]
    NumberConnected,
    /// The number did not change.
    #[error(transparent)]
    Number(#[from] NumberChangeError),
    /// The workspace did not change.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// The call cannot run now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// The lock of moves of engine time: each move builds on the one before.
#[derive(Clone, Default)]
struct ClockMoves(Arc<Mutex<()>>);

impl ClockMoves {
    /// Moves engine time forward, durably, and waits until its consequences are handled.
    async fn advance(
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
        let changes = vec![clock_offset_change(offset), record_of(now, caller, entry)];
        shared.writer.commit(changes).await?;
        shared.clock.advance(step);
        handle_due_work(shared).await;
        Ok(())
    }

    /// Advances engine time to the wall clock. The move is not durable, so its record comes first.
    async fn follow(
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
            handle_due_work(shared).await;
        }
        Ok(moved)
    }
}

/// Asks every live workspace to handle its due work.
async fn handle_due_work(shared: &Services) {
    shared.broadcasts.beat();
    for actor in shared.workspaces.slots().iter().filter_map(|slot| slot.live()) {
        let (done, seen) = oneshot::channel();
        if actor.cast(WorkspaceMessage::Barrier(done)).is_ok() {
            // No reply came: the workspace restarts, and handles its due work then.
            drop(seen.await);
        }
    }
}
