//! What the provider calls back about: reports on messages, what contacts write, and
//! what became of templates.

use crate::channel::callback::{Callback, Inbound, Progress, StatusUpdate, TemplateUpdate};
use crate::channel::{Failure, FailureClass, Origin};
use crate::domain::NumberId;

use super::command::{Command, Context};
use super::messages::Unavailable;
use super::templates::apply_template_update;
use super::{Workspace, broadcasts, inbound, message};

/// Most items that one command takes up, and most bytes of what is told of them, so that its changes
/// fit in a commit.
const ITEMS_MAX: usize = 200;
const BYTES_MAX: usize = 64 * 1024;
/// What is told of an item beside the texts in it.
const ITEM_BYTES: usize = 512;
/// A byte of a text has so many in JSON at the most.
const ESCAPED: usize = 6;

impl Workspace {
    /// Takes a callback about the number; when this answers, all of it is durable. A callback that
    /// comes again changes nothing, nor does what is reported of messages that nobody knows.
    ///
    /// # Errors
    /// [`Unavailable`]: some of it may not have been taken, so the provider should repeat it.
    pub async fn receive(&self, number: NumberId, callback: Callback) -> Result<(), Unavailable> {
        let Callback { statuses, inbound, templates } = callback;
        for some in parts(statuses, report_bytes) {
            if let Some(fault) = self.perform(TakeReports(some)).await? {
                self.shared.numbers.fault(number, fault);
            }
        }
        for some in parts(inbound, inbound_bytes) {
            self.perform(TakeInbound { number, inbound: some }).await?;
        }
        for template in templates {
            if !self.perform(TakeTemplateUpdate(template)).await? {
                self.sync_templates_soon();
            }
        }
        Ok(())
    }
}

/// Cuts items into parts that one command can take up, in order.
fn parts<T>(items: Vec<T>, bytes_of: fn(&T) -> usize) -> Vec<Vec<T>> {
    let (mut parts, mut bytes) = (Vec::<Vec<T>>::new(), 0);
    for item in items {
        let more = ITEM_BYTES + bytes_of(&item);
        match parts.last_mut() {
            Some(last) if last.len() < ITEMS_MAX && bytes + more <= BYTES_MAX => {
                bytes += more;
                last.push(item);
            }
            _ => {
                bytes = more;
                parts.push(vec![item]);
            }
        }
    }
    parts
}

fn report_bytes(report: &StatusUpdate) -> usize {
    match &report.status {
        Progress::Failed(failure) => failure.details.len() * ESCAPED,
        _ => 0,
    }
}

/// A text is told by the message and by its conversation.
fn inbound_bytes(inbound: &Inbound) -> usize {
    let Inbound { name, kind, text, .. } = inbound;
    let texts = 2 * text.len() + name.as_ref().map_or(0, |name| name.len()) + kind.len();
    // It may be the first of its contact, and then it makes contact and conversation.
    2 * ITEM_BYTES + texts * ESCAPED
}

/// Answers why the number's account cannot send, if one of the reports says so and is news.
struct TakeReports(Vec<StatusUpdate>);

impl Command for TakeReports {
    type Answer = Option<Failure>;
    type Error = Unavailable;

    fn carry_out(self, context: &mut Context<'_>) -> Result<Option<Failure>, Unavailable> {
        let mut fault = None;
        for StatusUpdate { origin, status, at, .. } in &self.0 {
            let told = context.effects.log_count;
            match origin {
                Origin::Otp(id) => context.core.report(*id, status, context.effects),
                Origin::Message(id) => message::report(context, *id, status, *at)?,
                Origin::Broadcast { broadcast, index } => {
                    broadcasts::report(context, *broadcast, *index, status)?;
                }
            }
            if let Progress::Failed(failure) = status
                && failure.class == FailureClass::Account
                && context.effects.log_count > told
            {
                fault = Some(failure.clone());
            }
        }
        Ok(fault)
    }
}

struct TakeInbound {
    number: NumberId,
    inbound: Vec<Inbound>,
}

impl Command for TakeInbound {
    type Answer = ();
    type Error = Unavailable;

    fn carry_out(self, context: &mut Context<'_>) -> Result<(), Unavailable> {
        self.inbound.iter().try_for_each(|it| inbound::take(context, self.number, it))
    }
}

/// Answers whether the template is known.
struct TakeTemplateUpdate(TemplateUpdate);

impl Command for TakeTemplateUpdate {
    type Answer = bool;
    type Error = Unavailable;

    fn carry_out(self, context: &mut Context<'_>) -> Result<bool, Unavailable> {
        apply_template_update(context, &self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_bounded_and_in_order() {
        let lengths = |items: Vec<usize>| {
            let all = items.clone();
            let parts = parts(items, |bytes| *bytes);
            assert_eq!(parts.concat(), all);
            parts.iter().map(Vec::len).collect::<Vec<_>>()
        };
        assert!(lengths(vec![]).is_empty());
        assert_eq!(lengths(vec![0; 300]), [128, 128, 44]);
        // One that is too large for all is alone, and does not take others with it.
        assert_eq!(lengths(vec![5, BYTES_MAX, 7, 7]), [1, 1, 2]);
        assert_eq!(lengths(vec![BYTES_MAX / 2; 3]), [1, 1, 1]);
    }
}
