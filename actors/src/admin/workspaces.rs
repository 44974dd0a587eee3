//! Administration of workspaces: their settings, limits, credits and API keys.

use std::sync::Arc;

use postrider_domain::event::chain::ChainStep;
use postrider_domain::otp_text::OtpTexts;
use postrider_domain::template::TemplateName;
use postrider_domain::unavailable::{Unavailable, UnavailableReason};
use postrider_domain::{
    AuditEntry, Destinations, DestinationsChange, KeyId, Limits, LimitsOverride, Prefix, Timestamp,
    WorkspaceId,
};
use postrider_runtime::supervise::Placement;
use postrider_runtime::task::detached;
use postrider_store::view::codec;
use postrider_store::{Change, StoreError, Table, Usage};
use postrider_workspace::core::command::Footprint;
use postrider_workspace::core::records::{self, Profile};
use postrider_workspace::core::settings::CreditsChange;
use postrider_workspace::core::view::unreadable;
use postrider_workspace::mailbox::message::Configure;
use postrider_workspace::mailbox::slot::WorkspaceEntry;

use super::{Admin, AdminError, DeleteWorkspaceError, removal};
use crate::access::{CreatedKey, KeyChange, KeyInfo, NewKey};
use crate::audit::record_of;

/// A workspace, as an administrator sees it.
#[derive(Debug, Clone)]
pub struct WorkspaceInfo {
    /// Its id.
    pub id: WorkspaceId,
    /// The name for people.
    pub name: String,
    /// The time of its creation.
    pub created_at: Timestamp,
    /// Its balance.
    pub credits: u64,
    /// The limits in force.
    pub limits: Limits,
    /// The number of API keys that are not revoked.
    pub keys: usize,
    /// The number of connected numbers.
    pub numbers: usize,
    /// The number of requests for one-time passwords in memory.
    pub otps: usize,
    /// The bytes and broadcasts that it uses.
    pub usage: Usage,
    /// The state of its actor.
    pub state: WorkspaceState,
}

/// The state of a workspace's actor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkspaceState {
    /// It does not run, because it has nothing to do; it starts when it is needed.
    Idle,
    /// It runs.
    Live,
    /// It died and restarts in a moment.
    Restarting,
    /// It cannot start, for this reason.
    Parked(String),
}

