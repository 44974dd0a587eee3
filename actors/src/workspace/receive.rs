//! What the provider calls back about: reports on messages, what contacts write, and
//! what became of templates.

use crate::channel::Origin;
use crate::channel::callback::{Callback, Inbound, StatusUpdate, TemplateUpdate};
use crate::domain::NumberId;

use super::command::{Command, Context};
use super::messages::Unavailable;
use super::templates::apply_template_update;
use super::{Workspace, broadcasts, inbound, message};

/// Most reports that one command takes up, so that its changes fit in a commit.
const REPORTS_MAX: usize = 200;

impl Workspace {
    /// Takes a callback about the number; when this answers, all of it is durable. A callback that
    /// comes again changes nothing, nor does what is reported of messages that nobody knows.
    ///
    /// # Errors
    /// [`Unavailable`]: some of it may not have been taken, so the provider should repeat it.
    pub async fn receive(&self, number: NumberId, callback: Callback) -> Result<(), Unavailable> {
        let Callback { statuses, inbound, templates } = callback;
        let mut statuses = statuses.into_iter().peekable();
        while statuses.peek().is_some() {
            let some = statuses.by_ref().take(REPORTS_MAX).collect();
            self.perform(TakeReports(some)).await?;
        }
        for inbound in inbound {
            self.perform(TakeInbound { number, inbound }).await?;
        }
        for template in templates {
            self.perform(TakeTemplateUpdate(template)).await?;
        }
        Ok(())
    }
}

struct TakeReports(Vec<StatusUpdate>);

impl Command for TakeReports {
    type Answer = ();
    type Error = Unavailable;

    fn carry_out(self, context: &mut Context<'_>) -> Result<(), Unavailable> {
        for StatusUpdate { origin, status, at, .. } in &self.0 {
            match origin {
                Origin::Otp(id) => context.core.report(*id, status, context.effects),
                Origin::Message(id) => message::report(context, *id, status, *at)?,
                Origin::Broadcast { broadcast, index } => {
                    broadcasts::report(context, *broadcast, *index, status)?;
                }
            }
        }
        Ok(())
    }
}

struct TakeInbound {
    number: NumberId,
    inbound: Inbound,
}

impl Command for TakeInbound {
    type Answer = ();
    type Error = Unavailable;

    fn carry_out(self, context: &mut Context<'_>) -> Result<(), Unavailable> {
        inbound::take(context, self.number, &self.inbound)
    }
}

struct TakeTemplateUpdate(TemplateUpdate);

impl Command for TakeTemplateUpdate {
    type Answer = ();
    type Error = Unavailable;

    fn carry_out(self, context: &mut Context<'_>) -> Result<(), Unavailable> {
        apply_template_update(context, &self.0)
    }
}
