//! Chooses the number through which a one-time password leaves.
//!
//! The choice is noted of the request only if there is one, and of its contact too, in the commit
//! that accepts the request. With one number nothing is looked up and nothing is noted.

use std::time::Duration;

use postrider_channel::outcome::FinalOutcome;
use postrider_domain::event::OtpStatus;
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{NumberId, PartyId, Phone, RequestId};

use crate::core::command::Context;
use crate::core::otp::types::{SendOtp, SendOtpError};
use crate::core::otp::{delivery, languages};
use crate::core::sticky::{self, Moved};

/// Sets the number of a send: the one that it names, or the contact's, or another one.
///
/// Another one is chosen at once while the contact's is down. `None` if there is no choice.
pub(crate) fn resolve(
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
            let number = sticky::named(context, name).ok_or(SendOtpError::UnknownNumber)?;
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
    sticky::choose(context, &phone.into(), Duration::ZERO, carries)
}

/// Returns the note to write if a number becomes the contact's with a send.
pub(crate) fn to_note(
    context: &Context<'_>,
    phone: Phone,
    through: Option<NumberId>,
) -> Result<Option<Vec<u8>>, SendOtpError> {
    let Some(number) = through else { return Ok(None) };
    Ok(sticky::to_note(context, &phone.into(), number, context.now())?)
}

/// Moves a code that waits for a number which is down to another one.
pub(crate) fn move_code(
    context: &mut Context<'_>,
    (id, message): (RequestId, u8),
    from: NumberId,
) -> Result<Moved, Unavailable> {
    let Some(otp) = context.core.known(id) else { return Ok(Moved::Over) };
    if context.core.hot.otps.status(&otp, context.now()) != OtpStatus::Active {
        let late = FinalOutcome::NotSentInTime;
        delivery::settle(context.core, id, message, &late, context.effects);
        return Ok(Moved::Over);
    }
    if context.core.is_pinned(id) {
        return Ok(Moved::Stays);
    }
    let contact = PartyId::from(otp.phone);
    let language = &languages::template_of(context.core, id).language;
    match choose(context, otp.phone, language)? {
        Some(to) if to != from && context.down_for(to).is_none() => {
            sticky::note(context, &contact, to, context.now())?;
            context.core.move_request(id, to, context.effects);
            Ok(Moved::To(to))
        }
        _ => Ok(Moved::Stays),
    }
}

/// Returns the number for a resend if the request's own is down, and the note of its contact.
pub(crate) fn of_resend(
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
    let noted = sticky::to_note(context, &contact, number, context.now())?;
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