/// The reason for which a workspace was not made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CreateWorkspaceError {
    /// Another workspace has that id.
    #[error("there is a workspace of that id already")]
    Exists,
    /// A workspace of that id was deleted, and rows of it are left.
    #[error("the deleted workspace of that id is still being removed; try again soon")]
    BeingRemoved,
    /// It cannot be made now.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl Admin {
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
        let entry = workspace_created(&id, &profile.name);
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
        let settings = self.configure(id, Configure::Limits(over), limits_set(over)).await?;
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
        let entry = destinations_set(&change);
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
        let entry = otp_template_set(&template);
        self.configure(id, Configure::OtpTemplate(template), entry).await?;
        Ok(())
    }

    /// Sets the default channels of a workspace's one-time passwords.
    ///
    /// # Errors
    /// [`AdminError`]: there is no such workspace, or the change cannot be made now.
    pub async fn set_otp_channels(
        &self,
        id: &WorkspaceId,
        steps: Vec<ChainStep>,
    ) -> Result<Vec<ChainStep>, AdminError> {
        let entry = otp_channels_set(&steps);
        Ok(self.configure(id, Configure::OtpChannels(steps), entry).await?.otp_channels)
    }

    /// Sets the texts of a workspace's codes over SMS and mail.
    ///
    /// # Errors
    /// [`AdminError`]: there is no such workspace, or the change cannot be made now.
    pub async fn set_otp_texts(
        &self,
        id: &WorkspaceId,
        texts: OtpTexts,
    ) -> Result<OtpTexts, AdminError> {
        let entry = otp_texts_set(&texts);
        Ok(self.configure(id, Configure::OtpTexts(texts), entry).await?.otp_texts)
    }

    /// Returns the texts of a workspace's codes over SMS and mail, without the built-in ones.
    ///
    /// # Errors
    /// [`AdminError`]: there is no such workspace, or it cannot be read now.
    pub async fn otp_texts(&self, id: &WorkspaceId) -> Result<OtpTexts, AdminError> {
        Ok(self.settings(id).await?.otp_texts)
    }

    /// Returns the default channels of a workspace's one-time passwords. An empty list is the
    /// chat-app channel alone.
    ///
    /// # Errors
    /// [`AdminError`]: there is no such workspace, or it cannot be read now.
    pub async fn otp_channels(&self, id: &WorkspaceId) -> Result<Vec<ChainStep>, AdminError> {
        Ok(self.settings(id).await?.otp_channels)
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
        detached(async move { removal::delete_workspace(&admin, &id, &name).await }).await
    }

    /// Makes a key. The response alone has its text.
    ///
    /// # Errors
    /// [`AdminError`]: there is no such workspace, or the key cannot be made now.
    pub async fn create_key(
        &self,
        id: &WorkspaceId,
        new: NewKey,
    ) -> Result<CreatedKey, AdminError> {
        let (admin, id) = (self.clone(), id.clone());
        detached(async move { admin.create_key_attached(&id, new).await }).await
    }

    async fn create_key_attached(
        &self,
        id: &WorkspaceId,
        new: NewKey,
    ) -> Result<CreatedKey, AdminError> {
        self.shared.disk.admit(Footprint::Grows)?;
        let _in_order = self.bucket_changes.lock().await;
        self.shared.workspaces.slot(id).ok_or(AdminError::NoSuchWorkspace)?;
        Ok(self.access.create_key(id, new, &self.caller).await.map_err(Unavailable::from)?)
    }

    /// Returns a workspace's keys, oldest first.
    ///
    /// # Errors
    /// [`AdminError::NoSuchWorkspace`].
    pub async fn keys(&self, id: &WorkspaceId) -> Result<Vec<KeyInfo>, AdminError> {
        self.shared.workspaces.slot(id).ok_or(AdminError::NoSuchWorkspace)?;
        Ok(self.access.keys_of(id))
    }

    /// Revokes a key; it no longer works when this returns.
    ///
    /// # Errors
    /// [`AdminError`]: there is no such workspace or key, or the change cannot be made now.
    pub async fn revoke_key(&self, id: &WorkspaceId, key: KeyId) -> Result<(), AdminError> {
        let (admin, id) = (self.clone(), id.clone());
        detached(async move { admin.revoke_key_attached(&id, key).await }).await
    }

    async fn revoke_key_attached(&self, id: &WorkspaceId, key: KeyId) -> Result<(), AdminError> {
        // A change in progress must not store the key again.
        let _in_order = self.bucket_changes.lock().await;
        self.shared.workspaces.slot(id).ok_or(AdminError::NoSuchWorkspace)?;
        match self.access.revoke_key(id, key, &self.caller).await.map_err(Unavailable::from)? {
            true => Ok(()),
            false => Err(AdminError::NoSuchKey),
        }
    }

    /// Changes a key; the changes are in force when this returns.
    ///
    /// # Errors
    /// [`AdminError`]: there is no such workspace or key, or the change cannot be made now.
    pub async fn update_key(
        &self,
        id: &WorkspaceId,
        key: KeyId,
        change: KeyChange,
    ) -> Result<KeyInfo, AdminError> {
        let (admin, id) = (self.clone(), id.clone());
        detached(async move { admin.update_key_attached(&id, key, change).await }).await
    }

    async fn update_key_attached(
        &self,
        id: &WorkspaceId,
        key: KeyId,
        change: KeyChange,
    ) -> Result<KeyInfo, AdminError> {
        self.shared.disk.admit(Footprint::Settles)?;
        let _in_order = self.bucket_changes.lock().await;
        self.shared.workspaces.slot(id).ok_or(AdminError::NoSuchWorkspace)?;
        let changed = self.access.update_key(id, key, change, &self.caller).await;
        changed.map_err(Unavailable::from)?.ok_or(AdminError::NoSuchKey)
    }
}

fn workspace_created(id: &WorkspaceId, name: &str) -> AuditEntry {
    AuditEntry::new("workspace.create").target(id).workspace(id).change("name", name)
}

fn limits_set(over: LimitsOverride) -> AuditEntry {
    let mut entry = AuditEntry::new("limits.set");
    // They are an object in which absent limits are null.
    if let Ok(serde_json::Value::Object(limits)) = serde_json::to_value(over) {
        for (name, limit) in limits.into_iter().filter(|(_, limit)| !limit.is_null()) {
            entry = entry.change(&name, limit);
        }
    }
    entry
}

fn destinations_set(change: &DestinationsChange) -> AuditEntry {
    let texts = |all: &[Prefix]| all.iter().map(ToString::to_string).collect::<Vec<_>>();
    AuditEntry::new("destinations.set")
        .change("allow", texts(&change.allow))
        .change("deny", texts(&change.deny))
        .change_if_some("safe", change.safe.as_deref().map(texts))
        .change_if_some("adaptive", change.adaptive)
}

fn otp_template_set(template: &TemplateName) -> AuditEntry {
    let TemplateName { name, language } = template;
    AuditEntry::new("otp_template.set").target(format_args!("{name}/{language}"))
}

fn otp_channels_set(steps: &[ChainStep]) -> AuditEntry {
    let names: Vec<_> = steps.iter().map(|step| step.channel.as_str()).collect();
    AuditEntry::new("otp_channels.set").change("channels", names)
}

fn otp_texts_set(texts: &OtpTexts) -> AuditEntry {
    AuditEntry::new("otp_texts.set").change("languages", texts.0.keys().collect::<Vec<_>>())
}
