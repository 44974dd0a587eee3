//! Streams the event log as server-sent events that a client can resume.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use bytes::Bytes;
use http_body_util::channel::{Channel, Sender};
use postrider_actors::domain::EventId;
use postrider_actors::{Caller, Unavailable, UnavailableReason, Workspace};
use tokio::sync::watch;

use super::{EventRow, after_cursor, ahead_of_the_log};
use crate::http::edge::Edge;
use crate::http::pipeline::{Answer, ApiError, Call, Key, Reply, Routes, route};

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Longest silence of a stream; then it sends a comment to keep the connection alive.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Events that are read at a time.
const PAGE_EVENTS: usize = 100;
/// Pages that are buffered while the client does not read.
const BUFFERED_PAGES_MAX: usize = 4;

pub(crate) fn routes() -> Routes {
    Routes::default().routes(route!(stream).guarded(Key::MANAGE_WEBHOOKS))
}

#[utoipa::path(
    get,
    path = "/v1/events/stream",
    operation_id = "streamEvents",
    tag = "Events",
    summary = "Follow the event log",
    description = "Server-sent events: each has the event's id as `id`, its type as `event` and \
                   the object that the log shows as `data`. Left alone it begins with the next \
                   event; with `Last-Event-ID` (an event's id or its sequence) or `cursor` it goes \
                   on after that one. Left alone it begins with an `id` without `data`, so that \
                   a client that has seen no event yet knows its place. A comment comes at least \
                   every 15 seconds. It ends when the server stops, and when the key is revoked \
                   or expires; connect again with the last id.",
    params(
        ("Last-Event-ID" = Option<String>, Header, description = "The last event that was seen"),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the list of events"),
    ),
    responses((status = 200, description = "Events as they come", body = String,
        content_type = "text/event-stream"))
)]
async fn stream(call: Call<Arc<Caller>>) -> Answer {
    let workspace = &call.caller.workspace;
    // A client that has seen no event yet sends an empty id.
    let last = call.header(&LAST_EVENT_ID).filter(|id| !id.is_empty());
    let from = match last {
        Some(id) => Some(("Last-Event-ID", sequence(workspace, id).await?)),
        None => after_cursor(&call.query()?)?.map(|after| ("cursor", after)),
    };
    let growth = workspace.follow_events()?;
    let newest = workspace.last_event().await?;
    let after = match from {
        Some((field, after)) if after > newest => return Err(ahead_of_the_log(field)),
        Some((_, after)) => after,
        None => newest,
    };
    // Who named a place keeps that name for it, such as an event's id.
    let place = if from.is_none() { format!("id: {after}\n") } else { String::new() };
    let (sender, body) = Channel::<Bytes, Infallible>::new(BUFFERED_PAGES_MAX);
    let stream = EventStream {
        edge: Arc::clone(&call.edge),
        caller: Arc::clone(&call.caller),
        opening: format!(": here\n{place}\n"),
        after,
        growth,
        sender,
    };
    drop(tokio::spawn(stream.run()));
    let mut reply = Reply::stream(StatusCode::OK, "text/event-stream", Body::new(body));
    reply.header(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(reply)
}

async fn sequence(workspace: &Workspace, id: &str) -> Result<u64, ApiError> {
    let sequence = match id.parse::<EventId>() {
        Ok(id) => workspace.event_sequence(id).await?,
        Err(_) => id.parse().ok(),
    };
    let rule = "must be the id or the sequence of an event of this workspace";
    sequence.ok_or_else(|| ApiError::field("Last-Event-ID", rule))
}

/// Returns when the key expires.
async fn expiry(edge: &Edge, caller: &Caller) {
    match caller.expires_at() {
        Some(at) => edge.engine.clock().sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// A stream with a connected client.
struct EventStream {
    edge: Arc<Edge>,
    caller: Arc<Caller>,
    /// What is sent at once.
    opening: String,
    after: u64,
    growth: watch::Receiver<()>,
    sender: Sender<Bytes, Infallible>,
}

impl EventStream {
    /// Sends events until the client disconnects, the server shuts down, or the key is revoked or
    /// expires.
    async fn run(mut self) {
        let edge = Arc::clone(&self.edge);
        let sending = async {
            let mut text = std::mem::take(&mut self.opening);
            let access = edge.engine.access();
            while self.sender.send_data(Bytes::from(text)).await.is_ok()
                && access.still_works(&self.caller)
            {
                match self.next().await {
                    Ok(next) => text = next,
                    // What has begun waits for its turn, and shows meanwhile that it is there.
                    Err(Unavailable { reason: UnavailableReason::Overloaded, retry_after }) => {
                        tokio::time::sleep(retry_after).await;
                        text = ": still here\n\n".to_owned();
                    }
                    Err(error) => {
                        tracing::warn!(%error, "a stream of events ends");
                        return;
                    }
                }
            }
        };
        tokio::select! {
            () = sending => {}
            () = edge.options.drain.begun() => {}
        }
    }

    /// The next page, or a heartbeat. Waits until the key expires at the longest.
    async fn next(&mut self) -> Result<String, Unavailable> {
        // Marks the current length as seen, so that growth during the read wakes the next wait.
        self.growth.borrow_and_update();
        let page = self.caller.workspace.events(self.after, PAGE_EVENTS, None).await?;
        self.after = page.next_after;
        if page.entries.is_empty() {
            // The sender lives as long as the workspace, so its end need not be told from growth.
            return tokio::select! {
                _ = self.growth.changed() => Ok(String::new()),
                () = expiry(&self.edge, &self.caller) => Ok(String::new()),
                () = tokio::time::sleep(HEARTBEAT) => Ok(": still here\n\n".to_owned()),
            };
        }
        Ok(page.entries.into_iter().map(|entry| EventRow::from(entry).as_message()).collect())
    }
}
