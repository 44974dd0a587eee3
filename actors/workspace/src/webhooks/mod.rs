//! A workspace's webhook endpoints: its actor creates, changes and deletes them one at a time.

mod disable;

use std::sync::Arc;

use postrider_domain::audit::origin;
use postrider_domain::event::webhook::WebhookData;
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{
    AuditEntry, EventData, EventId, LogEntry, Timestamp, WebhookId, WorkspaceId,
};
use postrider_runtime::random;
use postrider_runtime::sealed::Sealed;
use postrider_runtime::task::detached;
use postrider_store::{Table, View};
use postrider_webhook::EndpointHealth;
use postrider_webhook::ShownAttempt;
use postrider_webhook::endpoint::{Endpoint, WebhookInfo, WebhookSettings, seal};
use postrider_webhook::records::{AttemptId, Cursor, KeptAttempt};
use postrider_webhook::retry_schedule::DisabledReason;
use postrider_webhook::signature::{SECRET_BYTES, WebhookSecret};
use postrider_webhook::ssrf::WebhookUrlError;
use postrider_webhook::{Replay, ReplayError, records};

use crate::core::command::{Command, Context, Footprint};
use crate::core::effects::Effects;
use crate::core::view::unreadable;
use crate::events;
use crate::handle::Workspace;

pub use disable::DisableInWorkspace;

/// The maximum number of a workspace's endpoints.
pub(crate) const WEBHOOKS_MAX: usize = 10;

/// The reason why an operation on a webhook failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WebhookError {
    /// There is no such webhook.
    #[error("no such webhook")]
    NotFound,
    /// The workspace has the maximum number of webhooks.
    #[error("a workspace may have at most {WEBHOOKS_MAX} webhooks")]
    TooMany,
    /// Deliveries cannot go there.
    #[error(transparent)]
    Url(#[from] WebhookUrlError),
    /// It is disabled, so nothing would be delivered.
    #[error("the webhook is disabled")]
    Disabled,
    /// The workspace is unavailable.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// Changes of a webhook; `None` leaves a setting unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WebhookChange {
    /// The URL of deliveries.
    pub url: Option<String>,
    /// The types of the delivered events.
    pub events: Option<Vec<String>>,
    /// The owner's description; `Some(None)` clears it.
    pub description: Option<Option<String>>,
    /// Set if events are delivered.
    pub enabled: Option<bool>,
    /// The maximum number of deliveries in a second; `Some(None)` removes the limit.
    pub rate_limit_per_second: Option<Option<std::num::NonZeroU32>>,
    /// Set if each delivery waits for the end of those before it about the same contact.
    pub ordered: Option<bool>,
    /// Set if events are delivered as an array.
    pub batch: Option<bool>,
    /// Set if an administrator asks: the owner of an endpoint that is disabled is notified.
    pub by_administrator: bool,
}

impl Workspace {
    /// Creates an endpoint to which events are delivered from now on.
    ///
    /// Returns it with the secret that signs the deliveries, which is shown only here.
    ///
    /// # Errors
    /// [`WebhookError`]: its address is not allowed, there are too many, or the workspace is
    /// unavailable.
    pub async fn create_webhook(
        &self,
        settings: WebhookSettings,
    ) -> Result<(WebhookInfo, WebhookSecret), WebhookError> {
        self.shared.webhooks.options.addresses.check_url(&settings.url)?;
        let id = random::webhook_id(self.shared.clock.now());
        let secret = WebhookSecret::new(random::bytes::<SECRET_BYTES>());
        let sealed = seal(&secret, &self.shared.webhooks.master_keys, id);
        let entry = created_entry(id, &settings);
        let info = self
            .change_webhooks(CreateWebhook { id, settings, secret: sealed }, Some(entry))
            .await?;
        Ok((info, secret))
    }

    /// Returns the workspace's endpoints, oldest first.
    ///
    /// # Errors
    /// [`Unavailable`] when the store cannot be read.
    pub async fn webhooks(&self) -> Result<Vec<WebhookInfo>, Unavailable> {
        Ok(self.read(records::endpoints).await?.iter().map(Endpoint::info).collect())
    }

    /// Returns one endpoint.
    ///
    /// # Errors
    /// [`WebhookError`]: there is no such webhook, or the workspace is unavailable.
    pub async fn webhook(&self, id: WebhookId) -> Result<WebhookInfo, WebhookError> {
        let all = self.webhooks().await?;
        all.into_iter().find(|info| info.id == id).ok_or(WebhookError::NotFound)
    }

