//! Reads the event log of a workspace, in parts or as a file.

mod ephemeral;
mod stream;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use postrider_actors::domain::{EventId, Phone, PublicEvent};
use postrider_actors::{EventEntry, EventFilter, Permission, Unavailable, Workspace};
use serde::Serialize;
use utoipa::ToSchema;

use super::audited_reads::ReadingKind;
use super::pipeline::{
    Answer, ApiError, Call, Key, LIMIT_DEFAULT, LIMIT_MAX, Principal, Query, Reply, Routes, route,
};
use super::streamed::{AnswerParts, JSON_LINES, stream};

pub(in crate::http) use stream::may_read;

/// The first byte of a cursor, which defines the format of the rest.
const CURSOR_VERSION: u8 = 1;

/// The maximum length of the `about` filter, in characters.
const ABOUT_CHARS_MAX: usize = 200;
/// The number of events that are read at a time.
const PART_EVENTS: usize = 1000;

pub(crate) fn routes() -> Routes {
    Routes::default()
        .routes(route!(list).guarded(Key::of(Permission::EventsRead)))
        .routes(route!(read).guarded(Key::of(Permission::EventsRead)))
        .merge(stream::routes())
}

/// One event.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EventRow {
    /// The event.
    #[schema(example = "evt_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    id: String,
    /// What happened.
    #[serde(rename = "type")]
    #[schema(example = "otp.sent")]
    kind: &'static str,
    /// When.
    #[schema(format = DateTime, example = "2026-01-31T09:25:00.000Z")]
    timestamp: String,
    /// Its place in the workspace's log; grows by one with each event.
    #[schema(example = 1)]
    sequence: u64,
    /// The ids of what it is about, and what is public of it.
    #[schema(value_type = Object)]
    data: serde_json::Value,
}

impl From<EventEntry> for EventRow {
    fn from(entry: EventEntry) -> Self {
        Self {
            id: entry.id.to_string(),
            kind: entry.event.kind(),
            timestamp: entry.at.to_string(),
            sequence: entry.sequence,
            data: entry.event.data(),
        }
    }
}

impl EventRow {
    /// Returns the event as one message of a server-sent event stream.
    pub(super) fn as_message(&self) -> String {
        // A struct of texts and numbers always has a JSON form, and that has no line break.
        let data = serde_json::to_string(self).unwrap_or_default();
        format!("id: {}\nevent: {}\ndata: {data}\n\n", self.id, self.kind)
    }
}

/// A part of the log.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EventsAnswer {
    /// In the order of the query. It may be empty while `next_cursor` goes on.
    data: Vec<EventRow>,
    /// Give it as `cursor`, with the same `order`, to go on after this part. Oldest first it is
    /// always there, and the same again while there is nothing new; newest first it is null at the
    /// oldest event.
    #[schema(example = "AQAAAAAAAAAB")]
    next_cursor: Option<String>,
}

