//! Pure: the payloads of the events of webhooks.

use serde::Serialize;

use crate::WebhookId;

/// A webhook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct WebhookData {
    /// The webhook.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub webhook_id: WebhookId,
}

/// A webhook that is sent nothing more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct WebhookDisabledData {
    /// The webhook.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub webhook_id: WebhookId,
    /// `gone`: its endpoint answered 410. `failing`: nothing arrived for days.
    pub reason: &'static str,
}
