//! A timed piece of work; dropping it finishes it.

use std::sync::Arc;

use crate::random;

use super::{Recorder, TraceContext};

/// The role of a span towards those around it, as OpenTelemetry names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// The span answers a request of another process.
    Server,
    /// The span sends a request to another process.
    Client,
    /// The span stays within the process.
    Internal,
}

/// A value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attribute {
    /// A text.
    Text(String),
    /// A whole number.
    Number(i64),
}

impl From<&str> for Attribute {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Attribute {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<i64> for Attribute {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

/// A span that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinishedSpan {
    /// Its ids.
    pub context: TraceContext,
    /// The span above it.
    pub parent: Option<[u8; 8]>,
    /// The work that was done.
    pub name: String,
    /// The role towards the spans around it.
    pub kind: SpanKind,
    /// The time at which it started, in nanoseconds since the epoch.
    pub began_ns: u64,
    /// The time at which it ended, in nanoseconds since the epoch.
    pub ended_ns: u64,
    /// The attributes of the work. Never a secret, a phone number or the text of a message.
    pub attributes: Vec<(&'static str, Attribute)>,
    /// Set if the work failed.
    pub has_failed: bool,
}

/// A span under way. It ends when it is dropped.
#[derive(Debug)]
pub struct Span {
    recorder: Arc<Recorder>,
    /// `None` once it has ended.
    span: Option<FinishedSpan>,
    context: TraceContext,
}

impl Span {
    pub(super) fn begin(
        recorder: &Arc<Recorder>,
        trace: [u8; 16],
        parent: Option<[u8; 8]>,
        name: String,
        kind: SpanKind,
    ) -> Self {
        let context = TraceContext::new(trace, random::bytes());
        let now_ns = recorder.now_ns();
        let span = FinishedSpan {
            context,
            parent,
            name,
            kind,
            began_ns: now_ns,
            ended_ns: now_ns,
            attributes: Vec::new(),
            has_failed: false,
        };
        Self { recorder: Arc::clone(recorder), span: Some(span), context }
    }

    /// Returns the span's ids, for work that others do for it.
    #[must_use]
    pub const fn context(&self) -> TraceContext {
        self.context
    }

    /// Sets an attribute: never a secret, a phone number or the text of a message.
    pub fn set(&mut self, name: &'static str, value: impl Into<Attribute>) {
        if let Some(span) = &mut self.span {
            span.attributes.push((name, value.into()));
        }
    }

    /// Records that the work failed.
    pub fn fail(&mut self) {
        if let Some(span) = &mut self.span {
            span.has_failed = true;
        }
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        if let Some(mut span) = self.span.take() {
            span.ended_ns = self.recorder.now_ns().max(span.began_ns);
            self.recorder.finish(span);
        }
    }
}
