//! Pure: channel failover: a code goes over the next channel until one has delivered it.
//!
//! A step is claimed and paid in the commit before its call. It ends when its channel refuses it or
//! its time is over; then the next one starts, in the same commit. All steps carry the same code.
//! A number carries out the steps over the chat-app channel, step workers all others.

use std::time::Duration;

use postrider_channel::callback::Progress;
use postrider_channel::outcome::FinalOutcome;
use postrider_channel::{Content, Origin, Outbound};
use postrider_domain::event::chain::{ChainStep, OtpChannel, TryStatus};
use postrider_domain::event::otp::{OtpData, OtpTryEndedData, OtpTryStartedData};
use postrider_domain::event::{OtpFailure, OtpStatus};
use postrider_domain::{Event, EventData, MessageId, RequestId, Timestamp};

use super::day_counts::CountedEvent;
use super::failover_plan::StepCall;
use super::failover_state::{Chain, Try};
use super::languages;
use super::message::code_message;
use super::requests::Otp;
use super::types::OtpTry;
use crate::core::effects::Effects;
use crate::core::{Core, credits};

/// The minimum of time left with which a step starts.
const LEFT_MIN: Duration = Duration::from_secs(5);
/// The maximum of chains that one tick drives.
const TICK_MAX: usize = 250;
/// The maximum of tries of a request.
pub(super) const TRIES_MAX: u8 = 100;

/// Starts the next step that can start, if the code has still to arrive.
pub(super) fn next_step(core: &mut Core, id: RequestId, is_down: bool, effects: &mut Effects) {
    loop {
        let Some(otp) = core.known(id) else { return };
        let Some(chain) = core.hot.otps.chains.get(id) else { return };
        let is_active = core.hot.otps.status(&otp, core.now()) == OtpStatus::Active;
        if !is_active || chain.has_arrived() {
            return;
        }
        let Some(step) = step_after(core, &otp) else {
            return give_up(core, &otp, effects);
        };
        let price = core.rules.prices.of_channel(step.channel);
        let is_left_out = || has_no_place(core, &otp) && has_further(core, chain);
        let begins = match step.channel {
            OtpChannel::Messaging => {
                let is_up = !is_down && core.has_number(id) && may_use_template(core, id);
                is_up && core.credits >= price && !is_left_out()
            }
            channel => can_begin(core, chain, channel),
        };
        let (status, price) =
            if begins { (TryStatus::Queued, price) } else { (TryStatus::Skipped, 0) };
        let at = core.now();
        if begins && chain.begun > 0 {
            let before = chain.tries.iter().rev().find(|it| it.status != TryStatus::Skipped);
            effects.steps.failovers.extend(before.map(|before| at.since(before.started_at)));
        }
        core.perform(Event::OtpTry { id, step, price, skipped: !begins, at }, effects);
        if begins {
            credits::charge(core, price, effects);
            return hand_over(core, &otp, step, effects);
        }
        emit_ended(core, &otp, step.channel, status, None, effects);
    }
}

/// Returns whether a step over this channel, not messaging, is set up and can be paid.
fn can_begin(core: &Core, chain: &Chain, channel: OtpChannel) -> bool {
    let is_up = match channel {
        OtpChannel::Messaging => false,
        OtpChannel::Sms => core.channels.sms,
        OtpChannel::Email => core.channels.mail && chain.plan.email.is_some(),
    };
    is_up && core.credits >= core.rules.prices.of_channel(channel)
}

/// Returns whether a later step over another channel can replace a message.
fn has_further(core: &Core, chain: &Chain) -> bool {
    chain.further().any(|channel| can_begin(core, chain, channel))
}

/// Returns whether a request has no place in its number's portfolio.
///
/// It has none if the portfolio has used its budget up, and the recipient needs a place.
fn has_no_place(core: &Core, otp: &Otp) -> bool {
    let number = core.next_number(otp.id);
    number.is_some_and(|number| core.full.has_no_place(number, otp.phone, core.now()))
}

fn may_use_template(core: &Core, id: RequestId) -> bool {
    let language = &languages::template_of(core, id).language;
    let is_own = *language == core.otp_template.language;
    if core.pool.is_of_one_account() && !is_own {
        return true;
    }
    let check = |number| languages::check_template(core, language, number);
    core.next_number(id).is_some_and(|number| check(number).is_ok())
}

/// Returns the step that would start now.
fn step_after(core: &Core, otp: &Otp) -> Option<ChainStep> {
    let left = core.hot.otps.expires_at(otp).since(core.now());
    core.hot.otps.chains.get(otp.id)?.next().filter(|_| left >= LEFT_MIN)
}

/// Ends a chain that has no step left to try.
fn give_up(core: &mut Core, otp: &Otp, effects: &mut Effects) {
    let Some(chain) = core.hot.otps.chains.get(otp.id) else { return };
    let last = chain.tries.last();
    let failed = chain.tries.iter().rev().find(|it| it.status == TryStatus::Failed);
    let error_code = failed.and_then(|it| it.error);
    let has_failed =
        last.is_some_and(|last| matches!(last.status, TryStatus::Failed | TryStatus::Skipped));
    if has_failed {
        core.emit_failure(otp, OtpFailure::Channel { error_code }, effects);
    }
}

