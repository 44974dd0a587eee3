//! Traces: the work for a followed request, and the duration of each part.
//!
//! A trace is a tree of spans with one id, as W3C Trace Context and OpenTelemetry define it. The
//! edge starts one for a share of the requests. The engine adds the commit of a command, the
//! hand-over of its message to a channel and the delivery of its events. Nothing waits for a trace
//! or depends on one. Spans that nobody takes in time are dropped and counted, and a restart
//! forgets all earlier ones.

mod context;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::clock::{Clock, Stopwatch};
use crate::random;
use context::Subjects;

pub use context::{Subject, TraceContext};

/// The maximum number of finished spans that wait to be taken; more are dropped.
const WAITING_MAX: usize = 4096;

tokio::task_local! {
    /// The span for which the present task works.
    static CURRENT: Option<TraceContext>;
}

/// Starts spans and collects finished ones. Clones share everything; the default is off.
#[derive(Debug, Clone, Default)]
pub struct Traces(Option<Arc<Recorder>>);

/// The state that the spans of one process share.
#[derive(Debug)]
struct Recorder {
    sender: mpsc::Sender<FinishedSpan>,
    /// The followed share of requests whose caller sent no trace, from 0 to 1.
    ratio: f64,
    /// The start of `since`, in nanoseconds since the epoch.
    began_ns: u64,
    since: Stopwatch,
    dropped: AtomicU64,
    subjects: Mutex<Subjects>,
}

impl Traces {
    /// Follows `ratio` (0 to 1) of the requests. The receiver gets their spans as they finish.
    #[must_use]
    pub fn new(clock: &Clock, ratio: f64) -> (Self, mpsc::Receiver<FinishedSpan>) {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        let recorder = Recorder {
            sender,
            ratio,
            began_ns: clock.real().as_millis().saturating_mul(1_000_000),
            since: Stopwatch::start(),
            dropped: AtomicU64::new(0),
            subjects: Mutex::default(),
        };
        (Self(Some(Arc::new(recorder))), receiver)
    }

    /// Returns the first span of a request, if it is followed.
    ///
    /// `caller` is its `traceparent` header: a caller that follows the request decides for this
    /// server too.
    #[must_use]
    pub fn request(&self, name: impl FnOnce() -> String, caller: Option<&str>) -> Option<Span> {
        let recorder = self.0.as_ref()?;
        let caller = caller.and_then(TraceContext::parse);
        let is_followed = match caller {
            Some((_, is_followed)) => is_followed,
            None => random::fraction() < recorder.ratio,
        };
        if !is_followed {
            return None;
        }
        let (trace, parent) = match caller {
            Some((context, _)) => (context.trace_id(), Some(context.span_id())),
            None => (random::bytes(), None),
        };
        Some(Span::begin(recorder, trace, parent, name(), SpanKind::Server))
    }

    /// Starts a span below `parent`.
    #[must_use]
    pub fn below(&self, parent: TraceContext, name: &'static str, kind: SpanKind) -> Option<Span> {
        let recorder = self.0.as_ref()?;
        let (trace, above) = (parent.trace_id(), Some(parent.span_id()));
        Some(Span::begin(recorder, trace, above, name.to_owned(), kind))
    }

    /// Records that later work for `subject` belongs to a span.
    pub fn note(&self, subject: Subject, context: TraceContext) {
        if let Some(recorder) = &self.0 {
            recorder.subjects.lock().note(subject, context);
        }
    }

    /// Returns the span to which `subject` belongs. `subject` is called only if any span is known.
    #[must_use]
    pub fn of(&self, subject: impl FnOnce() -> Option<Subject>) -> Option<TraceContext> {
        let recorder = self.0.as_ref()?;
        if recorder.subjects.lock().is_empty() {
            return None;
        }
        let subject = subject()?;
        recorder.subjects.lock().get(subject)
    }

    /// Returns the number of spans since the start that nobody took in time.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.0.as_ref().map_or(0, |recorder| recorder.dropped.load(Ordering::Relaxed))
    }
}

