//! Writes the `Date` of answers: real time, even after the system's clock has jumped.
//!
//! hyper writes a `Date` as well, if there is none. It reads the system's clock once a second, and
//! measures that second by the same clock. A jump forward thus stops it for as long.

use std::sync::Arc;

use arc_swap::ArcSwap;
use axum::http::HeaderValue;
use jiff::fmt::rfc2822::DateTimePrinter;
use postrider_actors::domain::Timestamp;

/// The `Date` that was written last.
#[derive(Debug)]
pub(crate) struct DateHeader(ArcSwap<(u64, HeaderValue)>);

impl Default for DateHeader {
    fn default() -> Self {
        Self(ArcSwap::from_pointee((0, written(0))))
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
        let value = written(second);
        self.0.store(Arc::new((second, value.clone())));
        value
    }
}

/// Formats a second in the form of RFC 9110.
fn written(second: u64) -> HeaderValue {
    let moment = i64::try_from(second).ok().and_then(|it| jiff::Timestamp::from_second(it).ok());
    let text = DateTimePrinter::new().timestamp_to_rfc9110_string(&moment.unwrap_or_default());
    // The text has visible characters and spaces; years beyond 9999 are written as 1970.
    let epoch = HeaderValue::from_static("Thu, 01 Jan 1970 00:00:00 GMT");
    text.ok().and_then(|text| HeaderValue::from_str(&text).ok()).unwrap_or(epoch)
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
}
