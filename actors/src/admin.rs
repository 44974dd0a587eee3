//! Administration: workspaces, keys, limits, credits, numbers.

mod clock_moves;
mod entries;
mod info;
mod keys;
mod number_claims;
mod numbers;
mod removal;

use postrider_store::view::codec;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;

use crate::access::Access;
use crate::audit::record_of;
use clock_moves::ClockMoves;
use number_claims::Claims;
use postrider_domain::template::TemplateName;
use postrider_domain::unavailable::{Unavailable, UnavailableReason};
use postrider_domain::{AuditContext, AuditEntry, Destinations, DestinationsChange};
use postrider_domain::{Limits, LimitsOverride, Timestamp, WorkspaceId};
use postrider_people::People;
use postrider_runtime::supervise::Placement;
use postrider_runtime::task::detached;
use postrider_store::{Change, StoreError, Table, Usage};
use postrider_workspace::Workspace;
use postrider_workspace::core::command::Footprint;
use postrider_workspace::core::records;
use postrider_workspace::core::records::Profile;
use postrider_workspace::core::settings::CreditsChange;
use postrider_workspace::core::settings::WorkspaceSettings;
use postrider_workspace::core::view::unreadable;
use postrider_workspace::mailbox::message::Configure;
use postrider_workspace::mailbox::slot::WorkspaceEntry;
use postrider_workspace::services::Services;

