//! Pure: the messages of chains, which a number carries out.

use std::time::Duration;

use postrider_channel::{Content, Origin, Outbound};
use postrider_domain::event::OtpStatus;
use postrider_domain::event::chain::{OtpChannel, TryStatus};
use postrider_domain::{MessageId, RequestId, Timestamp};

use super::chain_state::Try;
use super::requests::Otp;
use crate::core::Core;

/// Returns the message of a try over the chat-app channel.
pub(super) fn chained(core: &Core, otp: &Otp, number: u8) -> Option<Outbound> {
    let mut id = *otp.id.as_bytes();
    // Each try has an id of its own; that of the first is the request's.
    id[15] ^= number.saturating_sub(1);
    let mut message = core.outbound(otp, MessageId::from_bytes(id))?;
    message.origin = Origin::Otp { request_id: otp.id, number };
    if let Some(due) = give_up_at(core, otp.id, number) {
        // A further channel has its turn then.
        message.give_up_at = message.give_up_at.min(due);
    }
    if let Content::Otp { chained, .. } = &mut message.content {
        *chained = true;
    }
    Some(message)
}

/// Returns when a try that another step follows has had its time, unless it is handed over before.
fn give_up_at(core: &Core, id: RequestId, number: u8) -> Option<Timestamp> {
    let chain = core.hot.otps.chains.get(id)?;
    let Try { step, started_at, .. } = *chain.at(number)?;
    let is_last = number == chain.newest() && chain.next().is_none();
    let time = Duration::from_secs(step.timeout_seconds.into());
    (!is_last).then(|| started_at.plus(time))
}

/// Returns the unanswered messages of chains, to be handed over again.
pub(crate) fn unsent(core: &Core) -> Vec<Outbound> {
    let mut unsent = Vec::new();
    for (id, chain) in core.hot.otps.chains.iter() {
        let Some(otp) = core.known(id) else { continue };
        let is_active = core.hot.otps.status(&otp, core.now()) == OtpStatus::Active;
        for (number, tried) in (1..).zip(&chain.tries) {
            let is_unsent =
                tried.status == TryStatus::Queued && tried.step.channel == OtpChannel::Messaging;
            unsent.extend((is_active && is_unsent).then(|| chained(core, &otp, number)).flatten());
        }
    }
    unsent
}
