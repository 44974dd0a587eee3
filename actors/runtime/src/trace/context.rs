//! Pure: the ids of a span and its trace, the header with them, and the spans of recent messages.

use std::collections::VecDeque;
use std::fmt;

use hashbrown::HashMap;

/// The bit of the header's flags by which the caller follows the request.
const SAMPLED: u8 = 1;
/// The maximum number of remembered subjects; the oldest is forgotten first.
const REMEMBERED_MAX: usize = 4096;

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

/// The subject with which a trace continues after its request, by its id.
///
/// It is a message or a request for a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Subject([u8; 16]);

impl From<[u8; 16]> for Subject {
    fn from(id: [u8; 16]) -> Self {
        Self(id)
    }
}

/// The remembered subjects.
#[derive(Debug, Default)]
pub(super) struct Subjects {
    contexts: HashMap<Subject, TraceContext>,
    /// The subjects in the order in which they came.
    order: VecDeque<Subject>,
}

impl Subjects {
    pub(super) fn is_empty(&self) -> bool {
        self.contexts.is_empty()
    }

    /// Records the span of a subject. A later span, such as that of a resend, takes its place.
    pub(super) fn note(&mut self, subject: Subject, context: TraceContext) {
        if self.contexts.insert(subject, context).is_some() {
            return;
        }
        self.order.push_back(subject);
        if self.order.len() > REMEMBERED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.contexts.remove(&oldest);
        }
    }

    pub(super) fn get(&self, subject: Subject) -> Option<TraceContext> {
        self.contexts.get(&subject).copied()
    }
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

    #[test]
    fn the_newest_subjects_are_remembered() {
        let mut subjects = Subjects::default();
        let subject = |number: usize| Subject((number as u128).to_be_bytes());
        let context = |span: u8| TraceContext::new([1; 16], [span; 8]);
        for number in 0..=REMEMBERED_MAX {
            subjects.note(subject(number), context(1));
        }
        assert_eq!(subjects.get(subject(0)), None, "the oldest is forgotten");
        assert_eq!(subjects.get(subject(1)), Some(context(1)));
        subjects.note(subject(1), context(2));
        assert_eq!(subjects.get(subject(1)), Some(context(2)), "a later one takes its place");
        assert_eq!((subjects.contexts.len(), subjects.order.len()), (4096, 4096));
    }
}
