//! The audit at the end of a soak: all acknowledged data is stored, once, with one outcome.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};

use super::api::Call;
use super::receiver::ENDPOINTS;
use super::world::World;
use crate::Result;
use crate::measure::Stopwatch;

/// The maximum wait for work in flight.
const PATIENCE: Duration = Duration::from_secs(300);
const LOOK: Duration = Duration::from_millis(500);
/// The step of engine time while deliveries of webhooks wait for their next try.
const HOUR_SECONDS: u64 = 3600;

/// Compares everything with the books. The load has ended, and no fault is active.
pub(super) async fn audit(world: &World) -> Result<()> {
    messages(world).await?;
    broadcasts(world).await?;
    contacts(world).await?;
    inbox(world).await?;
    let most = world.fake.taken_again();
    for again in most.iter().filter(|again| !again.opaque.starts_with("otp_")) {
        // A code may be sent again when an answer was lost; a message may not.
        world.finding(format!("{} went out twice", again.opaque));
    }
    let events = log(world).await?;
    world.count("events in the log", events.len() as u64);
    codes(world, &events);
    deliveries(world, events.into_iter().map(|event| event.id).collect()).await
}

/// An entry of the event log.
struct Logged {
    id: String,
    kind: String,
    /// The request, for events of one-time passwords.
    request: Option<String>,
}

