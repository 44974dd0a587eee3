//! News of the workspace's numbers.

use serde_json::json;

use crate::channel::Failure;
use crate::domain::{EventKind, NumberId, PublicEvent};
use crate::number::news::News;

use super::command::{Command, Context};
use super::messages::Unavailable;

/// Writes news of a number into the workspace's event log.
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