    /// Changes an endpoint.
    ///
    /// An endpoint that is enabled again continues at its position. So does one at another address,
    /// where earlier failures do not count.
    ///
    /// # Errors
    /// [`WebhookError`]: there is no such webhook, its address is not allowed, or the workspace is
    /// unavailable.
    pub async fn update_webhook(
        &self,
        id: WebhookId,
        change: WebhookChange,
    ) -> Result<WebhookInfo, WebhookError> {
        if let Some(url) = &change.url {
            self.shared.webhooks.options.addresses.check_url(url)?;
        }
        let entry = updated_entry(id, &change);
        self.change_webhooks(UpdateWebhook { id, change }, Some(entry)).await
    }

    /// Deletes an endpoint, and all records of its deliveries.
    ///
    /// # Errors
    /// [`WebhookError`]: there is no such webhook, or the workspace is unavailable.
    pub async fn delete_webhook(&self, id: WebhookId) -> Result<(), WebhookError> {
        let entry = deleted_entry(id);
        self.change_webhooks(DeleteWebhook { id }, Some(entry)).await
    }

    /// Gives an endpoint a new secret; for 24 hours the previous one signs too.
    ///
    /// # Errors
    /// [`WebhookError`]: there is no such webhook, or the workspace is unavailable.
    pub async fn rotate_webhook_secret(
        &self,
        id: WebhookId,
    ) -> Result<(WebhookInfo, WebhookSecret), WebhookError> {
        let secret = WebhookSecret::new(random::bytes::<SECRET_BYTES>());
        let sealed = seal(&secret, &self.shared.webhooks.master_keys, id);
        let entry = rotated_entry(id);
        let change = RotateSecret { id, secret: sealed };
        let info = self.change_webhooks(change, Some(entry)).await?;
        Ok((info, secret))
    }

    /// Delivers a `webhook.test` to one endpoint, whatever types it accepts. Returns the event's
    /// id.
    ///
    /// # Errors
    /// [`WebhookError`]: there is no such webhook, it is disabled, or the workspace is unavailable.
    pub async fn test_webhook(&self, id: WebhookId) -> Result<EventId, WebhookError> {
        self.perform(TestWebhook { id }).await
    }

    /// Delivers events again. Returns the number of deliveries.
    ///
    /// # Errors
    /// [`ReplayError`]: there is no such webhook or event, or the workspace is unavailable.
    pub async fn replay_webhook(&self, id: WebhookId, what: Replay) -> Result<u64, ReplayError> {
        self.webhook(id).await.map_err(|error| match error {
            WebhookError::Unavailable(why) => ReplayError::Unavailable(why),
            _ => ReplayError::NotFound,
        })?;
        let shared = Arc::clone(&self.shared);
        detached(async move { shared.webhooks.replay(id, what).await }).await
    }

    /// Returns the remembered tries of an endpoint, newest first.
    ///
    /// # Errors
    /// [`WebhookError`]: there is no such webhook, or the workspace is unavailable.
    pub async fn webhook_deliveries(
        &self,
        id: WebhookId,
    ) -> Result<Vec<KeptAttempt>, WebhookError> {
        self.webhook(id).await?;
        let (kept, now) = (self.shared.webhooks.options.deliveries, self.shared.clock.now());
        let read =
            move |store: &dyn View, of: &WorkspaceId| records::deliveries(store, of, id, kept, now);
        Ok(self.scan(read).await?)
    }

    /// Carries out a change and updates the deliveries, even if the caller no longer waits.
    async fn change_webhooks<C>(
        &self,
        command: C,
        entry: Option<AuditEntry>,
    ) -> Result<C::Answer, WebhookError>
    where
        C: Command<Error = WebhookError>,
    {
        let workspace = self.clone();
        detached(async move {
            let answer = match entry {
                Some(entry) => workspace.perform_audited(command, entry).await?,
                None => workspace.perform(command).await?,
            };
            let slot = &workspace.slot;
            let followed = workspace.shared.webhooks.follow(&slot.id, &slot.subscribers);
            followed.map_err(unreadable)?;
            Ok(answer)
        })
        .await
    }

    /// Returns the health of an endpoint. The remembered tries of the last 24 hours count.
    ///
    /// # Errors
    /// [`WebhookError`]: there is no such webhook, or the workspace is unavailable.
    pub async fn webhook_health(&self, id: WebhookId) -> Result<EndpointHealth, WebhookError> {
        let tries = self.webhook_deliveries(id).await?;
        Ok(self.shared.webhooks.health(id, &tries))
    }

