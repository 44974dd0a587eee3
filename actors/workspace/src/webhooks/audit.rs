//! The audit log's entries about changes of webhooks.
//!
//! An address appears only by its origin, because a path or query may hold a token. Of a
//! description the entry only has that it was set.

use postrider_domain::audit::origin;
use postrider_domain::{AuditEntry, WebhookId};
use postrider_webhook::endpoint::WebhookSettings;

use super::WebhookChange;
use crate::core::effects::Effects;

pub(super) fn created(id: WebhookId, settings: &WebhookSettings) -> AuditEntry {
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

pub(super) fn updated(id: WebhookId, change: &WebhookChange) -> AuditEntry {
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
pub(super) fn replaced(effects: &mut Effects, before: &WebhookSettings) {
    effects.replaces("url_origin", origin(&before.url));
    effects.replaces("events", &before.events);
    effects.replaces("enabled", before.enabled);
    effects.replaces("rate_limit_per_second", before.rate_limit_per_second);
    effects.replaces("ordered", before.ordered);
    effects.replaces("batch", before.batch);
}

pub(super) fn deleted(id: WebhookId) -> AuditEntry {
    AuditEntry::new("webhook.delete").target(id)
}

pub(super) fn rotated(id: WebhookId) -> AuditEntry {
    AuditEntry::new("webhook.rotate_secret").target(id).change_concealed("secret", true)
}
