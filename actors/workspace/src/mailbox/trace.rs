//! The trace of a command: its commit, and the route of its messages.

use postrider_channel::Outbound;
use postrider_runtime::Traces;
use postrider_runtime::trace::{self, Span, SpanKind, TraceContext};

/// A command of a traced request. It travels with the way to its reply.
#[derive(Debug)]
pub struct CommandTrace {
    traces: Traces,
    context: TraceContext,
    /// The span from the submission of the command to the writer until its reply is released.
    commit: Option<Span>,
}

impl CommandTrace {
    /// Returns the trace of a command of the present task, if its request is traced.
    pub(crate) fn of_this_task(traces: &Traces) -> Option<Box<Self>> {
        let context = trace::current()?;
        Some(Box::new(Self { traces: traces.clone(), context, commit: None }))
    }

    /// Starts the span of the commit; `messages` leave once the command is durable.
    pub(crate) fn submitted<'a>(&mut self, messages: impl Iterator<Item = &'a Outbound>) {
        self.commit = self.traces.below(self.context, "commit", SpanKind::Internal);
        for subject in messages.filter_map(|message| message.origin.trace_subject()) {
            self.traces.note(subject, self.context);
        }
    }
}
