//! Pure: retries of codes whose message had no answer.
//!
//! The same code twice is harmless. So it is sent again while it is valid, a few times, with
//! exponential backoff, unless a report settles the message before.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use postrider_channel::Outbound;
use postrider_domain::event::{Delivery, EventDecodeError, OtpStatus, Repeat};
use postrider_domain::{Event, MessageId, RequestId, Timestamp};
use postrider_number::capacity::HandedOver;
use postrider_runtime::flow::Backoff;

use crate::core::Core;
use crate::core::effects::Effects;
use crate::core::otp::requests::Otp;
use postrider_channel::outcome::FinalOutcome;

/// The number of times that a code is sent again.
const REPEATS_MAX: u8 = 2;
/// The pause before a repeat: before the first, and the maximum.
const PAUSE: Backoff = Backoff { min: Duration::from_secs(10), max: Duration::from_secs(2560) };
/// The maximum of codes that one tick sends again.
const TICK_MAX: usize = 1000;

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
        due.take(TICK_MAX).map(|(_, id)| *id).collect()
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

/// Returns whether the outcome of the request's message is unknown, and its code is of use at `at`.
fn is_lost(core: &Core, otp: &Otp, at: Timestamp) -> bool {
    let unknown = otp.delivery == Delivery::Unknown && otp.unsettled == 0;
    unknown && core.hot.otps.status(otp, at) == OtpStatus::Active
}

/// Plans the next repeat after a message without an answer, if there is one.
pub(crate) fn plan(core: &mut Core, id: RequestId, effects: &mut Effects) {
    let count = core.hot.repeats.get(id).map_or(0, |repeat| repeat.count);
    let due = core.now().plus(PAUSE.delay(count.into()));
    let lost = core.known(id).is_some_and(|otp| is_lost(core, &otp, due));
    let repeat = Repeat { count, due: Some(due) };
    set_repeat(core, id, (lost && count < REPEATS_MAX).then_some(repeat), effects);
}

/// Applies the channel's outcome for a code that was sent again.
pub(crate) fn settle(core: &mut Core, otp: Otp, settled: &FinalOutcome, effects: &mut Effects) {
    if core.hot.repeats.get(otp.id).is_none_or(|repeat| repeat.due.is_some()) {
        return;
    }
    match settled {
        FinalOutcome::Unknown => return plan(core, otp.id, effects),
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
pub(crate) fn send_due(core: &mut Core, effects: &mut Effects) -> bool {
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
    due.len() == TICK_MAX
}

/// Returns the repeats that were under way: after a restart they are handed over once more.
pub(crate) fn under_way(core: &Core) -> impl Iterator<Item = Outbound> {
    let under_way = core.hot.repeats.iter().filter(|(_, repeat)| repeat.due.is_none());
    under_way.filter_map(|(id, _)| lost_message(core, id))
}

/// Returns the message of a request, if its outcome is unknown and its code is of use.
fn lost_message(core: &Core, id: RequestId) -> Option<Outbound> {
    let otp = core.known(id).filter(|otp| is_lost(core, otp, core.now()))?;
    core.outbound(&otp, MessageId::from_bytes(*id.as_bytes()))
}

fn set_repeat(core: &mut Core, id: RequestId, repeat: Option<Repeat>, effects: &mut Effects) {
    if core.hot.repeats.get(id) != repeat {
        core.perform(Event::OtpRepeat { id, repeat }, effects);
    }
}