/// Reads the whole event log, and checks that its numbers have no gap.
async fn log(world: &World) -> Result<Vec<Logged>> {
    let (mut events, mut cursor, mut last) = (Vec::new(), String::new(), None);
    loop {
        let path = format!("/v1/events?limit=200{cursor}");
        let page = world.api.fetch(&Call::get(&path)).await?;
        let rows = page["data"].as_array().ok_or("no page of events")?;
        for row in rows {
            let sequence = row["sequence"].as_u64().ok_or("an event has a number")?;
            world.expect(last.is_none_or(|before: u64| before + 1 == sequence), || {
                format!("the log goes from {last:?} to {sequence}")
            });
            last = Some(sequence);
            events.push(Logged {
                id: text(&row["id"]),
                kind: text(&row["type"]),
                request: row["data"]["request_id"].as_str().map(str::to_owned),
            });
        }
        if rows.is_empty() {
            return Ok(events);
        }
        cursor = format!("&cursor={}", text(&page["next_cursor"]));
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Checks that each acknowledged code was sent once by the log, and verified at most once.
///
/// The accepted ones must be verified exactly once.
fn codes(world: &World, events: &[Logged]) {
    let mut logged: HashMap<(&str, &str), u32> = HashMap::new();
    for event in events {
        if let Some(request) = &event.request {
            *logged.entry((event.kind.as_str(), request.as_str())).or_default() += 1;
        }
    }
    let times = |kind, id: &str| logged.get(&(kind, id)).copied().unwrap_or_default();
    for (id, accepted) in &world.books().codes {
        let (sent, verified) = (times("otp.sent", id), times("otp.verified", id));
        world.expect(sent == 1, || format!("{id} is sent {sent} times in the log"));
        let fits = if *accepted { verified == 1 } else { verified <= 1 };
        world.expect(fits, || format!("{id} is verified {verified} times in the log"));
    }
    world.count("audited codes", world.books().codes.len() as u64);
}

/// Checks that each message has ended, and that the provider has it as often as its status states.
async fn messages(world: &World) -> Result<()> {
    let messages = std::mem::take(&mut world.books().messages);
    for (id, phone) in &messages {
        let state = settled(world, &format!("/v1/messaging/messages/{id}")).await?;
        let taken = world.fake.accepted_to(phone.trim_start_matches('+'));
        let fits = match state["status"].as_str() {
            Some("sent" | "delivered" | "read") => taken == 1,
            Some("failed") => taken == 0,
            Some("unknown") => taken <= 1,
            _ => false,
        };
        world.expect(fits, || format!("the provider has {id} {taken} times: {state}"));
        if state["status"] == "unknown" {
            world.count("messages with an unknown outcome", 1);
        }
    }
    world.count("audited messages", messages.len() as u64);
    Ok(())
}

/// Waits for the final state of a message.
async fn settled(world: &World, path: &str) -> Result<Value> {
    let watch = Stopwatch::start();
    loop {
        let state = world.api.fetch(&Call::get(path)).await?;
        if state["status"] != "queued" || watch.elapsed() > PATIENCE {
            return Ok(state);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Checks that each recipient of each broadcast has one outcome, which the provider's count
/// matches.
async fn broadcasts(world: &World) -> Result<()> {
    let broadcasts = std::mem::take(&mut world.books().broadcasts);
    for (id, phones) in &broadcasts {
        let mut left: HashSet<_> = phones.iter().map(String::as_str).collect();
        for page in 1.. {
            let path = format!("/v1/messaging/broadcasts/{id}/recipients?limit=200&page={page}");
            let rows = world.api.fetch(&Call::get(&path)).await?;
            let rows = rows["data"].as_array().ok_or("no page of recipients")?;
            if rows.is_empty() {
                break;
            }
            for row in rows {
                let phone = text(&row["to"]);
                world.expect(left.remove(phone.as_str()), || format!("{id} has {phone} twice"));
                let taken = world.fake.accepted_to(phone.trim_start_matches('+'));
                let fits = match row["status"].as_str() {
                    Some("sent" | "delivered" | "read") => taken == 1,
                    Some("failed") => taken == 0,
                    Some("unknown") => taken <= 1,
                    _ => false,
                };
                world.expect(fits, || format!("the provider has {phone} {taken} times: {row}"));
                world.count("audited recipients", 1);
                if row["status"] == "unknown" {
                    world.count("recipients with an unknown outcome", 1);
                }
            }
        }
        world.expect(left.is_empty(), || format!("{id} has forgotten {} of them", left.len()));
    }
    Ok(())
}

/// Checks that each contact has the last acknowledged content.
async fn contacts(world: &World) -> Result<()> {
    let contacts = std::mem::take(&mut world.books().contacts);
    for (id, name) in &contacts {
        let path = format!("/v1/contacts/{id}");
        let (found, _) = world.api.certain(&Call::get(&path)).await?;
        let fits = match name {
            Some(name) => found.status == 200 && found.body["name"] == name.as_str(),
            None => found.status == 404,
        };
        world.expect(fits, || format!("{id} is not {name:?}: {found:?}"));
    }
    world.count("audited contacts", contacts.len() as u64);
    Ok(())
}

/// Checks that each message of a customer is in the conversation once.
async fn inbox(world: &World) -> Result<()> {
    let mut written = std::mem::take(&mut world.books().written);
    for page in 1.. {
        let path = format!("/v1/conversations?limit=200&page={page}");
        let rows = world.api.fetch(&Call::get(&path)).await?;
        let rows = rows["data"].as_array().ok_or("no page of conversations")?.clone();
        if rows.is_empty() {
            break;
        }
        for row in rows {
            let phone = text(&row["contact"]["phone"]);
            let Some(expected) = written.remove(&phone) else { continue };
            let found = inbound(world, &text(&row["id"])).await?;
            world.expect(found == expected, || {
                format!("{phone} wrote {expected} messages, and {found} are there")
            });
            world.count("audited inbound messages", found as u64);
        }
    }
    world.expect(written.is_empty(), || format!("{} conversations are lost", written.len()));
    Ok(())
}

async fn inbound(world: &World, conversation: &str) -> Result<usize> {
    let mut found = 0;
    for page in 1.. {
        let path = format!("/v1/conversations/{conversation}/messages?limit=200&page={page}");
        let rows = world.api.fetch(&Call::get(&path)).await?;
        let rows = rows["data"].as_array().ok_or("no page of messages")?;
        if rows.is_empty() {
            break;
        }
        found += rows.iter().filter(|row| row["direction"] == "in").count();
    }
    Ok(found)
}

/// Waits until every event has arrived at both endpoints.
///
/// Engine time is moved on, so that retries need not be waited for.
async fn deliveries(world: &World, events: HashSet<String>) -> Result<()> {
    let watch = Stopwatch::start();
    let missing = || (0..ENDPOINTS.len()).map(|it| world.receiver.missing(it, &events)).sum();
    let mut left: usize = missing();
    while left > 0 && watch.elapsed() < PATIENCE {
        let body = json!({"advance_seconds": HOUR_SECONDS});
        world.api.fetch(&Call::of(Method::POST, "/v1/sandbox/clock", &body)).await?;
        let before = world.receiver.count();
        tokio::time::sleep(4 * LOOK).await;
        if world.receiver.count() == before {
            tokio::time::sleep(4 * LOOK).await;
        }
        left = missing();
    }
    world.expect(left == 0, || format!("{left} events were not delivered"));
    // Moving the time has ended codes, which caused more events.
    let all = log(world).await?.into_iter().map(|event| event.id).collect();
    for endpoint in 0..ENDPOINTS.len() {
        if let Some(id) = world.receiver.foreign(endpoint, &all) {
            world.finding(format!("{id} was delivered and is not in the log"));
        }
    }
    world.count("deliveries of webhooks", world.receiver.count());
    Ok(())
}
