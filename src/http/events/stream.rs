//! Streams the event log as server-sent events that a client can resume.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use bytes::Bytes;
use http_body_util::channel::{Channel, Sender};
use postrider_actors::domain::EventId;
use postrider_actors::{Permission, Unavailable, UnavailableReason, Workspace};
use tokio::sync::watch;

use super::ephemeral::{self, ProgressFeed, SignFeed};
use super::{EventRow, after_cursor, ahead_of_the_log, kinds};
use crate::http::edge::Edge;
use crate::http::pipeline::{Answer, ApiError, Call, Key, Principal, Query, Reply, Routes, route};
use crate::http::stream_shares::{StreamHolder, StreamPlace};

/// The query parameter that replaces the header `Last-Event-ID`.
const LAST_EVENT: &str = "last_event_id";
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// The maximum silence of a stream. Then it sends a ping to keep the connection alive.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// The number of events that are read at a time.
const PAGE_EVENTS: usize = 100;
/// The pause between two parts that a person sees: nobody looks faster. It bounds the cost of
/// pages.
const PAUSE: Duration = Duration::from_millis(50);
/// The number of consecutive full pages after which the lag of a person's stream is checked.
const FULL_PAGES_MAX: u32 = 4;
/// The maximum lag of a person's stream, in events. Beyond it the stream skips to the newest
/// events.
const BEHIND_MAX: u64 = 10_000;
/// The pause of a stream after it has skipped events.
const REST: Duration = Duration::from_secs(1);
/// The message that reports skipped events.
const SKIPPED: &str = "event: skipped\ndata: {}\n\n";
/// The wait before a client with too many streams may retry. A closed stream is noticed with its
/// next ping at the latest.
const BUSY: Duration = HEARTBEAT;
/// The maximum number of pages that are buffered while the client does not read.
const BUFFERED_PAGES_MAX: usize = 4;
/// The types of events that are not in the log.
const PASSING: [&str; 3] = [ephemeral::PROGRESS, ephemeral::TYPING, ephemeral::NOTED];

pub(crate) fn routes() -> Routes {
    Routes::default().routes(route!(stream).guarded(Key::STREAM))
}

