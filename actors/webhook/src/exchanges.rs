//! The request of a delivery and its answer, as they are posted, remembered and shown.
//!
//! The signatures and answers of the last tries are in memory. The body of a request is not stored:
//! it is rebuilt from the events, which the log has. So it has the same objects as the event log.

use std::collections::VecDeque;

use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use parking_lot::Mutex;
use postrider_domain::event::EventPayload;
use postrider_domain::{EventId, Timestamp, WebhookId};
use postrider_store::EventEntry;
use postrider_store::view::codec::encode;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::records::KeptAttempt;

/// The bytes that are stored of all endpoints together. Older exchanges are forgotten.
const BYTES_MAX: usize = 8 << 20;
/// The bytes of an answer's headers that are remembered.
const HEADERS_KEPT_MAX: usize = 4 * 1024;
/// The approximate size of an exchange besides its texts.
const OVERHEAD: usize = 200;

/// The bytes of a body that are shown.
const BODY_BYTES_MAX: usize = 16 * 1024;

/// The header of an event's or a batch's id.
pub(crate) const ID_HEADER: HeaderName = HeaderName::from_static("webhook-id");
/// The header of the seconds at which a request was signed.
pub(crate) const TIMESTAMP_HEADER: HeaderName = HeaderName::from_static("webhook-timestamp");
/// The header of the signatures, separated by spaces.
pub(crate) const SIGNATURE_HEADER: HeaderName = HeaderName::from_static("webhook-signature");
/// The common headers of all requests.
pub(crate) const COMMON_HEADERS: [(HeaderName, &str); 3] = [
    (CONTENT_TYPE, "application/json"),
    (ACCEPT, "*/*"),
    (USER_AGENT, concat!("Postrider/", env!("CARGO_PKG_VERSION"))),
];

/// The kind of a batch, in place of an event type.
pub(super) const BATCH_KIND: &str = "batch";

/// An event as it is delivered.
#[derive(Debug, Serialize)]
struct EventBody<'a> {
    id: String,
    #[serde(rename = "type")]
    kind: &'static str,
    timestamp: String,
    sequence: u64,
    data: EventPayload<'a>,
}

impl<'a> From<&'a EventEntry> for EventBody<'a> {
    fn from(entry: &'a EventEntry) -> Self {
        Self {
            id: entry.id.to_string(),
            kind: entry.event.kind(),
            timestamp: entry.at.to_string(),
            sequence: entry.sequence,
            data: entry.event.payload(),
        }
    }
}

/// Returns the JSON of one event.
pub(crate) fn event_body(entry: &EventEntry) -> Vec<u8> {
    encode(&EventBody::from(entry))
}

/// Returns the JSON array of several events.
pub(crate) fn batch_body(entries: &[EventEntry]) -> Vec<u8> {
    encode(&entries.iter().map(EventBody::from).collect::<Vec<_>>())
}

/// Returns the id of a batch, derived from its events; `None` if there are no events.
///
/// So a receiver that has seen the id has seen all of them.
pub(super) fn batch_id(entries: &[EventEntry]) -> Option<EventId> {
    let first = entries.first()?;
    let mut hash = Sha256::new();
    for entry in entries {
        hash.update(entry.id.as_bytes());
    }
    let (unique, _) =
        hash.finalize().as_slice().split_first_chunk::<16>().map(|(a, b)| (*a, b.len()))?;
    Some(EventId::from_parts(first.at, u128::from_be_bytes(unique)))
}

/// The headers of an answer, and the beginning of its body.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AnswerText {
    /// Names and values.
    pub headers: Vec<(String, String)>,
    /// At most 16 KiB.
    pub body: String,
}

/// Returns the headers of an answer, as many as fit.
pub(crate) fn header_texts(headers: &HeaderMap) -> Vec<(String, String)> {
    let mut left = HEADERS_KEPT_MAX;
    let text = |(name, value): (&HeaderName, &HeaderValue)| {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        left = left.checked_sub(name.as_str().len() + value.len())?;
        Some((name.as_str().to_owned(), value))
    };
    headers.iter().map_while(text).collect()
}

/// The part of a try that is known only while it is remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    /// The `webhook-timestamp` header.
    pub timestamp: u64,
    /// The `webhook-signature` header.
    pub signature: String,
    /// The answer; `None` if there was none, or none that its owner may see.
    pub answer: Option<Box<AnswerText>>,
}

impl Exchange {
    fn bytes(&self) -> usize {
        let of_answer = self.answer.as_ref().map_or(0, |answer| {
            let headers = answer.headers.iter().map(|(name, value)| name.len() + value.len());
            headers.sum::<usize>() + answer.body.len()
        });
        OVERHEAD + self.signature.len() + of_answer
    }
}

/// The key of an exchange: a try of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ExchangeKey {
    pub(crate) webhook: WebhookId,
    pub(crate) event: EventId,
    pub(crate) attempt: u32,
    pub(crate) at: Timestamp,
}

/// The last exchanges of all endpoints.
#[derive(Debug, Default)]
pub(crate) struct Exchanges(Mutex<KeptExchanges>);

#[derive(Debug, Default)]
struct KeptExchanges {
    /// Oldest first.
    all: VecDeque<(ExchangeKey, Exchange)>,
    bytes: usize,
}

