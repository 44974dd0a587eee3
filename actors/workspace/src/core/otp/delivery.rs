//! Pure: the delivery of the messages that carry one-time passwords.
//!
//! It applies the number's outcomes, and the provider's reports after it took a message. A code
//! whose message had no answer is sent again: the same code twice is harmless. So it is repeated
//! while it is valid, a few times, with exponential backoff, unless a report settles the message
//! before.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use postrider_channel::Outbound;
use postrider_channel::callback::Progress;
use postrider_channel::outcome::FinalOutcome;
use postrider_domain::event::otp::OtpData;
use postrider_domain::event::{Delivery, EventDecodeError, OtpFailure, OtpStatus, Repeat};
use postrider_domain::{Event, EventData, MessageId, RequestId, Timestamp};
use postrider_number::HandedOver;
use postrider_runtime::flow::Backoff;

use crate::core::effects::Effects;
use crate::core::otp::day_counts::CountedEvent;
use crate::core::otp::failover;
use crate::core::otp::message::code_message;
use crate::core::otp::requests::{MessageStanding, Otp, OtpMessage};
use crate::core::{Core, credits};

/// The number of times that a code is sent again.
const REPEATS_MAX: u8 = 2;
/// The pause before a repeat: before the first, and the maximum.
const PAUSE: Backoff = Backoff { min: Duration::from_secs(10), max: Duration::from_secs(2560) };
/// The maximum of codes that one tick sends again.
const REPEATS_AT_ONCE: usize = 1000;

/// The codes to be sent again, by request.
#[derive(Debug, Default)]
pub(crate) struct Repeats {
    by_id: BTreeMap<RequestId, Repeat>,
    due: BTreeSet<(Timestamp, RequestId)>,
}

impl Repeats {
    pub(crate) fn get(&self, id: RequestId) -> Option<Repeat> {
        self.by_id.get(&id).copied()
    }

    pub(crate) fn set(&mut self, id: RequestId, repeat: Option<Repeat>) {
        let old = match repeat {
            Some(repeat) => self.by_id.insert(id, repeat),
            None => self.by_id.remove(&id),
        };
        if let Some(due) = old.and_then(|old| old.due) {
            self.due.remove(&(due, id));
        }
        self.due.extend(repeat.and_then(|repeat| repeat.due).map(|due| (due, id)));
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (RequestId, Repeat)> {
        self.by_id.iter().map(|(id, repeat)| (*id, *repeat))
    }

    /// Moves due times after `to` to that moment.
    pub(crate) fn rebase(&mut self, to: Timestamp) {
        let later = self.due.iter().filter(|(due, _)| *due > to).map(|(_, id)| *id);
        for id in later.collect::<Vec<_>>() {
            let repeat = self.get(id).map(|repeat| Repeat { due: Some(to), ..repeat });
            self.set(id, repeat);
        }
    }

    /// Forgets the repeats of requests that are forgotten.
    pub(crate) fn retain(&mut self, is_known: impl Fn(RequestId) -> bool) {
        self.by_id.retain(|id, _| is_known(*id));
        self.due.retain(|(_, id)| is_known(*id));
    }

    fn due(&self, now: Timestamp) -> Vec<RequestId> {
        let due = self.due.iter().take_while(|(at, _)| *at <= now);
        due.take(REPEATS_AT_ONCE).map(|(_, id)| *id).collect()
    }

    pub(crate) fn encode_into(&self, out: &mut Vec<u8>) {
        let repeats: Vec<_> = self.iter().collect();
        postrider_domain::event::encode(&repeats, out);
    }

    pub(crate) fn take_from(bytes: &mut &[u8]) -> Result<Self, EventDecodeError> {
        let (all, rest) = postcard::take_from_bytes::<Vec<(RequestId, Repeat)>>(bytes)
            .map_err(|_| EventDecodeError)?;
        *bytes = rest;
        let mut repeats = Self::default();
        all.into_iter().for_each(|(id, repeat)| repeats.set(id, Some(repeat)));
        Ok(repeats)
    }
}

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
        return failover::settle(core, &otp, number, settled, effects);
    }
    let message = core.hot.otps.earlier.message(&otp, number);
    if message.is.unsettled > 0 {
        settle_known(core, otp, message, settled, effects);
    } else if message.is_newest {
        settle_repeat(core, otp, settled, effects);
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
        refund_failed(core, &otp, message, reason, effects);
    }
    if delivery == Delivery::Unknown && message.is_newest {
        plan_repeat(core, otp.id, effects);
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
        return failover::give_up_tries(core, &otp, effects);
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
        return failover::report(core, &otp, number, progress, effects);
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
            // It was taken and paid for; from here on it has failed, so it is refunded once.
            let reason = OtpFailure::Channel { error_code: failure.code };
            refund_failed(core, &otp, message, reason, effects);
            Delivery::Failed
        }
    };
    core.perform(message.reported(id, delivery), effects);
    if delivery == Delivery::Delivered {
        core.count(otp.phone, CountedEvent::Delivered, effects);
        let data = OtpData::of(id, otp.phone);
        core.emit(id, EventData::OtpDelivered(data).into(), effects);
    }
}

