//! Receipts of SMS, signed as the gateway's requests are.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use postrider_actors::Clock;
use serde_json::json;
use standardwebhooks::Webhook;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{Shared, Sms};

/// The settings for receipts of SMS.
#[derive(Debug, Clone)]
pub struct Receipts {
    /// The address of the server.
    pub server: SocketAddr,
    /// The workspace's callback path.
    pub path: String,
    /// The secret for the signatures.
    pub secret: String,
    /// The error code of a `failed` receipt; without one the receipt is `delivered`.
    pub failed: Option<u32>,
    /// The time from the SMS to each receipt.
    pub delay: Duration,
    /// The number of times that each receipt is posted.
    pub times: u32,
}

pub(super) fn report(shared: &Arc<Shared>, sms: &Sms) {
    let Some(receipts) = shared.state.lock().unwrap().receipts.clone() else { return };
    let status = if receipts.failed.is_some() { "failed" } else { "delivered" };
    let body = json!({"id": sms.id, "status": status, "error_code": receipts.failed}).to_string();
    let shared = Arc::clone(shared);
    drop(tokio::spawn(async move {
        tokio::time::sleep(receipts.delay).await;
        for _ in 0..receipts.times {
            let status = post(&receipts, &body).await.unwrap_or(0);
            shared.state.lock().unwrap().receipt_answers.push(status);
        }
    }));
}

/// Posts a receipt on a connection of its own; returns the status of the answer.
async fn post(receipts: &Receipts, body: &str) -> Option<u16> {
    let Receipts { server, path, secret, .. } = receipts;
    let at = Clock::system().real().as_secs();
    let signer = Webhook::new(secret).ok()?;
    let signature = signer.sign("receipt", i64::try_from(at).ok()?, body.as_bytes()).ok()?;
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: {server}\r\nContent-Type: application/json\r\n\
         webhook-id: receipt\r\nwebhook-timestamp: {at}\r\nwebhook-signature: {signature}\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(server).await.ok()?;
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.ok()?;
    std::str::from_utf8(&answer).ok()?.split(' ').nth(1)?.parse().ok()
}
