//! Accepts webhooks and counts them.
//!
//!     sink LISTEN
//!
//! `GET /` returns the count, and the nanoseconds from the first to the last.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::routing::get;

#[derive(Default)]
struct Seen {
    count: u64,
    first: Option<Instant>,
    last: Option<Instant>,
}

type Shared = Arc<Mutex<Seen>>;

async fn take(State(seen): State<Shared>, _: Bytes) {
    let mut seen = seen.lock().unwrap();
    let now = Instant::now();
    seen.count += 1;
    seen.first.get_or_insert(now);
    seen.last = Some(now);
}

async fn show(State(seen): State<Shared>) -> String {
    let seen = seen.lock().unwrap();
    let took = seen.first.zip(seen.last).map_or(0, |(first, last)| (last - first).as_nanos());
    format!("{} {took}", seen.count)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listen = std::env::args().nth(1).unwrap();
    let router = Router::new().route("/", get(show).post(take)).with_state(Shared::default());
    axum::serve(tokio::net::TcpListener::bind(listen).await?, router).await?;
    Ok(())
}