pub use info::{AdminError, CreateWorkspaceError, WorkspaceInfo, WorkspaceState};
pub use number_claims::{HeldClaims, NumberClaim, NumberClaimError, NumberClaims};
pub use numbers::AskError;
pub use removal::DeleteWorkspaceError;

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
    claims: Claims,
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
        let claims = Claims::new(Arc::clone(&shared), claims);
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

    /// Makes a workspace without keys, numbers or credits.
    ///
    /// # Errors
    /// [`CreateWorkspaceError`]: the id is taken, or the workspace cannot be made now.
    pub async fn create_workspace(
        &self,
        id: WorkspaceId,
        name: String,
    ) -> Result<WorkspaceInfo, CreateWorkspaceError> {
        let (admin, id, name) = (self.clone(), id, name);
        detached(async move { admin.create_workspace_attached(id, name).await }).await
    }

    async fn create_workspace_attached(
        &self,
        id: WorkspaceId,
        name: String,
    ) -> Result<WorkspaceInfo, CreateWorkspaceError> {
        self.shared.disk.admit(Footprint::Grows)?;
        let _one_at_a_time = self.creation.lock().await;
        if self.shared.workspaces.slot(&id).is_some() {
            return Err(CreateWorkspaceError::Exists);
        }
        if removal::is_under_way(&self.shared, &id)? {
            return Err(CreateWorkspaceError::BeingRemoved);
        }
        let created_at = self.shared.clock.now();
        let profile = Profile::new(name, created_at);
        let key = records::profile_key(&id);
        let change = Change::put(Table::Workspaces, key, codec::encode(&profile));
        let entry = entries::workspace_created(&id, &profile.name);
        let changes = vec![change, record_of(created_at, &self.caller, entry)];
        self.shared.writer.commit(changes).await.map_err(Unavailable::from)?;
        let new = || WorkspaceEntry::new(id.clone());
        self.shared.workspaces.slot_or_insert_with(id.clone(), new);
        let usage = Usage::of(self.shared.store.as_ref(), &id).map_err(unreadable)?;
        Ok(WorkspaceInfo {
            id,
            name: profile.name,
            created_at,
            credits: 0,
            limits: self.shared.limits,
            keys: 0,
            numbers: 0,
            otps: 0,
            usage,
            state: WorkspaceState::Idle,
        })
    }

    /// Returns at most `limit` workspaces after the first `skip`, by id, and their total number.
    ///
    /// # Errors
    /// [`Unavailable`] when the store cannot be read.
    pub async fn workspaces(
        &self,
        skip: usize,
        limit: usize,
    ) -> Result<(Vec<WorkspaceInfo>, usize), Unavailable> {
        let mut ids: Vec<_> =
            self.shared.workspaces.slots().iter().map(|slot| slot.id.clone()).collect();
        ids.sort();
        let total = ids.len();
        let mut infos = Vec::new();
        for id in ids.into_iter().skip(skip).take(limit) {
            match self.workspace(&id).await {
                Ok(info) => infos.push(info),
                Err(AdminError::Unavailable(why)) => return Err(why),
                // The workspace does not exist.
                Err(_) => {}
            }
        }
        Ok((infos, total))
    }

    /// Returns one workspace. It asks a running actor, and starts none.
    ///
    /// # Errors
    /// [`AdminError`]: the workspace does not exist, or cannot be read now.
    pub async fn workspace(&self, id: &WorkspaceId) -> Result<WorkspaceInfo, AdminError> {
        let slot = self.shared.workspaces.slot(id).ok_or(AdminError::NoSuchWorkspace)?;
        let (store, of) = (Arc::clone(&self.shared.store), id.clone());
        let read = tokio::task::spawn_blocking(move || {
            let Some(records) = records::load(store.as_ref(), &of)? else { return Ok(None) };
            Ok(Some((records, Usage::of(store.as_ref(), &of)?)))
        });
        let storage = || Unavailable::because(UnavailableReason::Storage);
        let (stored, usage) = match read.await.map_err(|_| storage())? {
            Ok(Some(stored)) => stored,
            Ok(None) => return Err(AdminError::NoSuchWorkspace),
            Err(StoreError::Damaged(reason)) => return Ok(self.unreadable(id, reason)),
            Err(error) => {
                tracing::error!(workspace = %id, %error, "a workspace's records cannot be read");
                return Err(storage().into());
            }
        };
        let otps = match slot.placement() {
            // The count is 0 if the actor dies just now.
            Placement::Live(_) => self.settings(id).await.map_or(0, |it| it.otps),
            _ => 0,
        };
        let state = slot.placement().into();
        Ok(WorkspaceInfo {
            id: id.clone(),
            name: stored.profile.name,
            created_at: stored.profile.created_at,
            credits: stored.credits,
            limits: self.shared.limits.with(stored.profile.limits),
            keys: self.access.keys_of(id).len(),
            numbers: stored.numbers.len(),
            otps,
            usage,
            state,
        })
    }

    /// Returns the visible data of a workspace whose records are damaged.
    fn unreadable(&self, id: &WorkspaceId, reason: String) -> WorkspaceInfo {
        WorkspaceInfo {
            id: id.clone(),
            name: id.to_string(),
            created_at: Timestamp::default(),
            credits: 0,
            limits: self.shared.limits,
            keys: self.access.keys_of(id).len(),
            numbers: 0,
            otps: 0,
            usage: Usage::default(),
            state: WorkspaceState::Parked(reason),
        }
    }

    /// Overrides some of a workspace's own limits. Returns the limits in force.
    ///
    /// # Errors
    /// [`AdminError`]: there is no such workspace, or the change cannot be made now.
    pub async fn set_limits(
        &self,
        id: &WorkspaceId,
        over: LimitsOverride,
    ) -> Result<Limits, AdminError> {
        let (admin, id) = (self.clone(), id.clone());
        detached(async move { admin.set_limits_attached(&id, over).await }).await
    }

    async fn set_limits_attached(
        &self,
        id: &WorkspaceId,
        over: LimitsOverride,
    ) -> Result<Limits, AdminError> {
        let _in_order = self.bucket_changes.lock().await;
        let settings =
            self.configure(id, Configure::Limits(over), entries::limits_set(over)).await?;
        self.access.limits_changed(id, settings.limits);
        Ok(settings.limits)
    }

    /// Sets a workspace's balance.
    ///
    /// # Errors
    /// [`AdminError`]: there is no such workspace, or the change cannot be made now.
    pub async fn set_credits(&self, id: &WorkspaceId, credits: u64) -> Result<u64, AdminError> {
        let change = Configure::Credits(CreditsChange::Set(credits));
        let entry = AuditEntry::new("credits.set").change("credits", credits);
        Ok(self.configure(id, change, entry).await?.credits)
    }

    /// Adds to a workspace's balance.
    ///
    /// # Errors
    /// [`AdminError`]: there is no such workspace, the balance would not fit, or not now.
    pub async fn add_credits(&self, id: &WorkspaceId, add: u64) -> Result<u64, AdminError> {
        let change = Configure::Credits(CreditsChange::Add(add));
        let entry = AuditEntry::new("credits.add").change("add", add);
        Ok(self.configure(id, change, entry).await?.credits)
    }

    /// Sets the allowed destinations of a workspace's codes. Returns the destinations in force.
    ///
    /// # Errors
    /// [`AdminError`]: there is no such workspace, or the change cannot be made now.
    pub async fn set_destinations(
        &self,
        id: &WorkspaceId,
        change: DestinationsChange,
    ) -> Result<Destinations, AdminError> {
        let entry = entries::destinations_set(&change);
        Ok(self.configure(id, Configure::Destinations(change), entry).await?.destinations)
    }

    /// Returns the allowed destinations of a workspace's one-time passwords.
    ///
    /// # Errors
    /// [`AdminError`]: there is no such workspace, or it cannot be read now.
    pub async fn destinations(&self, id: &WorkspaceId) -> Result<Destinations, AdminError> {
        Ok(self.settings(id).await?.destinations)
    }

    /// Sets the template that carries a workspace's one-time passwords. It need not be known yet.
    ///
    /// # Errors
    /// [`AdminError`]: there is no such workspace, or the change cannot be made now.
    pub async fn set_otp_template(
        &self,
        id: &WorkspaceId,
        template: TemplateName,
    ) -> Result<(), AdminError> {
        let entry = entries::otp_template_set(&template);
        self.configure(id, Configure::OtpTemplate(template), entry).await?;
        Ok(())
    }

    /// Deletes a workspace with everything in it; `name` repeats its name or id. Its traffic ends
    /// before this returns. Its rows are deleted in the background; then its id is free.
    ///
    /// # Errors
    /// [`DeleteWorkspaceError`]: the workspace does not exist, the name is wrong, or not now.
    pub async fn delete_workspace(
        &self,
        id: &WorkspaceId,
        name: &str,
    ) -> Result<(), DeleteWorkspaceError> {
        let (admin, id, name) = (self.clone(), id.clone(), name.to_owned());
        detached(async move { removal::delete(&admin, &id, &name).await }).await
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