    /// Returns a try of an endpoint with its request and its answer, as far as they are known.
    ///
    /// `None` if it is not kept, or no longer.
    ///
    /// # Errors
    /// [`WebhookError`]: there is no such endpoint, or the workspace is unavailable.
    pub async fn webhook_delivery(
        &self,
        id: WebhookId,
        attempt: AttemptId,
    ) -> Result<Option<ShownAttempt>, WebhookError> {
        self.webhook(id).await?;
        let (kept, now) = (self.shared.webhooks.options.deliveries, self.shared.clock.now());
        let read = self.scan(move |store, of| {
            let Some(kept) = records::delivery(store, of, (id, attempt), kept, now)? else {
                return Ok(None);
            };
            let ids = match kept.batch_event_ids.as_slice() {
                [] => kept.event_id.as_slice(),
                batch => batch,
            };
            let found: Result<Vec<_>, _> =
                ids.iter().map(|event| events::one(store, of, *event)).collect();
            // Without one of them it is not the body that was posted.
            let all: Option<Vec<_>> = found?.into_iter().collect();
            Ok(Some((kept, all.unwrap_or_default())))
        });
        let found = read.await?;
        Ok(found.map(|(kept, events)| self.shared.webhooks.shown(id, kept, &events)))
    }
}

impl Context<'_> {
    fn endpoints(&self) -> Result<Vec<Endpoint>, Unavailable> {
        let key = records::endpoints_key(&self.core.id);
        Ok(self.get_json(Table::Webhooks, &key)?.unwrap_or_default())
    }

    fn put_endpoints(&mut self, endpoints: &[Endpoint]) {
        let key = records::endpoints_key(&self.core.id);
        self.put_json(Table::Webhooks, key, &endpoints);
    }

    /// Changes one endpoint.
    fn with_endpoint<T>(
        &mut self,
        id: WebhookId,
        change: impl FnOnce(&mut Endpoint, Timestamp) -> T,
    ) -> Result<T, WebhookError> {
        let now = self.now();
        let mut endpoints = self.endpoints()?;
        let endpoint = endpoints.iter_mut().find(|it| it.id == id).ok_or(WebhookError::NotFound)?;
        let changed = change(endpoint, now);
        endpoint.updated_at = now;
        self.put_endpoints(&endpoints);
        Ok(changed)
    }
}

struct CreateWebhook {
    id: WebhookId,
    settings: WebhookSettings,
    secret: Sealed,
}

impl Command for CreateWebhook {
    type Answer = WebhookInfo;
    type Error = WebhookError;

    const FOOTPRINT: Footprint = Footprint::Grows;

    fn carry_out(self, context: &mut Context<'_>) -> Result<WebhookInfo, WebhookError> {
        let now = context.now();
        let mut endpoints = context.endpoints()?;
        if endpoints.len() >= WEBHOOKS_MAX {
            return Err(WebhookError::TooMany);
        }
        let endpoint = Endpoint {
            id: self.id,
            settings: self.settings,
            disabled_reason: None,
            created_at: now,
            updated_at: now,
            enabled_at: now,
            secret: self.secret,
            previous_secrets: Vec::new(),
        };
        let info = endpoint.info();
        endpoints.push(endpoint);
        context.put_endpoints(&endpoints);
        let cursor = Cursor { after: context.log_next - 1, ..Cursor::default() };
        let key = records::cursor_key(&context.core.id, self.id);
        context.put(Table::Webhooks, key, cursor.encode());
        Ok(info)
    }
}

struct UpdateWebhook {
    id: WebhookId,
    change: WebhookChange,
}

impl Command for UpdateWebhook {
    type Answer = WebhookInfo;
    type Error = WebhookError;

    fn carry_out(self, context: &mut Context<'_>) -> Result<WebhookInfo, WebhookError> {
        let change = self.change;
        let mut before = None;
        let info = context.with_endpoint(self.id, |endpoint, now| {
            before = Some(endpoint.settings.clone());
            let settings = &mut endpoint.settings;
            match change.enabled {
                Some(true) if !settings.enabled => {
                    endpoint.enabled_at = now;
                    endpoint.disabled_reason = None;
                }
                Some(false) if settings.enabled && change.by_administrator => {
                    endpoint.disabled_reason = Some(DisabledReason::Administrator);
                }
                _ => {}
            }
            if change.url.as_ref().is_some_and(|url| *url != settings.url) {
                // Failures of the previous address do not count for this one.
                endpoint.enabled_at = now;
            }
            set(&mut settings.url, change.url);
            set(&mut settings.events, change.events);
            set(&mut settings.description, change.description);
            set(&mut settings.enabled, change.enabled);
            set(&mut settings.rate_limit_per_second, change.rate_limit_per_second);
            set(&mut settings.ordered, change.ordered);
            set(&mut settings.batch, change.batch);
            WebhookInfo { updated_at: now, ..endpoint.info() }
        })?;
        if let Some(before) = before {
            note_replaced(context.effects, &before);
        }
        Ok(info)
    }
}