/// Hands the newest try to its number or a step worker.
fn hand_over(core: &mut Core, otp: &Otp, step: ChainStep, effects: &mut Effects) {
    if step.channel == OtpChannel::Messaging {
        core.note_next_number(otp.id, effects);
    }
    let Some(chain) = core.hot.otps.chains.get(otp.id) else { return };
    let (number, email) = (chain.newest(), chain.plan.email.clone());
    let data = OtpTryStartedData {
        request_id: otp.id,
        phone: otp.phone,
        step: number,
        channel: step.channel.as_str(),
        test: None,
        reference: None,
        metadata: None,
        number_id: None,
    };
    core.emit(otp.id, EventData::OtpTryStarted(data).into(), effects);
    if step.channel == OtpChannel::Messaging {
        effects.outbound.extend(chained(core, otp, number).map(Into::into));
        return;
    }
    let Some(code) = core.code_of(otp) else { return };
    let until = core.now().plus(Duration::from_secs(step.timeout_seconds.into()));
    let expires_at = core.hot.otps.expires_at(otp);
    let language = languages::language_over(core, otp.id, step.channel);
    let text = core.channels.texts.text(&language);
    core.hot.otps.chains.note_handed(otp.id, number);
    effects.calls.push(StepCall {
        request: otp.id,
        number,
        channel: step.channel,
        phone: otp.phone,
        email,
        code,
        language,
        text,
        expires_at,
        until: until.min(expires_at),
    });
}

/// Applies a number's outcome for a request's message.
pub(super) fn settle(
    core: &mut Core,
    otp: &Otp,
    number: u8,
    settled: &FinalOutcome,
    effects: &mut Effects,
) {
    let (status, error) = match settled {
        FinalOutcome::Sent | FinalOutcome::SentAs(_) | FinalOutcome::Held(_) => {
            (TryStatus::Sent, None)
        }
        FinalOutcome::Unknown => (TryStatus::Unknown, None),
        FinalOutcome::Failed(failure) => (TryStatus::Failed, failure.code),
        FinalOutcome::NotSentInTime => (TryStatus::Failed, None),
    };
    let number = message_try(core, otp.id, number);
    change_try(core, otp, number, status, error, effects);
}

/// Applies a provider's report on a request's message.
pub(super) fn report(
    core: &mut Core,
    otp: &Otp,
    number: u8,
    progress: &Progress,
    effects: &mut Effects,
) {
    let (status, error) = match progress {
        Progress::Sent => (TryStatus::Sent, None),
        Progress::Delivered => (TryStatus::Delivered, None),
        Progress::Read => (TryStatus::Read, None),
        // A person who has entered the code has got it.
        Progress::Failed(_) if otp.noted == OtpStatus::Verified => return,
        Progress::Failed(failure) => (TryStatus::Failed, failure.code),
    };
    let number = message_try(core, otp.id, number);
    change_try(core, otp, number, status, error, effects);
}

/// Returns the number itself, or, for 0, that of the newest try over the chat-app channel.
fn message_try(core: &Core, id: RequestId, number: u8) -> u8 {
    if number > 0 {
        return number;
    }
    let tries = core.hot.otps.chains.get(id).map_or(&[][..], |chain| &chain.tries);
    let is_message = |it: &Try| it.step.channel == OtpChannel::Messaging;
    tries.iter().rposition(is_message).map_or(0, |place| place as u8 + 1)
}

/// Applies the outcome of a step by SMS or mail. A number reports the outcome of its own steps.
pub(crate) fn settle_step(
    core: &mut Core,
    id: RequestId,
    number: u8,
    (status, error): (TryStatus, Option<u32>),
    effects: &mut Effects,
) {
    let tried = core.hot.otps.chains.get(id).and_then(|chain| chain.at(number));
    if tried.is_none_or(|it| it.step.channel == OtpChannel::Messaging) {
        return;
    }
    if let Some(otp) = core.known(id) {
        change_try(core, &otp, number, status, error, effects);
    }
}

/// Returns whether a step that was not taken is to be tried again.
pub(crate) fn is_step_wanted(core: &Core, id: RequestId, number: u8) -> bool {
    let chain = core.hot.otps.chains.get(id).filter(|chain| !chain.has_arrived());
    let tried = chain.and_then(|chain| chain.at(number));
    let waits = tried.is_some_and(|it| it.status == TryStatus::Queued && it.ended_at.is_none());
    let status = core.known(id).map(|otp| core.hot.otps.status(&otp, core.now()));
    waits && status == Some(OtpStatus::Active)
}

