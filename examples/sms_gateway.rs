//! A fake SMS gateway lets you try codes that go over several channels.
//!
//! `cargo run --example sms_gateway`. It checks what signs each request, prints the text, and
//! answers as it is told to.

#![allow(clippy::print_stdout, reason = "it talks to a person")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use axum::routing::post;
use clap::{Parser, ValueEnum};
use serde_json::{Value, json};
use standardwebhooks::Webhook;

/// Listens on 127.0.0.1, and prints every SMS.
#[derive(Parser)]
struct Arguments {
    /// The port to listen on.
    #[arg(long, default_value_t = 9095)]
    port: u16,
    /// The secret that `PUT …/sms` answered; without it no signature is checked.
    #[arg(long)]
    secret: Option<String>,
    /// How each SMS is answered.
    #[arg(long, value_enum, default_value = "delivered")]
    answer: Answer,
}

#[derive(Clone, Copy, ValueEnum)]
enum Answer {
    /// It was taken, and has arrived.
    Delivered,
    /// It was taken.
    Sent,
    /// It is refused, with the error code 30007.
    Refused,
    /// It cannot be taken now.
    Unavailable,
}

struct Gateway {
    verifier: Option<Webhook>,
    answer: Answer,
    /// How often each SMS came.
    calls: Mutex<BTreeMap<String, u32>>,
}

const HELP: &str = r#"An SMS gateway listens on {url}; Ctrl-C ends it. Have the workspace `demo` use it:

     curl -X PUT http://127.0.0.1:8080/admin/v1/workspaces/demo/sms \
       -H "Authorization: Bearer $(cat data/admin.token)" -H 'Content-Type: application/json' \
       -d '{"kind": "http", "url": "{url}", "sender": "Demo"}'

and send a code over it:

     curl -X POST http://127.0.0.1:8080/v1/otp/send \
       -H "Authorization: Bearer $(cat data/demo.key)" -H 'Content-Type: application/json' \
       -d '{"phone": "+15550123456", "channels": ["sms", "messaging"]}'
"#;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Arguments { port, secret, answer } = Arguments::parse();
    let verifier = secret.as_deref().map(Webhook::new).transpose()?;
    let gateway = Arc::new(Gateway { verifier, answer, calls: Mutex::default() });
    let app = Router::new().route("/sms", post(take)).with_state(gateway);
    let listener = tokio::net::TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], port))).await?;
    let url = format!("http://{}/sms", listener.local_addr()?);
    println!("{}", HELP.replace("{url}", &url));
    axum::serve(listener, app).await?;
    Ok(())
}

async fn take(
    State(gateway): State<Arc<Gateway>>,
    headers: HeaderMap,
    body: Bytes,
) -> impl IntoResponse {
    let is_signed =
        gateway.verifier.as_ref().is_none_or(|verifier| verifier.verify(&body, &headers).is_ok());
    let sms: Value = serde_json::from_slice(&body).unwrap_or_default();
    let id = sms["id"].as_str().unwrap_or_default().to_owned();
    if !is_signed {
        println!("{id}: wrongly signed");
        return (StatusCode::UNAUTHORIZED, json!({"code": 401}).to_string());
    }
    let times = gateway.calls.lock().map_or(0, |mut calls| {
        let times = calls.entry(id.clone()).or_default();
        *times += 1;
        *times
    });
    println!("{id} to {}, time {times}: {}", sms["to"], sms["text"]);
    match gateway.answer {
        Answer::Delivered => (StatusCode::OK, json!({"status": "delivered"}).to_string()),
        Answer::Sent => (StatusCode::OK, json!({"status": "sent"}).to_string()),
        Answer::Refused => (StatusCode::BAD_REQUEST, json!({"code": 30007}).to_string()),
        Answer::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, String::new()),
    }
}