/// Refunds a failed message. Its failure is reported unless the code was sent again meanwhile.
fn refund_failed(
    core: &mut Core,
    otp: &Otp,
    message: OtpMessage,
    reason: OtpFailure,
    effects: &mut Effects,
) {
    let price = core.rules.prices.otp;
    credits::refund(core, price, effects);
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
        let Self { number, is: MessageStanding { delivery: before, unsettled }, .. } = self;
        let reported = matches!(before, Delivery::Delivered | Delivery::Read);
        let delivery = if reported { before } else { delivery };
        Event::OtpEarlier { id, number, delivery, unsettled: unsettled.saturating_sub(1) }
    }

    /// Returns the event of the provider's report on the message.
    const fn reported(self, id: RequestId, delivery: Delivery) -> Event {
        let Self { number, is: MessageStanding { unsettled, .. }, is_newest } = self;
        if is_newest {
            return Event::OtpReported { id, delivery };
        }
        Event::OtpEarlier { id, number, delivery, unsettled }
    }
}

/// Returns whether the outcome of the request's message is unknown, and its code is of use at `at`.
fn is_lost(core: &Core, otp: &Otp, at: Timestamp) -> bool {
    let unknown = otp.delivery == Delivery::Unknown && otp.unsettled == 0;
    unknown && core.hot.otps.status(otp, at) == OtpStatus::Active
}

/// Plans the next repeat after a message without an answer, if there is one.
pub(crate) fn plan_repeat(core: &mut Core, id: RequestId, effects: &mut Effects) {
    let count = core.hot.repeats.get(id).map_or(0, |repeat| repeat.count);
    let due = core.now().plus(PAUSE.delay(count.into()));
    let lost = core.known(id).is_some_and(|otp| is_lost(core, &otp, due));
    let repeat = Repeat { count, due: Some(due) };
    set_repeat(core, id, (lost && count < REPEATS_MAX).then_some(repeat), effects);
}

/// Applies the channel's outcome for a code that was sent again.
pub(crate) fn settle_repeat(
    core: &mut Core,
    otp: Otp,
    settled: &FinalOutcome,
    effects: &mut Effects,
) {
    if core.hot.repeats.get(otp.id).is_none_or(|repeat| repeat.due.is_some()) {
        return;
    }
    match settled {
        FinalOutcome::Unknown => return plan_repeat(core, otp.id, effects),
        FinalOutcome::Sent | FinalOutcome::SentAs(_) | FinalOutcome::Held(_)
            if otp.delivery == Delivery::Unknown =>
        {
            let delivery = Delivery::Sent;
            core.perform(Event::OtpReported { id: otp.id, delivery }, effects);
        }
        // The first message may have arrived all the same.
        FinalOutcome::Sent
        | FinalOutcome::SentAs(_)
        | FinalOutcome::Held(_)
        | FinalOutcome::Failed(_)
        | FinalOutcome::NotSentInTime => {}
    }
    set_repeat(core, otp.id, None, effects);
}

/// Sends the codes that are due again. Returns whether there may be more.
pub(crate) fn send_due_repeats(core: &mut Core, effects: &mut Effects) -> bool {
    let due = core.hot.repeats.due(core.now());
    for id in due.iter().copied() {
        let count = core.hot.repeats.get(id).map_or(0, |repeat| repeat.count);
        if lost_message(core, id).is_some() {
            core.note_next_number(id, effects);
        }
        let message = lost_message(core, id);
        let repeat = message.is_some().then_some(Repeat { count: count + 1, due: None });
        set_repeat(core, id, repeat, effects);
        effects.outbound.extend(message.map(HandedOver::from));
    }
    due.len() == REPEATS_AT_ONCE
}

/// Returns the repeats that were under way: after a restart they are handed over once more.
pub(crate) fn repeats_under_way(core: &Core) -> impl Iterator<Item = Outbound> {
    let under_way = core.hot.repeats.iter().filter(|(_, repeat)| repeat.due.is_none());
    under_way.filter_map(|(id, _)| lost_message(core, id))
}

/// Returns the message of a request, if its outcome is unknown and its code is of use.
fn lost_message(core: &Core, id: RequestId) -> Option<Outbound> {
    let otp = core.known(id).filter(|otp| is_lost(core, otp, core.now()))?;
    code_message(core, &otp, MessageId::from_bytes(*id.as_bytes()))
}

fn set_repeat(core: &mut Core, id: RequestId, repeat: Option<Repeat>, effects: &mut Effects) {
    if core.hot.repeats.get(id) != repeat {
        core.perform(Event::OtpRepeat { id, repeat }, effects);
    }
}
