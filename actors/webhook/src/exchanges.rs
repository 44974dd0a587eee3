//! The signatures and answers of the last tries, in memory.
//!
//! The body of a request is not stored: it is rebuilt from the events, which the log has.

use std::collections::VecDeque;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use parking_lot::Mutex;

use postrider_domain::{EventId, Timestamp, WebhookId};

/// The bytes that are stored of all endpoints together. Older exchanges are forgotten.
const BYTES_MAX: usize = 8 << 20;
/// The bytes of an answer's headers that are remembered.
const HEADERS_KEPT_MAX: usize = 4 * 1024;
/// The approximate size of an exchange besides its texts.
const OVERHEAD: usize = 200;

/// The headers of an answer, and the beginning of its body.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AnswerText {
    /// Names and values.
    pub headers: Vec<(String, String)>,
    /// At most 16 KiB.
    pub body: String,
}

/// The headers of an answer, as many as fit.
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
pub(crate) struct Exchanges(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
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
}
