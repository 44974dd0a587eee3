//! A typical alternative: webhooks by a loop of an HTTP client over a list in Redis.
//!
//!     hooks REDIS_URL SINK_URL
//!
//! Each of 64 tasks moves an event to its own list, and posts it with a signature of Standard
//! Webhooks. It retries after a failure with pauses that double, and then removes the event from
//! its list. The events are durable until then (`appendfsync always`).

use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use redis::AsyncCommands;
use sha2::Sha256;

const TASKS: usize = 64;
const TRIES: u32 = 8;
const SECRET: &[u8] = b"of this comparison";

async fn post(http: &reqwest::Client, sink: &str, event: &str) {
    let id = event.split('"').nth(3).unwrap_or_default();
    for attempt in 0..TRIES {
        let at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        let mut mac = Hmac::<Sha256>::new_from_slice(SECRET).unwrap();
        mac.update(format!("{id}.{at}.{event}").as_bytes());
        let signature = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
        let posted = http
            .post(sink)
            .header("content-type", "application/json")
            .header("webhook-id", id)
            .header("webhook-timestamp", at.to_string())
            .header("webhook-signature", signature)
            .body(event.to_owned())
            .timeout(Duration::from_secs(10))
            .send()
            .await;
        if posted.is_ok_and(|answer| answer.status().is_success()) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100 << attempt)).await;
    }
}

async fn deliver(client: redis::Client, http: reqwest::Client, sink: String, task: usize) {
    let own = format!("hooks:{task}");
    let mut redis = client.get_connection_manager().await.unwrap();
    loop {
        let event: Option<String> = redis::cmd("LMOVE")
            .arg(&["hooks", &own, "LEFT", "RIGHT"])
            .query_async(&mut redis)
            .await
            .unwrap();
        let Some(event) = event else {
            tokio::time::sleep(Duration::from_millis(5)).await;
            continue;
        };
        post(&http, &sink, &event).await;
        let _: i64 = redis.lrem(&own, 1, &event).await.unwrap();
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [url, sink] = std::env::args().skip(1).collect::<Vec<_>>().try_into().unwrap();
    let (client, http) = (redis::Client::open(url)?, reqwest::Client::builder().build()?);
    let tasks = (0..TASKS)
        .map(|task| tokio::spawn(deliver(client.clone(), http.clone(), sink.clone(), task)));
    for task in tasks.collect::<Vec<_>>() {
        task.await?;
    }
    Ok(())
}
