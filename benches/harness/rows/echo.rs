//! The echo server is the reference of the HTTP rows.
//!
//! Its axum handler reads a small JSON body and answers another, and nothing else happens.

use std::net::SocketAddr;

use axum::Json;
use axum::Router;
use axum::routing::post;
use axum::serve::ListenerExt;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

use crate::Result;

#[derive(Deserialize)]
struct Send {
    phone: String,
}

/// As long as the answer to a send.
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

/// As long as the answer to a verify.
#[derive(Serialize)]
struct Verified {
    verified: bool,
    message: &'static str,
}

async fn send(Json(body): Json<Send>) -> Json<Sent> {
    Json(Sent { phone: body.phone, expires_at: "2026-01-31T09:30:00.000Z", padding: "0123456789" })
}

async fn verify(Json(body): Json<Verify>) -> Json<Verified> {
    let verified = body.request_id.len() > body.otp.len();
    Json(Verified { verified, message: "the code is right" })
}

/// Serves until the runtime ends.
pub(crate) async fn start() -> Result<SocketAddr> {
    let router =
        Router::new().route("/v1/otp/send", post(send)).route("/v1/otp/verify", post(verify));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    // As the server does it.
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(address)
}
