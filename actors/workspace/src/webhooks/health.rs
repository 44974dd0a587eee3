//! The health of an endpoint, and one of its tries in full.

use postrider_domain::WebhookId;
use postrider_webhook::health::EndpointHealth;
use postrider_webhook::records::{self, AttemptId};
use postrider_webhook::shown::ShownAttempt;

use crate::events;
use crate::handle::Workspace;
use crate::webhooks::WebhookError;

impl Workspace {
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