#[utoipa::path(
    get,
    path = "/v1/events",
    operation_id = "listEvents",
    tag = "Events",
    summary = "Read the event log",
    description = "Old events are kept for a time and up to an amount that the operator sets. A \
                   cursor before the oldest goes on at the oldest: then `sequence` has a gap. \
                   `about` finds ids, phones, addresses, and other texts of 4 to 200 bytes with a \
                   digit and no space, by an index. All else is looked for in 50,000 events a \
                   part, and so is what was indexed too late. So a filtered part is empty at the \
                   end of the log, or after a bounded search: then its cursor has moved.",
    params(
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the part before; left \
         out: from the beginning"),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 200, description = "Most events, \
         50 by default"),
        ("type" = Option<String>, Query, description = "Only events of this type, \
         which is the name of one of the document's webhooks", example = "otp.verified"),
        ("types" = Option<String>, Query, description = "Only events of these types, with commas \
         between; not beside `type`", example = "otp.sent,otp.verified"),
        ("about" = Option<String>, Query, min_length = 1, max_length = 200, description = "Only \
         events in whose `data` this is a value: an id, or a phone in E.164, in whatever form its \
         country has", example = "+15550123456"),
        ("order" = Option<String>, Query, description = "`asc`, oldest first, the default, \
         or `desc`, newest first"),
    ),
    responses((status = 200, description = "Events in that order", body = EventsAnswer))
)]
async fn list(call: Call<Principal>) -> Answer {
    let query = call.query()?;
    let limit = query.integer("limit", LIMIT_DEFAULT, 1, LIMIT_MAX)?;
    let filter = EventFilter { types: types(&query)?, about: about(&query)? };
    let cursor = after_cursor(&query)?;
    if call.wants(JSON_LINES) {
        call.reads_all(ReadingKind::Events).await?;
    }
    match query.text("order")? {
        None | Some("asc") => {}
        Some("desc") if call.wants(JSON_LINES) => {
            let lines = EventLines::Descending { filter, before: cursor };
            return Ok(stream(&call, JSON_LINES, lines));
        }
        Some("desc") => return newest_first(&call, cursor, limit, filter).await,
        Some(_) => return Err(ApiError::field("order", "must be asc or desc")),
    }
    let after = cursor.unwrap_or(0);
    if call.wants(JSON_LINES) {
        let end = call.caller.workspace().last_event().await?;
        if after > end {
            return Err(ahead_of_the_log("cursor"));
        }
        return Ok(stream(&call, JSON_LINES, EventLines::Ascending { filter, after, end }));
    }
    let page = call.caller.workspace().events_that(after, limit, filter).await?;
    if page.next_after == after && after > call.caller.workspace().last_event().await? {
        return Err(ahead_of_the_log("cursor"));
    }
    Ok(Reply::ok(&EventsAnswer {
        data: page.entries.into_iter().map(EventRow::from).collect(),
        next_cursor: Some(encode_cursor(page.next_after)),
    }))
}

/// Answers with the events before a cursor, newest first.
pub(in crate::http) async fn newest_first(
    call: &Call<Principal>,
    cursor: Option<u64>,
    limit: usize,
    filter: EventFilter,
) -> Answer {
    let page = call.caller.workspace().events_back(cursor, limit, filter).await?;
    Ok(Reply::ok(&EventsAnswer {
        data: page.entries.into_iter().map(EventRow::from).collect(),
        next_cursor: page.next_before.map(encode_cursor),
    }))
}

#[utoipa::path(
    get,
    path = "/v1/events/{event_id}",
    operation_id = "readEvent",
    tag = "Events",
    summary = "Read an event",
    params(("event_id" = String, Path, description = "The event's id")),
    responses((status = 200, description = "The event", body = EventRow))
)]
async fn read(mut call: Call<Principal>) -> Answer {
    const MISSING: &str = "no such event";
    let id: EventId = call.path("event_id", MISSING).await?;
    match call.caller.workspace().event(id).await? {
        Some(event) => Ok(Reply::ok(&EventRow::from(event))),
        None => Err(ApiError::not_found(MISSING)),
    }
}

/// Returns the types that the query asks for, one or more.
fn types(query: &Query) -> Result<Option<Vec<String>>, ApiError> {
    let names = match (query.text("type")?, query.text("types")?) {
        (Some(_), Some(_)) => return Err(ApiError::field("types", "must not be beside `type`")),
        (Some(name), None) => vec![kind("type", name)?],
        (None, Some(names)) => kinds("types", names)?,
        (None, None) => return Ok(None),
    };
    Ok(Some(names.into_iter().map(str::to_owned).collect()))
}

/// Returns the values that the events must be about: an id, or all forms of a phone. An unescaped
/// `+` arrives as a space, with which no id begins.
fn about(query: &Query) -> Result<Vec<String>, ApiError> {
    let Some(text) = query.text("about")? else { return Ok(Vec::new()) };
    if !(1..=ABOUT_CHARS_MAX).contains(&text.chars().count()) {
        return Err(ApiError::field("about", "must have 1 to 200 characters"));
    }
    let text = text.strip_prefix(' ').map_or_else(|| text.to_owned(), |it| format!("+{it}"));
    Ok(text.parse().map_or_else(|_| vec![text.clone()], in_all_forms))
}

/// Returns a phone as it was written, followed by its other forms.
pub(crate) fn in_all_forms(phone: Phone) -> Vec<String> {
    let others = phone.forms().filter(|form| form.as_u64() != phone.as_u64());
    [phone].into_iter().chain(others).map(|phone| phone.to_string()).collect()
}

