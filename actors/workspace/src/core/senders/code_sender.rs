//! Pure: the number through which a request's messages leave.
//!
//! It is noted of the request if it is another one than the workspace's first, before a message is
//! handed to it. The status of templates changes, and may not change where a message is looked for.
//! A choice is noted of the contact too, in the commit that accepts the request. With one number
//! nothing is looked up and nothing is noted.

use std::time::Duration;

use postrider_channel::outcome::FinalOutcome;
use postrider_domain::event::OtpStatus;
use postrider_domain::event::chain::{ChainStep, OtpChannel};
use postrider_domain::event::otp::OtpNotes;
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{Event, NumberId, PartyId, Phone, RequestId};

use crate::core::Core;
use crate::core::command::Context;
use crate::core::effects::Effects;
use crate::core::otp::types::{SendOtp, SendOtpError};
use crate::core::otp::{delivery, languages};
use crate::core::senders::sticky_sender;
use crate::core::senders::takeover::MoveOutcome;

impl Core {
    /// Returns the number to which a request's newest message was handed.
    pub(crate) fn number_of(&self, id: RequestId) -> Option<NumberId> {
        let noted = self.hot.otps.extras.number(id);
        let is_known = |number: &NumberId| self.pool.account(*number).is_some();
        noted.filter(|noted| is_known(noted) || self.is_pinned(id)).or(self.number)
    }

    /// Returns the number for a request's next message.
    ///
    /// It is the same, unless only another one can send its template now.
    pub(crate) fn next_number(&self, id: RequestId) -> Option<NumberId> {
        let same = self.number_of(id);
        if self.pool.is_of_one_account() || self.is_pinned(id) {
            return same;
        }
        let language = &languages::template_of(self, id).language;
        let carries = |it: &NumberId| languages::check_template(self, language, *it).is_ok();
        let other = || self.pool.numbers().find(carries);
        same.filter(carries).or_else(other).or(same)
    }

    /// Notes the number of a request's next message, if that is another one.
    pub(crate) fn note_next_number(&mut self, id: RequestId, effects: &mut Effects) {
        let next = self.next_number(id);
        if let Some(next) = next.filter(|_| next != self.number_of(id)) {
            self.move_request(id, next, effects);
        }
    }

    /// Returns the number of a request that leaves through one, or is answered to it.
    pub(crate) fn number_shown(&self, id: RequestId) -> Option<NumberId> {
        self.number_of(id).filter(|_| self.goes_through_number(id))
    }

    /// Returns whether the number is connected through which a request has to leave.
    pub(crate) fn has_number(&self, id: RequestId) -> bool {
        let named = self.hot.otps.extras.number(id).filter(|_| self.is_pinned(id));
        self.number.is_some() && named.is_none_or(|named| self.pool.account(named).is_some())
    }

    /// Returns whether the sender has named the request's number: it leaves through no other.
    pub(crate) fn is_pinned(&self, id: RequestId) -> bool {
        self.hot.otps.extras.own(id).is_some_and(|own| own.pinned)
    }

    /// Returns whether the request's code goes through a number as it was sent last.
    ///
    /// It is of no test phone, and a step of its chain goes through one, if it has a chain.
    pub(crate) fn goes_through_number(&self, id: RequestId) -> bool {
        let is_message = |step: &ChainStep| step.channel == OtpChannel::Messaging;
        let chain = self.hot.otps.chains.get(id);
        !self.hot.otps.extras.is_test(id)
            && chain.is_none_or(|chain| chain.plan.steps.iter().any(is_message))
    }

    /// Sets the number of a request's next messages.
    pub(crate) fn move_request(&mut self, id: RequestId, to: NumberId, effects: &mut Effects) {
        let notes = OtpNotes { number_id: Some(to), ..self.hot.otps.extras.notes(id) };
        if let Some(notes) = notes.to_json() {
            self.perform(Event::OtpNoted { id, notes }, effects);
        }
    }
}