impl Exchanges {
    /// Stores an exchange, and forgets the oldest ones without room.
    pub(crate) fn keep(&self, key: ExchangeKey, exchange: Exchange) {
        let mut kept = self.0.lock();
        kept.bytes += exchange.bytes();
        kept.all.push_back((key, exchange));
        while kept.bytes > BYTES_MAX
            && let Some((_, oldest)) = kept.all.pop_front()
        {
            kept.bytes -= oldest.bytes();
        }
    }

    /// Returns the exchange of a try, if it is remembered.
    pub(crate) fn find(&self, key: ExchangeKey) -> Option<Exchange> {
        let kept = self.0.lock();
        let found = kept.all.iter().rev().find(|(of, _)| *of == key);
        found.map(|(_, exchange)| exchange.clone())
    }
}

/// Half of an exchange: its headers, and the beginning of its body.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExchangeHalf {
    /// Names and values, as far as known.
    pub headers: Vec<(String, String)>,
    /// At most 16 KiB; `None` if there is none, or it is not known any more.
    pub body: Option<String>,
}

/// A try in its endpoint owner's view, with its request and its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownAttempt {
    /// The try.
    pub kept: KeptAttempt,
    /// The posted request; `None` if there was none, since the log had forgotten the events.
    pub request: Option<ExchangeHalf>,
    /// The answer; `None` if there was none.
    pub answer: Option<ExchangeHalf>,
}

impl ShownAttempt {
    /// Returns a try of these events: all that it carried, or none if one is forgotten.
    pub(crate) fn of(kept: KeptAttempt, events: &[EventEntry], exchange: Option<Exchange>) -> Self {
        let posted = match events {
            [] => None,
            [event] if kept.batch_event_ids.is_empty() => Some(event_body(event)),
            events => Some(batch_body(events)),
        };
        let request = kept.event_id.map(|id| {
            let common = COMMON_HEADERS.iter();
            let mut headers: Vec<_> =
                common.map(|(name, text)| (name.to_string(), (*text).to_owned())).collect();
            headers.push((ID_HEADER.to_string(), id.to_string()));
            if let Some(exchange) = &exchange {
                headers.push((TIMESTAMP_HEADER.to_string(), exchange.timestamp.to_string()));
                headers.push((SIGNATURE_HEADER.to_string(), exchange.signature.clone()));
            }
            ExchangeHalf { headers, body: posted.map(beginning_of) }
        });
        let text = exchange.and_then(|exchange| exchange.answer);
        let answer = kept.status.map(|_| match text {
            Some(text) => ExchangeHalf {
                headers: text.headers,
                body: Some(text.body).filter(|body| !body.is_empty()),
            },
            None => ExchangeHalf { headers: Vec::new(), body: kept.response.clone() },
        });
        Self { kept, request, answer }
    }
}

/// Returns the beginning of a JSON text.
fn beginning_of(json: Vec<u8>) -> String {
    let start = &json[..json.len().min(BODY_BYTES_MAX)];
    match std::str::from_utf8(start) {
        Ok(text) => text.to_owned(),
        // The cut is within a character.
        Err(error) => String::from_utf8_lossy(&start[..error.valid_up_to()]).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_kept_as_far_as_there_is_room() {
        let mut headers = HeaderMap::new();
        headers.insert("x-one", HeaderValue::from_static("1"));
        headers.insert("x-two", HeaderValue::from_bytes(&[0xe9]).unwrap());
        let text = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(header_texts(&headers), [text("x-one", "1"), text("x-two", "\u{fffd}")]);
        let long = "x".repeat(HEADERS_KEPT_MAX - "x-one1x-long".len() + 1);
        headers.remove("x-two");
        headers.insert("x-long", HeaderValue::from_str(&long).unwrap());
        assert_eq!(header_texts(&headers), [text("x-one", "1")]);
    }

    #[test]
    fn the_newest_are_kept_as_far_as_there_is_room() {
        let at = Timestamp::from_millis(7);
        let key = |number: u32| ExchangeKey {
            webhook: WebhookId::from_parts(at, 1),
            event: EventId::from_parts(at, 1),
            attempt: number,
            at,
        };
        let exchange = |bytes: usize| {
            let answer = AnswerText { headers: Vec::new(), body: "x".repeat(bytes) };
            Exchange { timestamp: 1, signature: String::new(), answer: Some(Box::new(answer)) }
        };
        let exchanges = Exchanges::default();
        let quarter = BYTES_MAX / 4 - OVERHEAD;
        (1..=4).for_each(|number| exchanges.keep(key(number), exchange(quarter)));
        assert_eq!(exchanges.find(key(1)), Some(exchange(quarter)), "they fit exactly");
        exchanges.keep(key(5), exchange(0));
        assert_eq!(exchanges.find(key(1)), None);
        assert!((2..=5).all(|number| exchanges.find(key(number)).is_some()));
        exchanges.keep(key(6), exchange(BYTES_MAX));
        assert!((2..=6).all(|number| exchanges.find(key(number)).is_none()), "it is too large");
        assert_eq!(exchanges.0.lock().bytes, 0);
    }

    #[test]
    fn a_long_body_ends_at_a_character() {
        assert_eq!(beginning_of(b"[]".to_vec()), "[]");
        let long = format!("{}\u{e9}", "x".repeat(BODY_BYTES_MAX - 1));
        assert_eq!(beginning_of(long.into_bytes()), "x".repeat(BODY_BYTES_MAX - 1));
    }
}
