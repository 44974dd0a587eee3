//! What is followed of a command: its commit, and where its messages go.

use postrider_channel::Outbound;
use postrider_runtime::Traces;
use postrider_runtime::trace::{self, Span, SpanKind, TraceContext};

/// A command of a request that is followed. It travels with the way to its reply.
#[derive(Debug)]
pub struct CommandTrace {
    traces: Traces,
    context: TraceContext,
    /// Under way from the moment at which the command is submitted to the writer until its reply
    /// is released.
    commit: Option<Span>,
}

impl CommandTrace {
    /// That of a command which the present task asks for, if its request is followed.
    pub(crate) fn of_this_task(traces: &Traces) -> Option<Box<Self>> {
        let context = trace::current()?;
        Some(Box::new(Self { traces: traces.clone(), context, commit: None }))
    }

    /// The command was submitted; `messages` leave once that is durable.
    pub(crate) fn submitted<'a>(&mut self, messages: impl Iterator<Item = &'a Outbound>) {
        self.commit = self.traces.below(self.context, "commit", SpanKind::Internal);
        for subject in messages.filter_map(|message| message.origin.trace_subject()) {
            self.traces.note(subject, self.context);
        }
    }
}