#[utoipa::path(
    get,
    path = "/v1/events/stream",
    operation_id = "streamEvents",
    tag = "Events",
    summary = "Follow the event log",
    description = "Server-sent events: each has the event's id as `id`, its type as `event` and \
                   the object that the log shows as `data`. Left alone it begins with the next \
                   event; with `Last-Event-ID` (an event's id or its sequence), `last_event_id` or \
                   `cursor` it goes on after that one. Left alone it begins with an `id` without \
                   `data`, so that a client that has seen no event yet knows its place. An event \
                   `ping` without an id has the engine's clock as `GET /v1/sandbox/clock` does: \
                   at first, when a sandbox's clock is moved, and at least every 15 seconds. A \
                   person sees the types that their role may read. An event `broadcast.progress` \
                   without an id says where a broadcast under way stands, with the fields \
                   `broadcast_id`, `status`, `total_recipients`, `counts`, `rate_per_second` and \
                   `eta_seconds`: at most twice a second for a broadcast, and after each change \
                   of its status. Events `conversation.typing` and `conversation.noted` without an \
                   id say, with `conversation_id` and `user`, that a colleague is answering and \
                   has added a note. These are no entries of the log. With a session it shows at \
                   most 2,000 events a second; once 10,000 wait it goes on with the newest ones, \
                   and an event `skipped` says so. It ends when the server stops, \
                   and when the key is revoked or expires or the session ends; connect again with \
                   the last id. A key may have 64 streams at a time and a person 16: 429.",
    params(
        ("Last-Event-ID" = Option<String>, Header, description = "The last event that was seen"),
        ("last_event_id" = Option<String>, Query, description = "The same, for a page, which \
         cannot set the header"),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the list of events"),
        ("types" = Option<String>, Query, description = "Only events of these types, with commas \
         between", example = "otp.sent,otp.verified"),
        ("workspace" = Option<String>, Query, description = "With a session: which workspace, as \
         the header `Postrider-Workspace` of other requests"),
    ),
    responses((status = 200, description = "Events as they come", body = String,
        content_type = "text/event-stream"))
)]
async fn stream(call: Call<Principal>) -> Answer {
    let workspace = call.caller.workspace();
    let query = call.query()?;
    // A client that has seen no event yet sends an empty id.
    let last = match call.header(&LAST_EVENT_ID).filter(|id| !id.is_empty()) {
        Some(id) => Some(("Last-Event-ID", id)),
        None => query.text(LAST_EVENT)?.filter(|id| !id.is_empty()).map(|id| (LAST_EVENT, id)),
    };
    let from = match last {
        Some((field, id)) => Some((field, sequence(workspace, field, id).await?)),
        None => after_cursor(&query)?.map(|after| ("cursor", after)),
    };
    let (types, passing) = wanted_events(&query)?;
    let held = call.edge.streams.take(holder_of(&call.caller)).ok_or_else(|| {
        ApiError::rate_limited(BUSY, "too many event streams of this key or person are open")
    })?;
    let growth = workspace.follow_events()?;
    let newest = workspace.last_event().await?;
    let after = match from {
        Some((field, after)) if after > newest => return Err(ahead_of_the_log(field)),
        Some((_, after)) => after,
        None => newest,
    };
    // A client that named a position keeps its own name for it, such as an event's id.
    let place = if from.is_none() { format!("id: {after}\n") } else { String::new() };
    let (sender, body) = Channel::<Bytes, Infallible>::new(BUFFERED_PAGES_MAX);
    let seen: Vec<_> = passing.into_iter().filter(|kind| may_see(&call.caller, kind)).collect();
    let stream = EventStream {
        edge: Arc::clone(&call.edge),
        caller: call.caller.clone(),
        opening: format!(": here\n{place}\n"),
        after,
        types,
        progress: seen.contains(&ephemeral::PROGRESS).then(|| ProgressFeed::of(workspace)),
        signs: SignFeed::of(workspace, seen),
        growth,
        clock_moves: call.edge.engine.clock().moves(),
        is_watched: matches!(call.caller, Principal::Person(_)),
        pause: Duration::ZERO,
        full_pages: FULL_PAGES_MAX,
        has_skipped: false,
        sender,
        _place: held,
    };
    drop(tokio::spawn(stream.run()));
    let mut reply = Reply::stream(StatusCode::OK, "text/event-stream", Body::new(body));
    reply.header(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // nginx would hold events back until its buffer is full.
    reply.header(ACCEL_BUFFERING, HeaderValue::from_static("no"));
    Ok(reply)
}

/// Returns the holder whose streams are counted together.
fn holder_of(caller: &Principal) -> StreamHolder {
    match caller {
        Principal::Key(caller) => StreamHolder::Key(caller.key_id),
        Principal::Person(member) => match &member.signed_in.person {
            Some(person) => StreamHolder::Person(person.id),
            None => StreamHolder::Session(member.signed_in.session.id()),
        },
    }
}

async fn sequence(workspace: &Workspace, field: &str, id: &str) -> Result<u64, ApiError> {
    let sequence = match id.parse::<EventId>() {
        Ok(id) => workspace.event_sequence(id).await?,
        Err(_) => id.parse().ok(),
    };
    let rule = "must be the id or the sequence of an event of this workspace";
    sequence.ok_or_else(|| ApiError::field(field, rule))
}

/// Returns the permission that a person needs to see events of a type; `None` if everybody sees
/// them.
fn permission_of(kind: &str) -> Option<Permission> {
    match kind.split_once('.').map_or(kind, |(about, _)| about) {
        "otp" => Some(Permission::OtpRead),
        "message" | "conversation" => Some(Permission::InboxRead),
        "contact" => Some(Permission::ContactsRead),
        "broadcast" => Some(Permission::BroadcastsRead),
        "number" => None,
        _ => Some(Permission::EventsRead),
    }
}

/// Returns whether the caller may read events of a type one by one.
pub(in crate::http) fn may_read(caller: &Principal, kind: &str) -> bool {
    permission_of(kind).is_none_or(|permission| caller.check(permission).is_ok())
}

/// Returns whether the stream shows events of a type to the caller.
fn may_see(caller: &Principal, kind: &str) -> bool {
    matches!(caller, Principal::Key(_)) || may_read(caller, kind)
}

/// The requested types of the log, with `None` for all, and the requested types that are not in it.
type WantedEvents = (Option<Vec<&'static str>>, Vec<&'static str>);

fn wanted_events(query: &Query) -> Result<WantedEvents, ApiError> {
    let Some(names) = query.text("types")? else { return Ok((None, PASSING.to_vec())) };
    let (passing, logged): (Vec<_>, Vec<_>) =
        names.split(',').partition(|name| PASSING.contains(&name.trim()));
    let is_named = |kind: &&&str| passing.iter().any(|name| name.trim() == **kind);
    let passing = PASSING.iter().filter(is_named).copied().collect();
    if logged.is_empty() {
        return Ok((Some(Vec::new()), passing));
    }
    Ok((Some(kinds("types", &logged.join(","))?), passing))
}

/// Returns when there is new progress of broadcasts to report.
async fn news(progress: &mut Option<ProgressFeed>) {
    match progress {
        Some(progress) => progress.changed().await,
        None => std::future::pending().await,
    }
}

/// Returns when the key expires.
async fn expiry(edge: &Edge, caller: &Principal) {
    let clock = edge.engine.clock();
    while let Some(at) = caller.expires_at() {
        clock.sleep_until(at).await;
        // The key's expiry may have changed in the meantime.
        if caller.expires_at().is_some_and(|end| end <= clock.now()) {
            return;
        }
    }
    std::future::pending().await
}

/// A stream with a connected client.
struct EventStream {
    edge: Arc<Edge>,
    caller: Principal,
    /// The text that is sent at once.
    opening: String,
    after: u64,
    /// The types of events that are sent; `None` for all.
    types: Option<Vec<&'static str>>,
    /// The progress of broadcasts, if it is emitted.
    progress: Option<ProgressFeed>,
    /// The signs of agents in conversations.
    signs: SignFeed,
    growth: watch::Receiver<()>,
    clock_moves: watch::Receiver<()>,
    /// `true` if a person watches the stream on a page.
    is_watched: bool,
    /// The pause before the next read.
    pause: Duration,
    /// The number of full pages since the last check of the lag.
    full_pages: u32,
    /// `true` if events were skipped and the page has not been notified yet.
    has_skipped: bool,
    sender: Sender<Bytes, Infallible>,
    _place: StreamPlace,
}

impl EventStream {
    /// Sends events until the client disconnects, the server shuts down, the key is revoked or
    /// expires, or the session ends.
    async fn run(mut self) {
        let edge = Arc::clone(&self.edge);
        let sending = async {
            let mut text = std::mem::take(&mut self.opening) + &self.ping();
            text.push_str(&self.take_passing());
            while self.sender.send_data(Bytes::from(text)).await.is_ok()
                && self.caller.still_works(&edge)
            {
                match self.next().await {
                    // An event may have happened after the end of the key or session.
                    Ok(_) if !self.caller.still_works(&edge) => return,
                    Ok(next) => text = next,
                    // A stream that has started waits for its turn. The ping shows the client that
                    // it is alive.
                    Err(Unavailable { reason: UnavailableReason::Overloaded, retry_after }) => {
                        tokio::time::sleep(retry_after).await;
                        text = self.ping();
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

    /// Returns a ping with the clock, which also shows that the stream is alive.
    fn ping(&self) -> String {
        let clock = self.edge.engine.clock();
        let (now, offset) = (clock.now(), clock.offset().as_secs());
        format!("event: ping\ndata: {{\"now\":\"{now}\",\"offset_seconds\":{offset}}}\n\n")
    }

    /// Returns the next page, or a ping. Waits until the key expires at the longest.
    async fn next(&mut self) -> Result<String, Unavailable> {
        if self.is_watched {
            self.keep_up().await?;
        }
        // Marks the current length as seen, so that growth during the read wakes the next wait.
        self.growth.borrow_and_update();
        let page = self.caller.workspace().events(self.after, PAGE_EVENTS, None).await?;
        self.after = page.next_after;
        // The mark is cleared only here. If a step above fails, the retry must still report the
        // skip.
        let skipped = if std::mem::take(&mut self.has_skipped) { SKIPPED } else { "" };
        if page.entries.is_empty() && skipped.is_empty() {
            // The sender lives as long as the workspace, so its end need not be distinguished from
            // growth.
            return tokio::select! {
                _ = self.growth.changed() => Ok(String::new()),
                () = expiry(&self.edge, &self.caller) => Ok(String::new()),
                Ok(()) = self.clock_moves.changed() => Ok(self.ping()),
                () = news(&mut self.progress) => Ok(self.take_passing()),
                sign = self.signs.next() => Ok(sign + &self.take_passing()),
                () = tokio::time::sleep(HEARTBEAT) => Ok(self.ping()),
            };
        }
        if self.progress.is_some() {
            let named =
                page.entries.iter().filter_map(|entry| ephemeral::reported_broadcast(&entry.event));
            named.for_each(|id| self.caller.workspace().hurry_progress(id));
        }
        let is_full = page.entries.len() == PAGE_EVENTS;
        self.pause = self.pause.max(PAUSE);
        self.full_pages = if is_full { self.full_pages.saturating_add(1) } else { 0 };
        // Progress and signs are sent even if the log grows fast.
        let passing = self.take_passing();
        let shown = page.entries.into_iter().filter(|entry| self.shows(entry.event.kind()));
        let shown: String = shown.map(|entry| EventRow::from(entry).as_message()).collect();
        Ok(skipped.to_owned() + &shown + &passing)
    }

    /// Waits before the next part of a stream that a person watches.
    ///
    /// If more events wait than anybody can see, it skips to the newest ones: fifty pages must not
    /// take the machine from codes.
    async fn keep_up(&mut self) -> Result<(), Unavailable> {
        let pause = std::mem::take(&mut self.pause);
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
        if self.full_pages < FULL_PAGES_MAX {
            return Ok(());
        }
        let newest = self.caller.workspace().last_event().await?;
        if newest.saturating_sub(self.after) <= BEHIND_MAX {
            self.full_pages = 0;
            return Ok(());
        }
        // After the rest the lag is checked again at once.
        self.after = newest - PAGE_EVENTS as u64;
        self.pause = REST;
        self.has_skipped = true;
        Ok(())
    }

    /// Returns the new messages that are not in the log.
    fn take_passing(&mut self) -> String {
        let progress = self.progress.as_mut().map(ProgressFeed::take).unwrap_or_default();
        progress + &self.signs.take()
    }

    fn shows(&self, kind: &str) -> bool {
        let is_wanted = self.types.as_ref().is_none_or(|types| types.contains(&kind));
        is_wanted && may_see(&self.caller, kind)
    }
}
