//! A typical alternative: codes by axum over Redis, one script for each send.
//!
//!     send LISTEN REDIS_URL API_KEY
//!
//! Redis syncs its log before it answers (`appendfsync always`), so each answered send is durable.
//! A task takes the messages off their list, like a worker that delivers them.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use axum::{Json, Router};
use redis::aio::ConnectionManager;
use redis::{AsyncCommands, Script};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

const TTL_SECONDS: u32 = 300;

struct Sender {
    redis: ConnectionManager,
    script: Script,
    authorization: String,
}

#[derive(serde::Deserialize)]
struct Send {
    phone: String,
}

async fn send(
    State(sender): State<Arc<Sender>>,
    headers: HeaderMap,
    Json(Send { phone }): Json<Send>,
) -> (StatusCode, Json<Value>) {
    let key = headers.get("authorization").and_then(|value| value.to_str().ok());
    if key != Some(&sender.authorization) {
        return (StatusCode::UNAUTHORIZED, Json(json!({"code": "UNAUTHORIZED"})));
    }
    if !phone.starts_with('+') || phone.len() > 16 {
        return (StatusCode::BAD_REQUEST, Json(json!({"code": "VALIDATION_ERROR"})));
    }
    let id = format!("otp_{:032x}", rand::random::<u128>());
    let code = format!("{:06}", rand::random::<u32>() % 1_000_000);
    let hash: String =
        Sha256::digest(format!("{id}:{code}")).iter().map(|byte| format!("{byte:02x}")).collect();
    let message = json!({"to": phone, "text": format!("{code} is your verification code.")});
    let sent: redis::RedisResult<u8> = sender
        .script
        .key(format!("limit:{phone}"))
        .key(format!("code:{id}"))
        .key("messages")
        .arg(TTL_SECONDS)
        .arg(hash)
        .arg(message.to_string())
        .invoke_async(&mut sender.redis.clone())
        .await;
    match sent {
        Ok(1) => (StatusCode::OK, Json(json!({"request_id": id, "expires_in": TTL_SECONDS}))),
        Ok(_) => (StatusCode::TOO_MANY_REQUESTS, Json(json!({"code": "OTP_RATE_LIMITED"}))),
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, Json(json!({"code": "UNAVAILABLE"}))),
    }
}

/// Delivers to nowhere, a hundred at a time.
async fn deliver(mut redis: ConnectionManager) {
    loop {
        let taken: redis::RedisResult<Vec<String>> =
            redis.lpop("messages", std::num::NonZeroUsize::new(100)).await;
        if taken.is_ok_and(|taken| taken.is_empty()) {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [listen, url, key] = std::env::args().skip(1).collect::<Vec<_>>().try_into().unwrap();
    let client = redis::Client::open(url)?;
    let redis = client.get_connection_manager().await?;
    tokio::spawn(deliver(client.get_connection_manager().await?));
    let script = Script::new(include_str!("../../../send.lua"));
    let authorization = format!("Bearer {key}");
    let sender = Arc::new(Sender { redis, script, authorization });
    let router = Router::new().route("/v1/otp/send", post(send)).with_state(sender);
    axum::serve(tokio::net::TcpListener::bind(listen).await?, router).await?;
    Ok(())
}
