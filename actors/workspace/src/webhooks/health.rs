//! How an endpoint does.

use postrider_domain::WebhookId;
use postrider_webhook::health::EndpointHealth;

use crate::handle::Workspace;
use crate::webhooks::WebhookError;

impl Workspace {
    /// How an endpoint does. The tries of the last 24 hours count, of those that are remembered.
    ///
    /// # Errors
    /// [`WebhookError`]: there is none, or not now.
    pub async fn webhook_health(&self, id: WebhookId) -> Result<EndpointHealth, WebhookError> {
        let tries = self.webhook_deliveries(id).await?;
        Ok(self.shared.webhooks.health(id, &tries))
    }
}
