//! A command in a box, on its way to the actor and back.

use postrider_domain::Unavailable;

use crate::core::audit::AuditDraft;
use crate::core::command::{Command, Context, Footprint};
use crate::core::quota;
use crate::mailbox::slot::ReplyTo;
use crate::mailbox::trace::CommandTrace;

/// A command on its way to the actor, with the way back.
pub trait Errand: Send {
    /// Carries the command out.
    fn run(self: Box<Self>, context: &mut Context<'_>) -> Box<dyn Answering>;
    /// Returns whether the command is accepted even while too much waits to be written.
    fn ends(&self) -> bool;
    /// Returns whether its effects may be submitted with those of commands that arrive with it.
    ///
    /// A traced or audited command is submitted alone.
    fn shares_submit(&mut self) -> bool;
    /// Refuses the command.
    fn refuse(self: Box<Self>, why: Unavailable);
}

/// An answer at the gate.
pub trait Answering: Send {
    /// Sends the answer.
    fn release(self: Box<Self>);
    /// Answers that the outcome is unknown.
    fn fail(self: Box<Self>, why: Unavailable);
    /// Returns the trace of the command, if it is traced.
    fn trace(&mut self) -> Option<&mut CommandTrace>;
}

/// A command and the recipient of its answer.
pub(crate) struct Asked<C: Command> {
    pub(crate) command: C,
    /// The audit entry to record if the command succeeds.
    pub(crate) audit: Option<Box<AuditDraft>>,
    pub(crate) reply: ReplyTo<C::Answer, C::Error>,
}

struct Answered<T, E> {
    reply: ReplyTo<T, E>,
    answer: Result<T, E>,
}

impl std::fmt::Debug for dyn Errand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Errand")
    }
}

impl<C: Command> Errand for Asked<C> {
    fn run(self: Box<Self>, context: &mut Context<'_>) -> Box<dyn Answering> {
        let Self { command, audit, reply } = *self;
        let room = if C::IS_HELD_TO_QUOTA { quota::check_bytes(context) } else { Ok(()) };
        let answer = room.map_err(C::Error::from).and_then(|()| command.carry_out(context));
        if let Some(audit) = audit.filter(|_| answer.is_ok()) {
            let now = context.now();
            audit.add_to(context.effects, now);
        }
        Box::new(Answered { reply, answer })
    }

    fn ends(&self) -> bool {
        C::FOOTPRINT == Footprint::Ends
    }

    fn shares_submit(&mut self) -> bool {
        C::SHARES_SUBMIT && self.audit.is_none() && self.reply.trace().is_none()
    }

    fn refuse(self: Box<Self>, why: Unavailable) {
        self.reply.send(Err(why.into()));
    }
}

impl<T: Send, E: From<Unavailable> + Send> Answering for Answered<T, E> {
    fn release(self: Box<Self>) {
        self.reply.send(self.answer);
    }

    fn fail(self: Box<Self>, why: Unavailable) {
        self.reply.send(Err(why.into()));
    }

    fn trace(&mut self) -> Option<&mut CommandTrace> {
        self.reply.trace()
    }
}
