//! Disabling an endpoint that keeps failing.

use std::sync::Weak;

use postrider_domain::event::webhook::WebhookDisabledData;
use postrider_domain::{
    EventData, Timestamp, Unavailable, UnavailableReason, WebhookId, WorkspaceId,
};
use postrider_runtime::task::BoxFuture;
use postrider_webhook::retry_schedule::DisabledReason;
use postrider_webhook::{DisableError, EndpointControl};

use crate::Workspace;
use crate::core::command::{Command, Context, Footprint};
use crate::services::Services;
use crate::webhooks::WebhookError;

/// Has endpoints that keep failing disabled by their workspaces.
///
/// It is weak: the services own the webhooks.
pub struct DisableInWorkspace(pub Weak<Services>);

impl EndpointControl for DisableInWorkspace {
    fn disable<'a>(
        &'a self,
        workspace: &'a WorkspaceId,
        id: WebhookId,
        reason: DisabledReason,
        enabled_at: Timestamp,
    ) -> BoxFuture<'a, Result<(), DisableError>> {
        Box::pin(async move {
            let draining = || Unavailable::because(UnavailableReason::Draining);
            let shared = self.0.upgrade().ok_or_else(draining)?;
            let slot = shared.workspaces.slot(workspace).ok_or(DisableError::NotFound)?;
            let workspace = Workspace::new(shared, slot);
            let disabled =
                workspace.change_webhooks(DisableWebhook { id, reason, enabled_at }, None);
            disabled.await.map_err(|error| match error {
                WebhookError::Unavailable(why) => DisableError::Unavailable(why),
                _ => DisableError::NotFound,
            })
        })
    }
}

struct DisableWebhook {
    id: WebhookId,
    reason: DisabledReason,
    enabled_at: Timestamp,
}

impl Command for DisableWebhook {
    type Answer = ();
    type Error = WebhookError;

    const FOOTPRINT: Footprint = Footprint::Ends;

    fn carry_out(self, context: &mut Context<'_>) -> Result<(), WebhookError> {
        let Self { id, reason, enabled_at } = self;
        let endpoints = context.endpoints()?;
        let current = endpoints.iter().find(|it| it.id == id).ok_or(WebhookError::NotFound)?;
        if !current.settings.enabled || current.enabled_at != enabled_at {
            return Ok(());
        }
        context.with_endpoint(id, |endpoint, _| {
            endpoint.settings.enabled = false;
            endpoint.disabled_reason = Some(reason);
        })?;
        let data = WebhookDisabledData { webhook_id: id, reason: reason.as_str() };
        context.effects.emit(context.core.now(), EventData::WebhookDisabled(data));
        Ok(())
    }
}
