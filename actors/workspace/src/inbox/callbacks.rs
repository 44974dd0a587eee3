//! Records the provider's callbacks: reports, messages of contacts, and changes of templates.

use std::collections::VecDeque;

use postrider_channel::callback::{Callback, Inbound, Progress, StatusUpdate, TemplateUpdate};
use postrider_channel::{Failure, FailureClass, Origin};
use postrider_domain::NumberId;

use crate::core::command::{Command, Context};
use crate::inbox::inbound_messages;
use crate::inbox::phone_aliases;
use crate::templates::apply_template_update;
use crate::templates::sync as template_sync;
use crate::{Workspace, broadcasts, messages};
use postrider_domain::unavailable::Unavailable;

/// Most items that one command takes up: others want their turn too.
const ITEMS_MAX: usize = 100;
/// A command that has told the event log this much leaves the rest to another. One more item is
/// less than that again, as its texts are clipped, so a command's changes fit in a commit.
const LOG_BYTES_MAX: usize = 64 * 1024;

impl Workspace {
    /// Takes a callback about the number; when this answers, all of it is durable. A callback that
    /// comes again changes nothing, nor does what is reported of messages that nobody knows. Texts
    /// that are longer than may be kept are clipped.
    ///
    /// # Errors
    /// [`Unavailable`]: some of it may not have been taken, so the provider should repeat it.
    pub async fn receive(&self, number: NumberId, callback: Callback) -> Result<(), Unavailable> {
        let Callback { statuses, inbound, templates } = callback;
        let reports = statuses.into_iter().map(|it| Item::Report(number, it));
        let inbound = inbound.into_iter().map(|it| Item::Inbound(number, it.clipped()));
        let templates = templates.into_iter().map(Item::Template);
        let mut rest: VecDeque<_> = reports.chain(inbound).chain(templates).collect();
        while !rest.is_empty() {
            let taken = self.perform(Take(rest)).await?;
            if let Some(fault) = taken.fault {
                self.shared.numbers.fault(number, fault);
            }
            if taken.unknown_template {
                self.sync_templates_soon();
            }
            rest = taken.rest;
        }
        Ok(())
    }
}

/// One thing that a callback tells.
enum Item {
    Report(NumberId, StatusUpdate),
    Inbound(NumberId, Inbound),
    Template(TemplateUpdate),
}

/// Takes up items from the front, as many as fit in a commit.
struct Take(VecDeque<Item>);

/// What that leaves.
struct Taken {
    /// The other items.
    rest: VecDeque<Item>,
    /// Why the number's account cannot send, if one of the reports says so and is news.
    fault: Option<Failure>,
    /// It told of a template that is not known.
    unknown_template: bool,
}

impl Command for Take {
    type Answer = Taken;
    type Error = Unavailable;

    fn carry_out(self, context: &mut Context<'_>) -> Result<Taken, Unavailable> {
        let Self(mut items) = self;
        let (mut fault, mut unknown_template) = (None, false);
        for _ in 0..ITEMS_MAX {
            if context.effects.log.len() > LOG_BYTES_MAX {
                break;
            }
            match items.pop_front() {
                Some(Item::Report(number, it)) => {
                    let told = context.effects.log_count;
                    report(context, number, &it)?;
                    if let Progress::Failed(failure) = it.status
                        && failure.class == FailureClass::Account
                        && context.effects.log_count > told
                    {
                        fault = Some(failure);
                    }
                }
                Some(Item::Inbound(number, it)) => inbound_messages::take(context, number, &it)?,
                Some(Item::Template(update)) => {
                    unknown_template |= !apply_template_update(context, &update)?;
                }
                None => break,
            }
        }
        if unknown_template {
            template_sync::want(context)?;
        }
        Ok(Taken { rest: items, fault, unknown_template })
    }
}

fn report(
    context: &mut Context<'_>,
    number: NumberId,
    update: &StatusUpdate,
) -> Result<(), Unavailable> {
    let StatusUpdate { origin, status, at, to, known_as, .. } = update;
    let (to, written_at) = match *origin {
        Origin::Otp { request_id, number } => {
            context.core.report(request_id, number, status, context.effects);
            (context.core.known(request_id).map(|otp| otp.phone), request_id.timestamp())
        }
        Origin::Message(id) => (messages::report(context, id, status, *at)?, id.timestamp()),
        Origin::Broadcast { broadcast, index } => {
            broadcasts::report(context, broadcast, index, update)?;
            (*to, broadcast.timestamp())
        }
    };
    match to.zip(*known_as) {
        Some((to, known_as)) => phone_aliases::learn(context, number, to, known_as, written_at),
        None => Ok(()),
    }
}
