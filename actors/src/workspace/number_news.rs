//! News of the workspace's numbers, and of whom they have written to.

use serde_json::json;

use crate::channel::Failure;
use crate::domain::{EventKind, NumberId, PublicEvent};
use crate::number::news::{News, Recipient};

use super::command::{Command, Context};
use super::unavailable::Unavailable;
use super::{aliases, suppressions};

/// Writes news of a number into the workspace's event log, or notes what it has learned.
#[derive(Debug, Clone)]
pub(crate) struct TellNews {
    pub(crate) number: NumberId,
    pub(crate) news: News,
}

impl Command for TellNews {
    type Answer = ();
    type Error = Unavailable;

    fn carry_out(self, context: &mut Context<'_>) -> Result<(), Unavailable> {
        let number_id = self.number.to_string();
        let (kind, data) = match self.news {
            News::Recipients(recipients) => {
                let mut recipients = recipients.into_iter();
                return recipients.try_for_each(|it| note(context, self.number, it));
            }
            News::Recovered => (EventKind::NumberRecovered, json!({ "number_id": number_id })),
            News::Stopped(Failure { code, details, .. }) => {
                let data = json!({ "number_id": number_id, "error_code": code, "reason": details });
                (EventKind::NumberStopped, data)
            }
        };
        let event = PublicEvent::Other { kind, data: data.to_string().into() };
        context.effects.tell(context.now(), event);
        Ok(())
    }
}

fn note(
    context: &mut Context<'_>,
    number: NumberId,
    recipient: Recipient,
) -> Result<(), Unavailable> {
    match recipient {
        Recipient::KnownAs { phone, known_as, at } => {
            aliases::learn(context, number, phone, known_as, at)
        }
        Recipient::StoppedMarketing(phone) => {
            let now = context.now();
            suppressions::stopped_marketing(context, phone, now)
        }
    }
}