fn change_try(
    core: &mut Core,
    otp: &Otp,
    number: u8,
    status: TryStatus,
    error: Option<u32>,
    effects: &mut Effects,
) {
    let Some(chain) = core.hot.otps.chains.get(otp.id) else { return };
    let Some(before) = chain.at(number).cloned() else { return };
    if !before.status.may_become(status) {
        return;
    }
    let (is_newest, had_arrived) = (number == chain.newest(), chain.has_arrived());
    let is_under_way = is_newest && before.ended_at.is_none();
    let was_last = is_newest && chain.next().is_none();
    let channel = before.step.channel;
    // Mail has no receipt.
    let is_last_mail = channel == OtpChannel::Email && chain.next().is_none();
    let ended = is_under_way
        && (status.has_arrived()
            || status == TryStatus::Failed
            || status == TryStatus::Sent && is_last_mail);
    let (id, at) = (otp.id, core.now());
    core.perform(Event::OtpTryChanged { id, number, status, error, at, ended }, effects);
    if status == TryStatus::Failed && before.price > 0 {
        credits::refund(core, before.price, effects);
    }
    if status.has_arrived() && !before.status.has_arrived() && !had_arrived {
        core.count(otp.phone, CountedEvent::Delivered, effects);
        let data = OtpData { channel: Some(channel.as_str()), ..OtpData::of(id, otp.phone) };
        core.emit(id, EventData::OtpDelivered(data).into(), effects);
    }
    if ended {
        emit_ended(core, otp, channel, status, error, effects);
    }
    if status.has_arrived() {
        // Nothing follows the step under way, and no time of its own ends it any more.
        end_newest(core, otp, effects);
    }
    if status == TryStatus::Failed && (ended || was_last) {
        next_step(core, id, false, effects);
    }
}

/// Ends the newest try with its present status, unless it has ended.
///
/// The chain does not wait for it any more. A later outcome of it still counts.
pub(crate) fn end_newest(core: &mut Core, otp: &Otp, effects: &mut Effects) {
    let Some(chain) = core.hot.otps.chains.get(otp.id) else { return };
    let number = chain.newest();
    let Some(Try { status, step, ended_at: None, .. }) = chain.at(number).cloned() else { return };
    let (id, at) = (otp.id, core.now());
    core.perform(
        Event::OtpTryChanged { id, number, status, error: None, at, ended: true },
        effects,
    );
    emit_ended(core, otp, step.channel, status, None, effects);
}

fn emit_ended(
    core: &Core,
    otp: &Otp,
    channel: OtpChannel,
    status: TryStatus,
    error_code: Option<u32>,
    effects: &mut Effects,
) {
    effects.steps.tries.push((channel, status));
    let chain = core.hot.otps.chains.get(otp.id);
    let is_active = core.hot.otps.status(otp, core.now()) == OtpStatus::Active;
    let goes_on = is_active && chain.is_some_and(|chain| !chain.has_arrived());
    let next = step_after(core, otp).filter(|_| goes_on);
    let data = OtpTryEndedData {
        request_id: otp.id,
        phone: otp.phone,
        step: chain.map_or(0, |chain| chain.newest()),
        channel: channel.as_str(),
        status: status.as_str(),
        error_code,
        next: next.map(|step| step.channel.as_str()),
        test: None,
        reference: None,
        metadata: None,
        number_id: None,
    };
    core.emit(otp.id, EventData::OtpTryEnded(data).into(), effects);
}

/// Continues after steps whose time is over, or whose outcome nobody will report.
///
/// Returns whether there may be more.
pub(crate) fn continue_due(core: &mut Core, effects: &mut Effects) -> bool {
    let interrupted = core.hot.otps.chains.interrupted(TICK_MAX);
    let due = core.hot.otps.chains.due(core.now(), TICK_MAX);
    let more = interrupted.len() == TICK_MAX || due.len() == TICK_MAX;
    for (id, number) in interrupted {
        if let Some(otp) = core.hot.otps.get(id).copied() {
            change_try(core, &otp, number, TryStatus::Unknown, None, effects);
        }
    }
    for id in due {
        let Some(otp) = core.hot.otps.get(id).copied() else { continue };
        end_newest(core, &otp, effects);
        next_step(core, id, false, effects);
    }
    more
}

/// Gives up the tries of a forgotten request: its number surely did not hand them over.
pub(super) fn give_up_tries(core: &mut Core, otp: &Otp, effects: &mut Effects) {
    while core.hot.otps.chains.owes(otp.id) {
        let tries = core.hot.otps.chains.get(otp.id).map_or(&[][..], |chain| &chain.tries);
        let waits =
            |it: &Try| it.status == TryStatus::Queued && it.step.channel == OtpChannel::Messaging;
        let Some(place) = tries.iter().position(waits) else { return };
        change_try(core, otp, place as u8 + 1, TryStatus::Failed, None, effects);
    }
}

/// Returns the message of a try over the chat-app channel.
pub(super) fn chained(core: &Core, otp: &Otp, number: u8) -> Option<Outbound> {
    let mut id = *otp.id.as_bytes();
    // Each try has an id of its own; that of the first is the request's.
    id[15] ^= number.saturating_sub(1);
    let mut message = code_message(core, otp, MessageId::from_bytes(id))?;
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
pub(crate) fn unsent_messages(core: &Core) -> Vec<Outbound> {
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
