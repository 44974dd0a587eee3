//! Writes the rate limit headers of an answer.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use bytes::Bytes;
use postrider_actors::BucketState;
use postrider_actors::domain::Timestamp;
use std::io::Write;

/// Requests allowed in the window.
pub(crate) const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
/// Requests that remain.
pub(crate) const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
/// The Unix second at which the bucket is full again.
pub(crate) const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
/// The policy, as draft-ietf-httpapi-ratelimit-headers writes it.
pub(crate) const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
/// What remains, as the same draft writes it.
pub(crate) const STATE: HeaderName = HeaderName::from_static("ratelimit");

/// Capacity for the two texts of the draft, in bytes.
const TEXT_CAPACITY: usize = 96;

/// Adds the five headers for a bucket.
pub(crate) fn add_headers(headers: &mut HeaderMap, bucket: BucketState, now: Timestamp) {
    let BucketState { limit, remaining, full_at, window_s } = bucket;
    headers.insert(LIMIT, HeaderValue::from(limit));
    headers.insert(REMAINING, HeaderValue::from(remaining));
    // Rounded up, so that the bucket is full at that second.
    headers.insert(RESET, HeaderValue::from(full_at.as_millis().div_ceil(1000)));
    let name = window_name(window_s);
    let wait_s = full_at.since(now).as_millis().div_ceil(1000);
    // One allocation for both texts. Writing to a vector cannot fail, and both texts are valid
    // header values; were one not, its header would be left out.
    let mut text = Vec::with_capacity(TEXT_CAPACITY);
    drop(write!(text, "\"{name}\";q={limit};w={window_s}"));
    let split = text.len();
    drop(write!(text, "\"{name}\";r={remaining};t={wait_s}"));
    let mut policy = Bytes::from(text);
    let state = policy.split_off(split);
    for (header, value) in [(POLICY, policy), (STATE, state)] {
        if let Ok(value) = HeaderValue::from_maybe_shared(value) {
            headers.insert(header, value);
        }
    }
}

const fn window_name(window_s: u32) -> &'static str {
    match window_s {
        3600 => "hour",
        60 => "minute",
        _ => "window",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
