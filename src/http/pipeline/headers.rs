//! Writes the headers that the pipeline adds to answers: date, rate limit, for browsers and
//! caches.

use std::sync::Arc;

use arc_swap::ArcSwap;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use bytes::Bytes;
use jiff::fmt::rfc2822::DateTimePrinter;
use postrider_actors::BucketState;
use postrider_actors::domain::Timestamp;

use crate::http::dashboard::DashboardOptions;

const PAGE_PERMISSIONS: &str = "camera=(), geolocation=(), microphone=(), payment=(), usb=()";
const TLS_ONLY: &str = "max-age=31536000";
/// The header with the number of requests allowed in the window.
pub(crate) const RATE_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
/// The header with the number of remaining requests.
pub(crate) const RATE_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
/// The header with the Unix second at which the bucket is full again.
pub(crate) const RATE_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
/// The header with the policy, in the form of draft-ietf-httpapi-ratelimit-headers.
pub(crate) const RATE_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
/// The header with the remaining requests, in the form of the same draft.
pub(crate) const RATE_STATE: HeaderName = HeaderName::from_static("ratelimit");
/// The capacity for all five texts, in bytes.
const TEXT_CAPACITY: usize = 160;
/// The maximum number of digits of a 64-bit number.
const DIGITS_MAX: usize = 20;

/// The `Date` that was written last: real time, even after the system's clock has jumped.
///
/// hyper writes a `Date` as well, if there is none. It reads the system's clock once a second, and
/// measures that second by the same clock. A jump forward thus stops it for as long.
#[derive(Debug)]
pub(crate) struct DateHeader(ArcSwap<(u64, HeaderValue)>);

impl Default for DateHeader {
    fn default() -> Self {
        Self(ArcSwap::from_pointee((0, http_date(0))))
    }
}

impl DateHeader {
    /// Returns the header of an answer at this moment.
    pub(super) fn at(&self, now: Timestamp) -> HeaderValue {
        let second = now.as_millis() / 1000;
        let last = self.0.load();
        if last.0 == second {
            return last.1.clone();
        }
        let value = http_date(second);
        self.0.store(Arc::new((second, value.clone())));
        value
    }
}

/// Formats a second in the form of RFC 9110.
fn http_date(second: u64) -> HeaderValue {
    let moment = i64::try_from(second).ok().and_then(|it| jiff::Timestamp::from_second(it).ok());
    let text = DateTimePrinter::new().timestamp_to_rfc9110_string(&moment.unwrap_or_default());
    // The text has visible characters and spaces; years beyond 9999 are written as 1970.
    let epoch = HeaderValue::from_static("Thu, 01 Jan 1970 00:00:00 GMT");
    text.ok().and_then(|text| HeaderValue::from_str(&text).ok()).unwrap_or(epoch)
}

/// The content security policy of the dashboard.
///
/// The page loads only from this origin, runs no text as a script or as markup, and cannot be
/// framed. The one Trusted Types policy lets a worker's address pass.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
                           img-src 'self' data: blob:; connect-src 'self'; font-src 'self'; \
                           manifest-src 'self'; form-action 'self'; base-uri 'none'; \
                           frame-ancestors 'none'; require-trusted-types-for 'script'; \
                           trusted-types postrider-worker";

/// Adds the headers to an answer of `route`.
pub(super) fn add_page_headers(headers: &mut HeaderMap, route: &str, dashboard: &DashboardOptions) {
    add_common_headers(headers, is_private(route));
    if route != "/" && route != "/ui" && !route.starts_with("/ui/") {
        return;
    }
    let fixed = [
        (header::CONTENT_SECURITY_POLICY, PAGE_POLICY),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("permissions-policy"), PAGE_PERMISSIONS),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if dashboard.is_secure() {
        headers.insert(header::STRICT_TRANSPORT_SECURITY, HeaderValue::from_static(TLS_ONLY));
    }
}

/// Returns whether answers at a path are only for the holder of a key or token. Such answers have
/// secrets, codes or personal data.
pub(crate) fn is_private(path: &str) -> bool {
    ["/v1/", "/admin/", "/ui/api/"].iter().any(|below| path.starts_with(below))
}

/// Adds the headers that browsers and caches need with any answer.
pub(crate) fn add_common_headers(headers: &mut HeaderMap, is_private: bool) {
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if is_private {
        headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    }
}

/// Adds the five headers for a bucket.
pub(crate) fn add_rate_limit_headers(headers: &mut HeaderMap, bucket: BucketState, now: Timestamp) {
    let BucketState { limit, remaining, full_at, window_s } = bucket;
    let [limit, remaining, window_s] = [limit, remaining, window_s].map(u64::from);
    // Rounded up, so that the bucket is full at that second.
    let reset = full_at.as_millis().div_ceil(1000);
    let wait_s = u64::try_from(full_at.since(now).as_millis().div_ceil(1000)).unwrap_or(u64::MAX);
    let name = window_name(window_s);
    // One allocation for all texts, and no formatting: every answer to a key has them.
    let mut texts = HeaderTexts(Vec::with_capacity(TEXT_CAPACITY));
    let ends = [
        texts.number(limit).end(),
        texts.number(remaining).end(),
        texts.number(reset).end(),
        texts.text(name).text(";q=").number(limit).text(";w=").number(window_s).end(),
        texts.text(name).text(";r=").number(remaining).text(";t=").number(wait_s).end(),
    ];
    let (texts, mut start) = (Bytes::from(texts.0), 0);
    for (header, end) in
        [RATE_LIMIT, RATE_REMAINING, RATE_RESET, RATE_POLICY, RATE_STATE].into_iter().zip(ends)
    {
        // All texts are valid header values. If one were not, its header would be left out.
        if let Ok(value) = HeaderValue::from_maybe_shared(texts.slice(start..end)) {
            headers.insert(header, value);
        }
        start = end;
    }
}

/// Texts that are written one after the other.
struct HeaderTexts(Vec<u8>);

impl HeaderTexts {
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
    fn it_is_the_second_of_the_moment_whatever_was_before() {
        let date = DateHeader::default();
        for (millis, expected) in [
            (784_111_777_999, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (784_111_777_000, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (784_284_577_000, "Tue, 08 Nov 1994 08:49:37 GMT"),
            (784_111_778_000, "Sun, 06 Nov 1994 08:49:38 GMT"),
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (u64::MAX, "Thu, 01 Jan 1970 00:00:00 GMT"),
        ] {
            assert_eq!(date.at(Timestamp::from_millis(millis)), expected);
        }
    }

    #[test]
    fn numbers_are_written_as_ever() {
        for number in [0, 1, 9, 10, 99, 1000, 1_700_000_008, u64::from(u32::MAX), u64::MAX] {
            let mut texts = HeaderTexts(Vec::new());
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
        add_rate_limit_headers(&mut headers, bucket, now);
        let shown: Vec<_> = [RATE_LIMIT, RATE_REMAINING, RATE_RESET, RATE_POLICY, RATE_STATE]
            .iter()
            .map(|name| headers[name].to_str().unwrap().to_owned())
            .collect();
        assert_eq!(
            shown,
            ["1000", "998", "1700000008", "\"hour\";q=1000;w=3600", "\"hour\";r=998;t=8"]
        );
    }
}
