//! The shared state of the courier of codes by SMS and mail: the sandbox and the gateways' client.

use std::sync::{Arc, OnceLock};

use postrider_channel::sandbox::Sandbox;
use postrider_webhook::{GatewayClient, WebhookOptions};

use crate::otp_figures::OtpFigures;

/// Carries out the steps of chains.
pub struct Courier {
    pub(crate) sandbox: Arc<Sandbox>,
    /// The figures of steps since the start.
    pub figures: OtpFigures,
    /// `None` inside if no client could be created.
    client: OnceLock<Option<Arc<GatewayClient>>>,
}

impl Courier {
    /// Returns a courier that delivers messages for a sandbox there.
    #[must_use]
    pub fn new(sandbox: Arc<Sandbox>) -> Self {
        Self { sandbox, figures: OtpFigures::default(), client: OnceLock::new() }
    }

    /// Returns the client of gateways, created when it is first needed.
    pub(crate) fn client(&self, options: &WebhookOptions) -> Option<Arc<GatewayClient>> {
        let make = || {
            let made = GatewayClient::new(options.addresses.clone(), options.timeout);
            made.inspect_err(|error| tracing::error!(%error, "no SMS gateway can be called"))
                .ok()
                .map(Arc::new)
        };
        self.client.get_or_init(make).clone()
    }
}
