//! Assigns every request an id, by which client and server logs can be matched.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use bytes::Bytes;
use postrider_actors::Clock;

/// The header `X-Request-Id`.
pub(crate) const HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// The maximum length of a client's id, in characters.
const CHARS_MAX: usize = 128;

/// The prefix of generated ids.
const PREFIX: &[u8; 4] = b"req_";

/// Crockford's base 32, in lower case: the digits of a ULID.
const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// The number of digits of a ULID. They have 130 bits, of which the first two are zero.
const ULID_CHARS: usize = 26;

/// The number of characters of a generated id.
const OWN_CHARS: usize = PREFIX.len() + ULID_CHARS;

/// A request id. It contains visible ASCII characters only.
#[derive(Debug, Clone)]
pub(crate) struct RequestId(Text);

/// The text of an id. Most ids are generated, and clones of those need no memory.
#[derive(Debug, Clone)]
enum Text {
    Own([u8; OWN_CHARS]),
    Theirs(HeaderValue),
}

impl RequestId {
    /// Returns the client's id if it has 1 to 128 characters of `A-Za-z0-9._:-`, or else a new id.
    pub(crate) fn of(headers: &HeaderMap, clock: &Clock) -> Self {
        match headers.get(HEADER) {
            Some(theirs) if is_valid(theirs.as_bytes()) => Self(Text::Theirs(theirs.clone())),
            _ => Self::new(clock.now().as_millis(), postrider_actors::random::unique()),
        }
    }

    fn new(millis: u64, unique: u128) -> Self {
        let mut text = [0; OWN_CHARS];
        let (prefix, ulid) = text.split_at_mut(PREFIX.len());
        prefix.copy_from_slice(PREFIX);
        let mut bits = u128::from(millis) << 80 | unique;
        for digit in ulid.iter_mut().rev() {
            *digit = DIGITS[(bits & 31) as usize];
            bits >>= 5;
        }
        Self(Text::Own(text))
    }

    pub(crate) fn as_str(&self) -> &str {
        // Both constructors accept visible ASCII only.
        match &self.0 {
            Text::Own(text) => std::str::from_utf8(text).unwrap_or_default(),
            Text::Theirs(text) => text.to_str().unwrap_or_default(),
        }
    }

    pub(crate) fn header(&self) -> HeaderValue {
        match &self.0 {
            // Letters, digits and `_` are always a valid header value.
            Text::Own(text) => HeaderValue::from_maybe_shared(Bytes::copy_from_slice(text))
                .unwrap_or_else(|_| HeaderValue::from_static("req_")),
            Text::Theirs(text) => text.clone(),
        }
    }
}

fn is_valid(id: &[u8]) -> bool {
    (1..=CHARS_MAX).contains(&id.len())
        && id.iter().all(|byte| byte.is_ascii_alphanumeric() || b"._:-".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use postrider_actors::domain::Timestamp;

    fn id_for(theirs: &[u8]) -> String {
        let clock = Clock::manual(Timestamp::from_millis(1_700_000_000_000));
        let mut headers = HeaderMap::new();
        headers.insert(HEADER, HeaderValue::from_bytes(theirs).unwrap());
        RequestId::of(&headers, &clock).as_str().to_owned()
    }

    #[test]
    fn a_sane_id_is_taken_over() {
        for sane in ["a", "0", "A.b_c:d-9", &"x".repeat(128)] {
            assert_eq!(id_for(sane.as_bytes()), sane);
        }
        for other in [&b""[..], b"a b", b"a\tb", "é".as_bytes(), &[b'x'; 129], b"a\"b", b"<a>"] {
            assert!(id_for(other).starts_with("req_"), "{other:?}");
        }
    }

    #[test]
    fn a_new_id_is_a_ulid() {
        let clock = Clock::manual(Timestamp::from_millis(1_700_000_000_000));
        let id = RequestId::of(&HeaderMap::new(), &clock);
        let other = RequestId::of(&HeaderMap::new(), &clock);
        assert_ne!(id.as_str(), other.as_str());
        let known = postrider_actors::domain::KeyId::from_parts(clock.now(), 42).to_string();
        let ours = RequestId::new(1_700_000_000_000, 42);
        assert_eq!(ours.as_str().replace("req_", "key_"), known);
    }
}
