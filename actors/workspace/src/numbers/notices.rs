//! Notices about the workspace's numbers and their recipients.

use postrider_channel::Failure;
use postrider_domain::event::number::{ChannelErrorData, NumberData, NumberStoppedData};
use postrider_domain::{EventData, NumberId, PartyNames};
use postrider_number::{NumberNotice, Recipient};

use crate::core::command::{Command, Context, Footprint};
use crate::inbox::identity_merge;
use crate::suppressions;
use postrider_domain::unavailable::Unavailable;

/// Writes a number's notice into the event log, or records the data about recipients in it.
#[derive(Debug, Clone)]
pub struct RecordNotice {
    /// The number.
    pub number: NumberId,
    /// The notice.
    pub notice: NumberNotice,
}

impl Command for RecordNotice {
    type Answer = ();
    type Error = Unavailable;

    const FOOTPRINT: Footprint = Footprint::Ends;

    fn carry_out(self, context: &mut Context<'_>) -> Result<(), Unavailable> {
        let number_id = self.number;
        let event = match self.notice {
            NumberNotice::Recipients(recipients) => {
                let mut recipients = recipients.into_iter();
                return recipients.try_for_each(|it| note(context, self.number, it));
            }
            NumberNotice::Recovered => EventData::NumberRecovered(NumberData { number_id }),
            NumberNotice::Unrecognized(Failure { code: error_code, details, .. }) => {
                let title = None;
                EventData::ChannelError(ChannelErrorData { number_id, error_code, title, details })
            }
            NumberNotice::Stopped(Failure { code, details, .. }) => {
                let (error_code, reason) = (code, details);
                EventData::NumberStopped(NumberStoppedData { number_id, error_code, reason })
            }
        };
        context.effects.emit(context.now(), event);
        Ok(())
    }
}

fn note(
    context: &mut Context<'_>,
    number: NumberId,
    recipient: Recipient,
) -> Result<(), Unavailable> {
    match recipient {
        Recipient::KnownAs { to, known_as: PartyNames { phone, user_id }, at } => {
            if let Some((to, known_as)) = to.phone().zip(phone) {
                identity_merge::learn_alias(context, number, to, known_as, at)?;
            }
            let id = user_id.as_ref().or(to.user_id());
            match to.phone().or(phone).zip(id) {
                Some((phone, id)) => identity_merge::learn(context, phone, id, at),
                None => Ok(()),
            }
        }
        Recipient::StoppedMarketing(phone) => {
            let now = context.now();
            suppressions::stopped_marketing(context, &phone.into(), now)
        }
    }
}
