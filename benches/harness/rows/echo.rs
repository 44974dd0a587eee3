//! The echo servers are the references of the HTTP rows.
//!
//! An axum handler reads a small JSON body and answers another. The bare echo does nothing else.
//! The durable one answers when a record is synced, one for each request. That is the minimum for
//! any server with the engine's promise.

use std::net::SocketAddr;

use axum::Json;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::serve::ListenerExt;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

use super::durable::Durable;
use crate::Result;

#[derive(Deserialize)]
struct Send {
    phone: String,
}

/// An answer as long as that to a send.
#[derive(Serialize)]
struct Sent {
    phone: String,
    expires_at: &'static str,
    padding: &'static str,
}

#[derive(Deserialize)]
struct Verify {
    request_id: String,
    otp: String,
}

/// An answer as long as that to a verify.
#[derive(Serialize)]
struct Verified {
    verified: bool,
    message: &'static str,
}

#[derive(Deserialize)]
struct Message {
    to: String,
    r#type: String,
    template: Template,
}

#[derive(Deserialize)]
struct Template {
    name: String,
    language: String,
}

/// An answer as long as that to a message.
#[derive(Serialize)]
struct Queued {
    message_id: String,
    status: &'static str,
    padding: &'static str,
}

/// The durability that an answer waits for.
type Wait = State<Option<Durable>>;

async fn wait(durable: Option<Durable>) -> std::result::Result<(), StatusCode> {
    match durable {
        Some(durable) => durable.write().await.map_err(|_| StatusCode::SERVICE_UNAVAILABLE),
        None => Ok(()),
    }
}

async fn send(
    State(durable): Wait,
    Json(body): Json<Send>,
) -> std::result::Result<Json<Sent>, StatusCode> {
    wait(durable).await?;
    let (expires_at, padding) = ("2026-01-31T09:30:00.000Z", "0123456789");
    Ok(Json(Sent { phone: body.phone, expires_at, padding }))
}

async fn verify(
    State(durable): Wait,
    Json(body): Json<Verify>,
) -> std::result::Result<Json<Verified>, StatusCode> {
    wait(durable).await?;
    let verified = body.request_id.len() > body.otp.len();
    Ok(Json(Verified { verified, message: "the code is right" }))
}

async fn message(
    State(durable): Wait,
    Json(body): Json<Message>,
) -> std::result::Result<Json<Queued>, StatusCode> {
    wait(durable).await?;
    let Template { name, language } = body.template;
    let status = if name.len() > language.len() + body.r#type.len() { "sent" } else { "queued" };
    Ok(Json(Queued { message_id: body.to, status, padding: "012" }))
}

/// Serves until the runtime ends. With `durable`, each answer waits for it.
pub(crate) async fn start(durable: Option<Durable>) -> Result<SocketAddr> {
    let router = Router::new()
        .route("/v1/otp/send", post(send))
        .route("/v1/otp/verify", post(verify))
        .route("/v1/messaging/send", post(message))
        .with_state(durable);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    // The server sets this option too.
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(address)
}
