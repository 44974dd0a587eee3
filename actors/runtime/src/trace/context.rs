//! Pure: the ids of a span and its trace, and the header that carries them.

use std::fmt;

/// The bit of the header's flags by which the caller follows the request.
const SAMPLED: u8 = 1;

/// A span of a trace, by their ids.
///
/// `Display` gives the `traceparent` header of W3C Trace Context, version 00.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TraceContext {
    trace: [u8; 16],
    span: [u8; 8],
}

impl TraceContext {
    /// Creates the span `span` of the trace `trace`.
    #[must_use]
    pub const fn new(trace: [u8; 16], span: [u8; 8]) -> Self {
        Self { trace, span }
    }

    /// Returns the trace's id.
    #[must_use]
    pub const fn trace_id(self) -> [u8; 16] {
        self.trace
    }

    /// Returns the span's id.
    #[must_use]
    pub const fn span_id(self) -> [u8; 8] {
        self.span
    }

    /// Parses a `traceparent` header, and returns whether its sender follows the request too.
    ///
    /// As the recommendation demands, a later version is parsed as far as version 00 goes. Any
    /// other text is no trace.
    #[must_use]
    pub fn parse(header: &str) -> Option<(Self, bool)> {
        let mut parts = header.split('-');
        let [version] = hex(parts.next()?)?;
        let (trace, span) = (hex(parts.next()?)?, hex(parts.next()?)?);
        let [flags] = hex(parts.next()?)?;
        let may_go_on = version != 0 || parts.next().is_none();
        let is_valid = version != 0xff && trace != [0; 16] && span != [0; 8] && may_go_on;
        is_valid.then_some((Self { trace, span }, flags & SAMPLED != 0))
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (trace, span) = (u128::from_be_bytes(self.trace), u64::from_be_bytes(self.span));
        write!(f, "00-{trace:032x}-{span:016x}-01")
    }
}

impl fmt::Debug for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Parses exactly `N` bytes in lower-case hexadecimal digits.
fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N {
        return None;
    }
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    const SPAN: &str = "b7ad6b7169203331";

    #[test]
    fn a_header_is_read_and_written() {
        let header = format!("00-{TRACE}-{SPAN}-01");
        let (context, is_followed) = TraceContext::parse(&header).unwrap();
        assert!(is_followed);
        assert_eq!(context.to_string(), header);
        for (flags, is_followed) in [("00", false), ("02", false), ("03", true), ("ff", true)] {
            let read = TraceContext::parse(&format!("00-{TRACE}-{SPAN}-{flags}"));
            assert_eq!(read, Some((context, is_followed)), "{flags}");
        }
        let later = TraceContext::parse(&format!("01-{TRACE}-{SPAN}-01-more"));
        assert_eq!(later, Some((context, true)));
    }

    #[test]
    fn what_does_not_fit_is_no_trace() {
        let zeros = |count| "0".repeat(count);
        for header in [
            String::new(),
            "00".into(),
            format!("00-{TRACE}-{SPAN}"),
            format!("00-{TRACE}-{SPAN}-01-more"),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("00-{}-{SPAN}-01", zeros(32)),
            format!("00-{TRACE}-{}-01", zeros(16)),
            format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            format!("00-{TRACE}x-{SPAN}-01"),
            format!("00-{TRACE}-{SPAN}-1"),
            format!("00-é{}-{SPAN}-01", zeros(30)),
        ] {
            assert_eq!(TraceContext::parse(&header), None, "{header}");
        }
    }
}
