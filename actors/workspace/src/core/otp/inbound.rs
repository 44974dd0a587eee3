//! Pure: codes that people send to a number of the workspace, instead of receiving them.
//!
//! A request is verified by a message from its phone that has the code as a word of its own. A word
//! of as many digits that is not the code is a wrong one, as if it had been submitted. Only a phone
//! named by the channel counts: anybody who changes contacts may write another into one.
//!
//! The code of a request without a phone is longer, and anybody may send it. It is found by a keyed
//! hash, so a message costs one hash for each word of that length. A wrong one counts against no
//! request. The request of a person whose phone the channel hides stays without one.

use postrider_domain::code::{CodeLength, Expiry};
use postrider_domain::event::OtpStatus;
use postrider_domain::open_code::{InboundCode, OpenCode};
use postrider_domain::unavailable::{Unavailable, UnavailableReason};
use postrider_domain::{ContactId, Event, OtpCode, Phone, PublicEvent, RequestId};

use super::extras::note_send;
use super::limits::{check_limits, count_callers};
use super::requests::Otp;
use super::rolling_window::quotas_of_caller;
use super::types::{OtpSent, SendMore, SendOtpError};
use super::verify::count_wrong_code;
use crate::core::Core;
use crate::core::effects::Effects;

/// Creates a code for a phone to send. It costs nothing, and counts in the limits.
pub(super) fn begin(
    core: &mut Core,
    (id, phone): (RequestId, Phone),
    (expiry, length): (Expiry, CodeLength),
    more: &SendMore,
    effects: &mut Effects,
) -> Result<OtpSent, SendOtpError> {
    if core.number.is_none() {
        return Err(SendOtpError::NotConnected);
    }
    let quotas = quotas_of_caller(&core.keys, &core.rules.limits, &more.context);
    check_limits(core, phone, &quotas)?;
    if core.hot.otps.len() >= core.rules.otps_max {
        return Err(Unavailable::because(UnavailableReason::Overloaded).into());
    }
    let key_version = core.keys.current_version();
    let event = match phone.known() {
        Some(phone) => Event::OtpInbound { id, phone, expiry, length, key_version },
        None => {
            let key = core.keys.of_version(key_version).ok_or(SendOtpError::NotConnected)?;
            let hash = key.open_hash(&key.open_code(id));
            Event::OtpOpen { id, expiry, key_version, hash }
        }
    };
    core.perform(event, effects);
    count_callers(core, quotas, effects);
    note_send(core, id, Some(more), false, effects);
    let expires_at = id.timestamp().plus(expiry.duration());
    let event = PublicEvent::OtpSent { request_id: id, phone, expires_at, resend: false };
    core.emit(id, event, effects);
    Ok(OtpSent { request_id: id, expires_at, number: core.number_shown(id) })
}

/// Takes a text from these phones, which are one person's.
///
/// Requests whose code it has are verified, and others count a wrong one. The first phone is the
/// one that an open request shows.
pub(crate) fn take(
    core: &mut Core,
    (phones, contact): (&[Phone], ContactId),
    text: &str,
    effects: &mut Effects,
) {
    if core.hot.otps.extras.has_open() {
        take_open(core, (phones.first().copied(), contact), text, effects);
    }
    let extras = &core.hot.otps.extras;
    let asked: Vec<_> = phones.iter().flat_map(|phone| extras.inbound_of(*phone)).collect();
    let active = |id: RequestId| {
        let otp = core.active(id).ok()?;
        core.code_of(&otp).map(|code| (otp, code))
    };
    let wanted: Vec<(Otp, OtpCode)> = asked.into_iter().filter_map(active).collect();
    if wanted.is_empty() {
        return;
    }
    let words = words(text);
    let is_a_code = |word: &str| wanted.iter().any(|(_, code)| code.matches(word));
    let (right, wrong): (Vec<_>, Vec<_>) = words.partition(|word| is_a_code(word));
    for (otp, code) in wanted {
        if right.iter().any(|word| code.matches(word)) {
            verified(core, &otp, (Some(otp.phone), contact), effects);
            continue;
        }
        for _ in wrong.iter().filter(|word| code.is_like(word)) {
            // The fifth wrong code ends it.
            if let Ok(otp) = core.active(otp.id) {
                count_wrong_code(core, &otp, effects);
            }
        }
    }
}

/// Returns the runs of letters and digits of a text.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|it: char| !it.is_alphanumeric()).filter(|word| !word.is_empty())
}

/// Verifies the requests whose code, which anybody may send, is a word of a text.
fn take_open(core: &mut Core, from: (Option<Phone>, ContactId), text: &str, effects: &mut Effects) {
    for code in words(text).filter_map(OpenCode::read) {
        let extras = &core.hot.otps.extras;
        let found = core.keys.all().find_map(|key| extras.of_code(&key.open_hash(&code)));
        let otp = found.and_then(|id| core.active(id).ok());
        if let Some(otp) = otp
            && open_code_of(core, &otp).is_some_and(|of| of.matches(&code))
        {
            verified(core, &otp, from, effects);
        }
    }
}

fn verified(
    core: &mut Core,
    otp: &Otp,
    (sender, contact): (Option<Phone>, ContactId),
    effects: &mut Effects,
) {
    let mut notes = core.hot.otps.extras.notes(otp.id);
    notes.contact_id = Some(contact);
    if otp.phone.known().is_none() && sender.is_some() {
        notes.own.get_or_insert_default().sender = sender;
    }
    let phone = sender.unwrap_or(Phone::ANYBODY);
    if let Some(notes) = notes.to_json() {
        core.perform(Event::OtpNoted { id: otp.id, notes }, effects);
    }
    core.perform(Event::OtpVerified { id: otp.id }, effects);
    core.keep_ended(otp, OtpStatus::Verified, effects);
    core.emit(otp.id, PublicEvent::OtpVerified { request_id: otp.id, phone }, effects);
}

/// Returns the code of a request that its person sends.
pub(super) fn code_of(core: &Core, otp: &Otp) -> Option<InboundCode> {
    match core.hot.otps.extras.is_open(otp.id) {
        true => open_code_of(core, otp).map(InboundCode::Open),
        false if core.hot.otps.extras.is_inbound(otp.id) => {
            core.code_of(otp).map(InboundCode::Digits)
        }
        false => None,
    }
}

fn open_code_of(core: &Core, otp: &Otp) -> Option<OpenCode> {
    core.keys.of_version(otp.key_version).map(|key| key.open_code(otp.id))
}

/// Returns the phone to which a request's code went, or that has sent it.
pub(crate) fn phone_of(core: &Core, otp: &Otp) -> Phone {
    let sender = || core.hot.otps.extras.own(otp.id)?.sender;
    otp.phone.known().or_else(sender).unwrap_or(Phone::ANYBODY)
}