impl Recorder {
    fn now_ns(&self) -> u64 {
        let since = u64::try_from(self.since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.began_ns.saturating_add(since)
    }

    fn finish(&self, span: FinishedSpan) {
        if self.sender.try_send(span).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Runs `work` for the span `context`, or for none.
pub fn within<F: Future>(
    context: Option<TraceContext>,
    work: F,
) -> impl Future<Output = F::Output> {
    CURRENT.scope(context, work)
}

/// Returns the span for which the present task works, if any.
#[must_use]
pub fn current() -> Option<TraceContext> {
    CURRENT.try_with(|context| *context).ok().flatten()
}

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
    fn begin(
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

#[cfg(test)]
mod tests {
    use super::*;
    use postrider_domain::Timestamp;

    const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn traces(ratio: f64) -> (Traces, mpsc::Receiver<FinishedSpan>) {
        Traces::new(&Clock::manual(Timestamp::from_millis(1_000)), ratio)
    }

    #[test]
    fn nothing_is_followed_where_traces_are_off() {
        let traces = Traces::default();
        assert!(traces.request(String::new, Some(CALLER)).is_none());
        assert!(traces.of(|| panic!("no subject is made")).is_none());
    }

    #[test]
    fn a_share_is_followed_and_a_caller_decides_for_its_own() {
        let (all, _all) = traces(1.0);
        let (none, mut taken) = traces(0.0);
        assert!(all.request(String::new, None).is_some());
        assert!(none.request(String::new, None).is_none());
        assert!(all.request(String::new, Some(&CALLER.replace("-01", "-00"))).is_none());
        assert!(none.request(String::new, Some("nonsense")).is_none());
        drop(none.request(|| "GET /x".to_owned(), Some(CALLER)));
        let span = taken.try_recv().unwrap();
        assert_eq!(span.name, "GET /x");
        assert_eq!(span.parent, Some(0xb7ad_6b71_6920_3331_u64.to_be_bytes()));
        assert_eq!(span.context.trace_id()[..2], [0x0a, 0xf7]);
        assert!(span.began_ns >= 1_000_000_000 && span.ended_ns >= span.began_ns);
    }

    #[test]
    fn spans_below_another_are_of_its_trace() {
        let (traces, mut taken) = traces(1.0);
        let request = traces.request(String::new, None).unwrap();
        let mut commit = traces.below(request.context(), "commit", SpanKind::Internal).unwrap();
        commit.set("records", 3_i64);
        commit.fail();
        drop(commit);
        let child = taken.try_recv().unwrap();
        assert_eq!(child.context.trace_id(), request.context().trace_id());
        assert_eq!(child.parent, Some(request.context().span_id()));
        assert_ne!(child.context.span_id(), request.context().span_id());
        assert!(child.has_failed);
        assert_eq!(child.attributes, [("records", Attribute::Number(3))]);
    }

    #[test]
    fn what_nobody_takes_is_dropped_and_counted() {
        let (traces, taken) = traces(1.0);
        for _ in 0..=WAITING_MAX {
            drop(traces.request(String::new, None));
        }
        assert_eq!((taken.len(), traces.dropped()), (WAITING_MAX, 1));
    }

    #[tokio::test]
    async fn a_task_knows_the_span_it_works_for() {
        let (traces, _taken) = traces(1.0);
        assert_eq!(current(), None);
        let context = traces.request(String::new, None).unwrap().context();
        assert_eq!(within(Some(context), async { current() }).await, Some(context));
        assert_eq!(within(None, async { current() }).await, None);
    }

    #[test]
    fn what_becomes_of_a_subject_belongs_to_its_span() {
        let (traces, _taken) = traces(1.0);
        let context = traces.request(String::new, None).unwrap().context();
        let (known, other) = (Subject::from([1; 16]), Subject::from([2; 16]));
        traces.note(known, context);
        assert_eq!(traces.of(|| Some(known)), Some(context));
        assert_eq!(traces.of(|| Some(other)), None);
    }
}