/// Sets the number of a send: the one that it names, or the contact's, or another one.
///
/// Another one is chosen at once while the contact's is down. `None` if there is no choice.
pub(crate) fn choose_for_send(
    command: &mut SendOtp,
    context: &Context<'_>,
) -> Result<Option<NumberId>, SendOtpError> {
    let named = command.more.as_deref().and_then(|more| more.from.as_deref());
    let leaves = command.more.as_deref().is_none_or(|more| !more.inbound)
        && command.phone.known().is_some()
        && context.core.test_phones.code(command.phone).is_none();
    let found = command.more.as_deref().and_then(|more| more.languages.as_ref());
    let language = found.map_or(&*context.core.otp_template.language, |it| &*it.template);
    let through = match named {
        Some(name) => {
            let number = sticky_sender::named(context, name).ok_or(SendOtpError::UnknownNumber)?;
            if leaves && !context.core.pool.is_of_one_account() {
                languages::check_template(context.core, language, number)?;
            }
            Some(number)
        }
        None if !context.core.pool.is_choice() || !leaves => return Ok(None),
        None => choose(context, command.phone, language)?,
    };
    command.more.get_or_insert_default().through = through;
    Ok(through)
}

/// Returns a contact's number for a code in this language, or another one at once if it is down.
fn choose(
    context: &Context<'_>,
    phone: Phone,
    language: &str,
) -> Result<Option<NumberId>, Unavailable> {
    let carries = |account: Option<&str>| languages::carries(context.core, language, account);
    sticky_sender::choose(context, &phone.into(), Duration::ZERO, carries)
}

/// Returns the note to write if a number becomes the contact's with a send.
pub(crate) fn to_note(
    context: &Context<'_>,
    phone: Phone,
    through: Option<NumberId>,
) -> Result<Option<Vec<u8>>, SendOtpError> {
    let Some(number) = through else { return Ok(None) };
    Ok(sticky_sender::to_note(context, &phone.into(), number, context.now())?)
}

/// Moves a code that waits for a number which is down to another one.
pub(crate) fn move_code(
    context: &mut Context<'_>,
    (id, message): (RequestId, u8),
    from: NumberId,
) -> Result<MoveOutcome, Unavailable> {
    let Some(otp) = context.core.known(id) else { return Ok(MoveOutcome::Over) };
    if context.core.hot.otps.status(&otp, context.now()) != OtpStatus::Active {
        let late = FinalOutcome::NotSentInTime;
        delivery::settle(context.core, id, message, &late, context.effects);
        return Ok(MoveOutcome::Over);
    }
    if context.core.is_pinned(id) {
        return Ok(MoveOutcome::Stays);
    }
    let contact = PartyId::from(otp.phone);
    let language = &languages::template_of(context.core, id).language;
    match choose(context, otp.phone, language)? {
        Some(to) if to != from && context.down_for(to).is_none() => {
            sticky_sender::note(context, &contact, to, context.now())?;
            context.core.move_request(id, to, context.effects);
            Ok(MoveOutcome::To(to))
        }
        _ => Ok(MoveOutcome::Stays),
    }
}

/// Returns the number for a resend if the request's own is down, and the note of its contact.
pub(crate) fn choose_for_resend(
    context: &Context<'_>,
    id: RequestId,
) -> Result<Option<MovedResend>, SendOtpError> {
    let is_down = |number| context.down_for(number).is_some();
    let core = &context.core;
    let may_move = core.pool.is_choice() && !core.is_pinned(id);
    if !may_move || !core.next_number(id).is_some_and(is_down) {
        return Ok(None);
    }
    let Some(otp) = context.core.known(id) else { return Ok(None) };
    let contact = PartyId::from(otp.phone);
    let to = choose(context, otp.phone, &languages::template_of(core, id).language)?;
    let Some(number) = to.filter(|to| context.down_for(*to).is_none()) else { return Ok(None) };
    let noted = sticky_sender::to_note(context, &contact, number, context.now())?;
    Ok(Some(MovedResend { number, contact, noted }))
}

/// A request that is sent again through another number.
pub(crate) struct MovedResend {
    /// The new number.
    pub(crate) number: NumberId,
    /// The contact whose number it becomes.
    pub(crate) contact: PartyId,
    /// The note of the contact, written once the code is on its way.
    pub(crate) noted: Option<Vec<u8>>,
}