fn set<T>(field: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *field = value;
    }
}

struct DeleteWebhook {
    id: WebhookId,
}

impl Command for DeleteWebhook {
    type Answer = ();
    type Error = WebhookError;

    const FOOTPRINT: Footprint = Footprint::Ends;

    fn carry_out(self, context: &mut Context<'_>) -> Result<(), WebhookError> {
        let mut endpoints = context.endpoints()?;
        let before = endpoints.len();
        endpoints.retain(|endpoint| endpoint.id != self.id);
        if endpoints.len() == before {
            return Err(WebhookError::NotFound);
        }
        context.put_endpoints(&endpoints);
        // The other records of its deliveries are deleted when its actor has ended.
        let cursor = records::cursor_key(&context.core.id, self.id);
        context.delete(Table::Webhooks, cursor);
        Ok(())
    }
}

struct RotateSecret {
    id: WebhookId,
    secret: Sealed,
}

impl Command for RotateSecret {
    type Answer = WebhookInfo;
    type Error = WebhookError;

    fn carry_out(self, context: &mut Context<'_>) -> Result<WebhookInfo, WebhookError> {
        context.with_endpoint(self.id, |endpoint, now| {
            endpoint.rotate(self.secret, now);
            WebhookInfo { updated_at: now, ..endpoint.info() }
        })
    }
}

struct TestWebhook {
    id: WebhookId,
}

impl Command for TestWebhook {
    type Answer = EventId;
    type Error = WebhookError;

    const FOOTPRINT: Footprint = Footprint::Grows;
    const SENDS: bool = true;

    fn carry_out(self, context: &mut Context<'_>) -> Result<EventId, WebhookError> {
        let endpoints = context.endpoints()?;
        let endpoint =
            endpoints.iter().find(|it| it.id == self.id).ok_or(WebhookError::NotFound)?;
        if !endpoint.settings.enabled {
            return Err(WebhookError::Disabled);
        }
        let event = EventData::WebhookTest(WebhookData { webhook_id: self.id });
        let entry = LogEntry { at: context.now(), event: event.into() };
        let id = entry.id(&context.core.id, context.log_next);
        context.effects.emit(entry.at, entry.event);
        Ok(id)
    }
}

/// Returns the audit log's entry about a new endpoint.
///
/// An address appears only by its origin, because a path or query may hold a token. Of a
/// description the entry only has that it was set. So it is in the other entries.
fn created_entry(id: WebhookId, settings: &WebhookSettings) -> AuditEntry {
    AuditEntry::new("webhook.create")
        .target(id)
        .change("url_origin", origin(&settings.url))
        .change("events", &settings.events)
        .change_concealed("description", settings.description.is_some())
        .change("enabled", settings.enabled)
        .change("rate_limit_per_second", settings.rate_limit_per_second)
        .change("ordered", settings.ordered)
        .change("batch", settings.batch)
}

fn updated_entry(id: WebhookId, change: &WebhookChange) -> AuditEntry {
    AuditEntry::new("webhook.update")
        .target(id)
        .change_if_some("url_origin", change.url.as_deref().map(origin))
        .change_if_some("events", change.events.as_ref())
        .change_concealed("description", change.description.is_some())
        .change_if_some("enabled", change.enabled)
        .change_if_some("rate_limit_per_second", change.rate_limit_per_second)
        .change_if_some("ordered", change.ordered)
        .change_if_some("batch", change.batch)
}

/// Records the settings of an endpoint before a change of it.
fn note_replaced(effects: &mut Effects, before: &WebhookSettings) {
    effects.replaces("url_origin", origin(&before.url));
    effects.replaces("events", &before.events);
    effects.replaces("enabled", before.enabled);
    effects.replaces("rate_limit_per_second", before.rate_limit_per_second);
    effects.replaces("ordered", before.ordered);
    effects.replaces("batch", before.batch);
}

fn deleted_entry(id: WebhookId) -> AuditEntry {
    AuditEntry::new("webhook.delete").target(id)
}

fn rotated_entry(id: WebhookId) -> AuditEntry {
    AuditEntry::new("webhook.rotate_secret").target(id).change_concealed("secret", true)
}
