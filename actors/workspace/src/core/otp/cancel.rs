//! Pure: cancelled requests, requests to test phones, and the notes of callers.

use postrider_domain::code::Expiry;
use postrider_domain::event::OtpStatus;
use postrider_domain::event::otp::{OtpData, OtpNotes, OtpOwnNotes};
use postrider_domain::unavailable::{Unavailable, UnavailableReason};
use postrider_domain::{Event, EventData, Phone, PublicEvent, RequestId};

use super::types::{OtpSent, SendMore, SendOtpError, VerifyOtpError};
use crate::core::Core;
use crate::core::effects::Effects;

/// Cancels a request: its code verifies nothing from now on, and unsent messages are withdrawn.
///
/// A second call changes nothing.
pub(crate) fn cancel(
    core: &mut Core,
    id: RequestId,
    effects: &mut Effects,
) -> Result<(), VerifyOtpError> {
    let otp = match core.active(id) {
        Err(VerifyOtpError::Cancelled) => return Ok(()),
        otp => otp?,
    };
    core.perform(Event::OtpCancelled { id }, effects);
    core.keep_ended(&otp, OtpStatus::Cancelled, effects);
    let data = EventData::OtpCancelled(OtpData::of(id, otp.phone));
    core.emit(id, data.into(), effects);
    effects.withdrawn.extend(core.number_of(id).map(|number| (number, id)));
    Ok(())
}

/// Accepts a one-time password to a test phone: nothing is sent, counted or paid.
pub(super) fn send_test(
    core: &mut Core,
    phone: Phone,
    expiry: Expiry,
    more: Option<&SendMore>,
    id: RequestId,
    effects: &mut Effects,
) -> Result<OtpSent, SendOtpError> {
    if core.hot.otps.len() >= core.rules.otps_max {
        return Err(Unavailable::because(UnavailableReason::Overloaded).into());
    }
    let key_version = core.keys.current_version();
    core.perform(Event::OtpTest { id, phone, expiry, key_version }, effects);
    note(core, id, more, true, effects);
    let expires_at = id.timestamp().plus(expiry.duration());
    let event = PublicEvent::OtpSent { request_id: id, phone, expires_at, resend: false };
    core.emit(id, event, effects);
    Ok(OtpSent { request_id: id, expires_at, number: None })
}

/// Stores the notes that are shown with a request.
pub(super) fn note(
    core: &mut Core,
    id: RequestId,
    more: Option<&SendMore>,
    test: bool,
    effects: &mut Effects,
) {
    let notes = match more {
        Some(more) => OtpNotes {
            test,
            reference: more.reference.clone(),
            metadata: more.metadata.clone(),
            number_id: more.through,
            contact_id: None,
            own: own_notes(more),
        },
        None if !test => return,
        None => OtpNotes { test, ..OtpNotes::default() },
    };
    if let Some(notes) = notes.to_json() {
        core.perform(Event::OtpNoted { id, notes }, effects);
    }
}

fn own_notes(more: &SendMore) -> Option<Box<OtpOwnNotes>> {
    let own = OtpOwnNotes {
        languages: more.languages.clone(),
        inbound: more.inbound,
        pinned: more.from.is_some(),
        sender: None,
        decision: None,
        tries: Vec::new(),
    };
    (own != OtpOwnNotes::default()).then(|| Box::new(own))
}
