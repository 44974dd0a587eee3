//! Pure: the shown form of the tries to deliver a code.

use postrider_domain::event::chain::{OtpChannel, TryStatus};

use super::chain_state::Try;
use super::requests::Otp;
use super::types::OtpTry;
use crate::core::Core;

/// Returns the outcome of each try of a request.
pub(crate) fn tries_of(core: &Core, otp: &Otp) -> Vec<OtpTry> {
    let Some(chain) = core.hot.otps.chains.get(otp.id) else {
        return messages_of(core, otp);
    };
    let shown = |(step, it): (u8, &Try)| OtpTry {
        step,
        channel: it.step.channel,
        status: it.status,
        error: it.error,
        price: it.price,
        started_at: it.started_at,
        ended_at: it.ended_at,
    };
    (1..).zip(&chain.tries).map(shown).collect()
}

/// Returns the messages of a code that goes over the chat-app channel alone.
///
/// The time of each resend, and an error code, are reported by events only.
fn messages_of(core: &Core, otp: &Otp) -> Vec<OtpTry> {
    if core.hot.otps.extras.is_uncounted(otp.id) {
        return Vec::new();
    }
    let earlier = &core.hot.otps.earlier;
    let shown = |step: u8| {
        let status = TryStatus::of(earlier.message(otp, step).is.delivery);
        OtpTry {
            step,
            channel: OtpChannel::Messaging,
            status,
            error: None,
            price: if status == TryStatus::Failed { 0 } else { core.rules.prices.otp },
            started_at: core.hot.otps.sent_at(otp.id),
            ended_at: None,
        }
    };
    (1..=earlier.newest(otp.id)).map(shown).collect()
}

/// Returns the notes stored of a request that ends, beside the fields that each has.
pub(crate) fn notes_at_end(core: &Core, otp: &Otp) -> Option<Box<str>> {
    let extras = &core.hot.otps.extras;
    if core.hot.otps.chains.get(otp.id).is_none() {
        return extras.json(otp.id).map(Into::into);
    }
    let mut notes = extras.notes(otp.id);
    notes.own.get_or_insert_default().tries = tries_of(core, otp);
    notes.to_json()
}

/// Returns the channel of the try that arrived, or of the last one that started.
pub(crate) fn channel_of(tries: &[OtpTry]) -> OtpChannel {
    let arrived = tries.iter().find(|it| it.status.has_arrived());
    let begun = tries.iter().rev().find(|it| it.status != TryStatus::Skipped);
    arrived.or(begun).map_or(OtpChannel::Messaging, |it| it.channel)
}