/// Returns the event type of this name, which the query's `field` gives.
fn kind(field: &str, name: &str) -> Result<&'static str, ApiError> {
    let known = PublicEvent::KINDS.iter().map(|(known, _)| *known);
    known.clone().find(|known| *known == name).ok_or_else(|| {
        let kinds = known.collect::<Vec<_>>().join(", ");
        ApiError::field(field, format_args!("must be one of {kinds}"))
    })
}

/// Returns the event types whose names the query's `field` lists, separated by commas.
pub(super) fn kinds(field: &str, names: &str) -> Result<Vec<&'static str>, ApiError> {
    names.split(',').map(|name| kind(field, name.trim())).collect()
}

/// Returns the sequence number after which the query's `cursor` continues.
pub(in crate::http) fn after_cursor(query: &Query) -> Result<Option<u64>, ApiError> {
    let Some(cursor) = query.text("cursor")? else { return Ok(None) };
    let bad = || ApiError::field("cursor", "must be the `next_cursor` of an earlier answer");
    decode_cursor(cursor).map(Some).ok_or_else(bad)
}

/// Refuses a position that the log has not reached. Such a position comes from another server, or
/// from before a restore of this server's data from a backup.
pub(super) fn ahead_of_the_log(field: &str) -> ApiError {
    ApiError::field(field, "is ahead of this workspace's event log")
}

pub(crate) fn encode_cursor(after: u64) -> String {
    let mut bytes = [CURSOR_VERSION; 9];
    bytes[1..].copy_from_slice(&after.to_be_bytes());
    URL_SAFE_NO_PAD.encode(bytes)
}

pub(crate) fn decode_cursor(cursor: &str) -> Option<u64> {
    let bytes = URL_SAFE_NO_PAD.decode(cursor).ok()?;
    let (version, after) = bytes.split_first()?;
    let after = after.try_into().ok()?;
    (*version == CURSOR_VERSION).then(|| u64::from_be_bytes(after))
}

/// The position in the file at which the next part starts.
enum EventLines {
    /// Oldest first: the events after `after`, up to and including `end`.
    Ascending {
        filter: EventFilter,
        after: u64,
        end: u64,
    },
    /// Newest first: the events before `before`; `None` starts at the newest.
    Descending {
        filter: EventFilter,
        before: Option<u64>,
    },
    Over,
}

impl AnswerParts for EventLines {
    async fn next(&mut self, workspace: &Workspace) -> Result<Option<Vec<u8>>, Unavailable> {
        match self {
            Self::Ascending { filter, after, end } => {
                let page = workspace.events_that(*after, PART_EVENTS, filter.clone()).await?;
                let is_over = page.next_after == *after || page.next_after >= *end;
                // Events that were added in the meantime are left for the next file.
                let entries = page.entries.into_iter().filter(|entry| entry.sequence <= *end);
                let part = lines(entries);
                *after = page.next_after;
                if is_over {
                    *self = Self::Over;
                }
                Ok(Some(part))
            }
            Self::Descending { filter, before } => {
                let page = workspace.events_back(*before, PART_EVENTS, filter.clone()).await?;
                *before = page.next_before;
                if before.is_none() {
                    *self = Self::Over;
                }
                Ok(Some(lines(page.entries.into_iter())))
            }
            Self::Over => Ok(None),
        }
    }
}

fn lines(entries: impl Iterator<Item = EventEntry>) -> Vec<u8> {
    let mut lines = Vec::new();
    for entry in entries {
        // A struct of texts and numbers always has a JSON form, and that has no line break.
        lines.extend(serde_json::to_vec(&EventRow::from(entry)).unwrap_or_default());
        lines.push(b'\n');
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_gives_its_sequence_back() {
        for after in [0, 1, 255, u64::MAX] {
            assert_eq!(decode_cursor(&encode_cursor(after)), Some(after));
        }
        for bad in ["", "0", "7", "AQ", "AgAAAAAAAAAB", "AQAAAAAAAAABAA", "AQAAAAAAAA!B", "é"] {
            assert_eq!(decode_cursor(bad), None, "{bad}");
        }
    }
}
