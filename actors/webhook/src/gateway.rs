//! Posts signed requests to gateways that an operator has set, by the address rules of webhooks.

use http::header::{HeaderMap, HeaderName, HeaderValue};
use std::time::Duration;

use postrider_domain::{Timestamp, WorkspaceId};

use crate::client::{Answer, Client, Post};
use crate::lookups::on_behalf_of;
use crate::signature::WebhookSecret;
use crate::ssrf::AddressRules;

const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// The HTTP client of gateways. Unlike that of webhooks, it returns the answers of local services.
pub struct GatewayClient(Client);

impl GatewayClient {
    /// Creates a client that calls allowed addresses only, and gives up after the timeout.
    ///
    /// # Errors
    /// No encryption can be set up.
    pub fn new(rules: AddressRules, timeout: Duration) -> Result<Self, rustls::Error> {
        Ok(Self(Client::new(rules, timeout)?.reading_local()))
    }

    /// Posts a body under an id, signed by Standard Webhooks. It resolves within the timeout.
    pub async fn post(
        &self,
        (workspace, url): (&WorkspaceId, &str),
        id: &str,
        secret: &WebhookSecret,
        body: Vec<u8>,
        real_now: Timestamp,
    ) -> Answer {
        let signature = secret.sign(id, real_now.as_secs(), &body);
        let mut headers = HeaderMap::with_capacity(3);
        // Both are visible ASCII.
        for (name, text) in [(ID, id), (SIGNATURE, signature.as_str())] {
            headers.extend(HeaderValue::from_str(text).ok().map(|value| (name, value)));
        }
        headers.insert(TIMESTAMP, HeaderValue::from(real_now.as_secs()));
        on_behalf_of(workspace, self.0.post(url, headers, body, real_now)).await
    }
}
