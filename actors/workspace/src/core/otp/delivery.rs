//! Pure: the delivery of the messages that carry one-time passwords.
//!
//! It applies the number's outcomes, and the provider's reports after it took a message.

use postrider_channel::callback::Progress;
use postrider_domain::event::otp::OtpData;
use postrider_domain::event::{Delivery, OtpFailure, OtpStatus};
use postrider_domain::{Event, EventData, RequestId};

use crate::core::Core;
use crate::core::effects::Effects;
use crate::core::otp::chain;
use crate::core::otp::day_counts::Counted;
use crate::core::otp::requests::Otp;
use crate::core::otp::resends::{OtpMessage, Standing};
use crate::core::otp::retries;
use postrider_channel::outcome::FinalOutcome;

/// Applies the channel's outcome for a request's message of this number.
///
/// A message that is handed over again after a restart may be answered twice; each payment is
/// settled once.
pub(crate) fn settle(
    core: &mut Core,
    id: RequestId,
    number: u8,
    settled: &FinalOutcome,
    effects: &mut Effects,
) {
    let Some(otp) = core.known(id) else { return };
    if core.hot.otps.chains.get(id).is_some() {
        return chain::settle(core, &otp, number, settled, effects);
    }
    let message = core.hot.otps.earlier.message(&otp, number);
    if message.is.unsettled > 0 {
        settle_known(core, otp, message, settled, effects);
    } else if message.is_newest {
        retries::settle(core, otp, settled, effects);
    }
}

fn settle_known(
    core: &mut Core,
    otp: Otp,
    message: OtpMessage,
    settled: &FinalOutcome,
    effects: &mut Effects,
) {
    let (delivery, failure) = match settled {
        FinalOutcome::Sent | FinalOutcome::SentAs(_) | FinalOutcome::Held(_) => {
            (Delivery::Sent, None)
        }
        FinalOutcome::Unknown => (Delivery::Unknown, None),
        FinalOutcome::Failed(failure) => {
            (Delivery::Failed, Some(OtpFailure::Channel { error_code: failure.code }))
        }
        FinalOutcome::NotSentInTime => (Delivery::Failed, Some(OtpFailure::NotSentInTime)),
    };
    core.perform(message.answered(otp.id, delivery), effects);
    if let Some(reason) = failure {
        pay_back(core, &otp, message, reason, effects);
    }
    if delivery == Delivery::Unknown && message.is_newest {
        retries::plan(core, otp.id, effects);
    }
}

/// Gives up the unsent messages of a forgotten request.
///
/// No number has them any more, or there was none while the request was of use.
pub(crate) fn give_up_unsent(core: &mut Core, otp: Otp, effects: &mut Effects) {
    if !core.hot.otps.owes(&otp) {
        return;
    }
    if core.hot.otps.chains.get(otp.id).is_some() {
        return chain::give_up_tries(core, &otp, effects);
    }
    for number in 1..=core.hot.otps.earlier.newest(otp.id) {
        let message = core.hot.otps.earlier.message(&otp, number);
        for _ in 0..if message.is.is_unsent() { message.is.unsettled } else { 0 } {
            settle_known(core, otp, message, &FinalOutcome::NotSentInTime, effects);
        }
    }
}

/// Takes what the provider reports of a request's message of this number. Reports come in any order
/// and more than once: a delivery never goes back. One that comes before the channel's own answer
/// leaves that its turn, unless it says that the message failed.
pub(crate) fn report(
    core: &mut Core,
    id: RequestId,
    number: u8,
    progress: &Progress,
    effects: &mut Effects,
) {
    let Some(otp) = core.known(id) else { return };
    if core.hot.otps.chains.get(id).is_some() {
        return chain::report(core, &otp, number, progress, effects);
    }
    let message = core.hot.otps.earlier.message(&otp, number);
    // A person who has entered the code has got it.
    let got = otp.noted == OtpStatus::Verified;
    let delivery = match (progress, message.is.delivery) {
        (_, Delivery::Read | Delivery::Failed) => return,
        (Progress::Read, _) => Delivery::Read,
        (_, Delivery::Delivered) => return,
        (Progress::Delivered, _) => Delivery::Delivered,
        (Progress::Sent, Delivery::Unknown) => Delivery::Sent,
        // The number's own answer says this too.
        (Progress::Sent, _) => return,
        (Progress::Failed(_), _) if got => return,
        (Progress::Failed(failure), _) if message.is.is_unsent() => {
            return settle(core, id, number, &FinalOutcome::Failed(failure.clone()), effects);
        }
        (Progress::Failed(failure), _) => {
            // It was taken and paid for; from here on it has failed, so it is paid back once.
            let reason = OtpFailure::Channel { error_code: failure.code };
            pay_back(core, &otp, message, reason, effects);
            Delivery::Failed
        }
    };
    core.perform(message.reported(id, delivery), effects);
    if delivery == Delivery::Delivered {
        core.count(otp.phone, Counted::Delivered, effects);
        let data = OtpData::of(id, otp.phone);
        core.emit(id, EventData::OtpDelivered(data).into(), effects);
    }
}

/// Pays back a failed message. That is reported unless the code was sent once more meanwhile.
fn pay_back(
    core: &mut Core,
    otp: &Otp,
    message: OtpMessage,
    reason: OtpFailure,
    effects: &mut Effects,
) {
    let refunded = core.credits.saturating_add(core.rules.prices.otp);
    core.set_credits(refunded, effects);
    if message.is_newest && otp.noted != OtpStatus::Cancelled {
        core.emit_failure(otp, reason, effects);
    }
}

impl OtpMessage {
    /// Returns the event of the channel's answer for the message.
    fn answered(self, id: RequestId, delivery: Delivery) -> Event {
        if self.is_newest {
            return Event::OtpDelivery { id, delivery };
        }
        let Self { number, is: Standing { delivery: before, unsettled }, .. } = self;
        let reported = matches!(before, Delivery::Delivered | Delivery::Read);
        let delivery = if reported { before } else { delivery };
        Event::OtpEarlier { id, number, delivery, unsettled: unsettled.saturating_sub(1) }
    }

    /// Returns the event of the provider's report on the message.
    const fn reported(self, id: RequestId, delivery: Delivery) -> Event {
        let Self { number, is: Standing { unsettled, .. }, is_newest } = self;
        if is_newest {
            return Event::OtpReported { id, delivery };
        }
        Event::OtpEarlier { id, number, delivery, unsettled }
    }
}
