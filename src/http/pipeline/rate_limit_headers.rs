//! Writes the rate limit headers of an answer.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use bytes::Bytes;
use postrider_actors::BucketState;
use postrider_actors::domain::Timestamp;

/// The header with the number of requests allowed in the window.
pub(crate) const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
/// The header with the number of remaining requests.
pub(crate) const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
/// The header with the Unix second at which the bucket is full again.
pub(crate) const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
/// The header with the policy, in the form of draft-ietf-httpapi-ratelimit-headers.
pub(crate) const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
/// The header with the remaining requests, in the form of the same draft.
pub(crate) const STATE: HeaderName = HeaderName::from_static("ratelimit");

/// The capacity for all five texts, in bytes.
const TEXT_CAPACITY: usize = 160;
/// The maximum number of digits of a 64-bit number.
const DIGITS_MAX: usize = 20;

/// Adds the five headers for a bucket.
pub(crate) fn add_headers(headers: &mut HeaderMap, bucket: BucketState, now: Timestamp) {
    let BucketState { limit, remaining, full_at, window_s } = bucket;
    let [limit, remaining, window_s] = [limit, remaining, window_s].map(u64::from);
    // Rounded up, so that the bucket is full at that second.
    let reset = full_at.as_millis().div_ceil(1000);
    let wait_s = u64::try_from(full_at.since(now).as_millis().div_ceil(1000)).unwrap_or(u64::MAX);
    let name = window_name(window_s);
    // One allocation for all texts, and no formatting: every answer to a key has them.
    let mut texts = Texts(Vec::with_capacity(TEXT_CAPACITY));
    let ends = [
        texts.number(limit).end(),
        texts.number(remaining).end(),
        texts.number(reset).end(),
        texts.text(name).text(";q=").number(limit).text(";w=").number(window_s).end(),
        texts.text(name).text(";r=").number(remaining).text(";t=").number(wait_s).end(),
    ];
    let (texts, mut start) = (Bytes::from(texts.0), 0);
    for (header, end) in [LIMIT, REMAINING, RESET, POLICY, STATE].into_iter().zip(ends) {
        // All texts are valid header values. If one were not, its header would be left out.
        if let Ok(value) = HeaderValue::from_maybe_shared(texts.slice(start..end)) {
            headers.insert(header, value);
        }
        start = end;
    }
}

/// Texts that are written one after the other.
struct Texts(Vec<u8>);

impl Texts {
    fn text(&mut self, text: &str) -> &mut Self {
        self.0.extend_from_slice(text.as_bytes());
        self
    }

    fn number(&mut self, mut number: u64) -> &mut Self {
        let (mut digits, mut first) = ([b'0'; DIGITS_MAX], DIGITS_MAX - 1);
        // The loop ends before the first place at the latest: no number has more digits.
        for (place, digit) in digits.iter_mut().enumerate().rev() {
            (*digit, first) = (b'0' + (number % 10) as u8, place);
            number /= 10;
            if number == 0 {
                break;
            }
        }
        self.0.extend_from_slice(&digits[first..]);
        self
    }

    fn end(&self) -> usize {
        self.0.len()
    }
}

/// Returns the name of a window in quotes, as a text of a structured field needs.
const fn window_name(window_s: u64) -> &'static str {
    match window_s {
        3600 => "\"hour\"",
        60 => "\"minute\"",
        _ => "\"window\"",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_ever() {
        for number in [0, 1, 9, 10, 99, 1000, 1_700_000_008, u64::from(u32::MAX), u64::MAX] {
            let mut texts = Texts(Vec::new());
            assert_eq!(texts.text("=").number(number).end(), 1 + number.to_string().len());
            assert_eq!(texts.0, format!("={number}").into_bytes());
        }
    }

    #[test]
    fn both_forms_say_the_same() {
        let now = Timestamp::from_millis(1_700_000_000_000);
        let bucket = BucketState {
            limit: 1000,
            remaining: 998,
            full_at: Timestamp::from_millis(1_700_000_007_200),
            window_s: 3600,
        };
        let mut headers = HeaderMap::new();
        add_headers(&mut headers, bucket, now);
        let shown: Vec<_> = [LIMIT, REMAINING, RESET, POLICY, STATE]
            .iter()
            .map(|name| headers[name].to_str().unwrap().to_owned())
            .collect();
        assert_eq!(
            shown,
            ["1000", "998", "1700000008", "\"hour\";q=1000;w=3600", "\"hour\";r=998;t=8"]
        );
    }
}
