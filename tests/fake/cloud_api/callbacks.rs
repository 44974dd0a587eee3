//! Reports on messages, signed as the channel does.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{Accepted, FakeCloudApi, Shared};

/// The settings for reports on messages.
#[derive(Debug, Clone)]
pub struct Callbacks {
    /// The address of the server.
    pub server: SocketAddr,
    /// The number's callback path.
    pub path: String,
    /// The secret for the signatures.
    pub app_secret: String,
    /// The statuses to report, in this order, one callback for each. A status is `sent`,
    /// `delivered`, `read`, `failed`, or `failed` with a code behind it, such as `failed 131049`.
    pub statuses: Vec<String>,
    /// The time from the message to the first report, and from each report to the next.
    pub delay: Duration,
    /// The number of times that each report is posted.
    pub times: u32,
}

/// Returns the value of `X-Hub-Signature-256`.
pub fn sign(app_secret: &str, body: &[u8]) -> String {
    let mac = Hmac::<Sha256>::new_from_slice(app_secret.as_bytes()).unwrap().chain_update(body);
    let hex: Vec<_> =
        mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256={}", hex.concat())
}

/// Returns a callback about one number.
pub fn callback(phone_number_id: &str, mut value: Value) -> Value {
    value["messaging_product"] = "whatsapp".into();
    value["metadata"] =
        json!({"display_phone_number": "15550001111", "phone_number_id": phone_number_id});
    json!({"object": "whatsapp_business_account", "entry": [{
        "id": "account", "changes": [{"field": "messages", "value": value}],
    }]})
}

pub(super) fn report(shared: &Arc<Shared>, accepted: &Accepted, phone_number_id: &str) {
    let Some(callbacks) = shared.state.lock().unwrap().callbacks.clone() else { return };
    let by_id = accepted.body["recipient"].as_str();
    let recipient = by_id.is_none().then(|| shared.known_as(&accepted.to));
    let user_id = by_id.map(ToOwned::to_owned).or_else(|| shared.user_id(&accepted.to));
    let category = shared.category(&accepted.body).unwrap_or_else(|| "service".to_owned());
    let bodies = callbacks.statuses.iter().map(|status| {
        let (status, code) = status.split_once(' ').unwrap_or((status, "131026"));
        let mut report = json!({
            "id": accepted.id, "status": status, "timestamp": "1750857384",
            "recipient_id": recipient, "recipient_user_id": user_id, "biz_opaque_callback_data": accepted.opaque,
        });
        if status != "failed" {
            let kind = if category == "service" { "free_customer_service" } else { "regular" };
            report["pricing"] = json!({
                "billable": category != "service", "pricing_model": "PMP", "type": kind,
                "category": category,
            });
        }
        if status == "failed" {
            let code: u32 = code.parse().unwrap();
            report["errors"] = json!([{"code": code, "title": "Message undeliverable"}]);
        }
        callback(phone_number_id, json!({"statuses": [report]})).to_string()
    });
    let bodies = bodies.collect::<Vec<_>>();
    let shared = Arc::clone(shared);
    drop(tokio::spawn(async move {
        for body in bodies {
            tokio::time::sleep(callbacks.delay).await;
            for _ in 0..callbacks.times {
                let status = post(&callbacks, &body).await.unwrap_or(0);
                shared.state.lock().unwrap().callback_answers.push(status);
            }
        }
    }));
}

/// Posts a callback on a connection of its own; returns the status of the answer.
async fn post(callbacks: &Callbacks, body: &str) -> Option<u16> {
    let Callbacks { server, path, app_secret, .. } = callbacks;
    let signature = sign(app_secret, body.as_bytes());
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: {server}\r\nContent-Type: application/json\r\n\
         X-Hub-Signature-256: {signature}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(server).await.ok()?;
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.ok()?;
    std::str::from_utf8(&answer).ok()?.split(' ').nth(1)?.parse().ok()
}

impl FakeCloudApi {
    /// Signs and posts a callback that the caller has made; returns the status of the answer.
    pub async fn post(&self, callbacks: &Callbacks, body: &Value) -> Option<u16> {
        let (callbacks, body) = (callbacks.clone(), body.to_string());
        self.runtime.spawn(async move { post(&callbacks, &body).await }).await.unwrap()
    }
}
