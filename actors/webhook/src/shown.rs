//! A try in its endpoint owner's view, with the request and the answer.

use postrider_store::EventEntry;

use crate::exchanges::Exchange;
use crate::records::KeptAttempt;
use crate::request::COMMON;
use crate::{attempt, body};

/// The bytes of a body that are shown.
const BODY_BYTES_MAX: usize = 16 * 1024;

/// Half of an exchange: its headers, and the beginning of its body.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExchangeHalf {
    /// Names and values, as far as known.
    pub headers: Vec<(String, String)>,
    /// At most 16 KiB; `None` if there is none, or it is not known any more.
    pub body: Option<String>,
}

/// A try with its request and its answer.
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
            [event] if kept.batch_event_ids.is_empty() => Some(body::single(event)),
            events => Some(body::batch(events)),
        };
        let request = kept.event_id.map(|id| {
            let common = COMMON.iter();
            let mut headers: Vec<_> =
                common.map(|(name, text)| (name.to_string(), (*text).to_owned())).collect();
            headers.push((attempt::ID.to_string(), id.to_string()));
            if let Some(exchange) = &exchange {
                headers.push((attempt::TIMESTAMP.to_string(), exchange.timestamp.to_string()));
                headers.push((attempt::SIGNATURE.to_string(), exchange.signature.clone()));
            }
            ExchangeHalf { headers, body: posted.map(beginning) }
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
fn beginning(json: Vec<u8>) -> String {
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
    fn a_long_body_ends_at_a_character() {
        assert_eq!(beginning(b"[]".to_vec()), "[]");
        let long = format!("{}\u{e9}", "x".repeat(BODY_BYTES_MAX - 1));
        assert_eq!(beginning(long.into_bytes()), "x".repeat(BODY_BYTES_MAX - 1));
    }
}
