//! Reads one-time passwords that the actor has forgotten, from their records.

use std::ops::ControlFlow;
use std::time::Duration;

use postrider_domain::RequestId;
use postrider_domain::code::{ATTEMPTS_MAX, Expiry};
use postrider_domain::event::OtpStatus;
use postrider_domain::event::chain::{OtpChannel, TryStatus};
use postrider_domain::event::otp::{OtpNotes, OtpOwnNotes, OtpTry};
use postrider_store::{StoreError, Table};

use crate::Workspace;
use crate::core::otp::chain_tries::channel_of;
use crate::core::otp::ended::{self, Ended};
use crate::core::otp::ended_index;
use crate::core::otp::types::{OtpState, ReadOtpError};
use crate::sweep::{Look, RecordKeys, SLICE_MAX, SweepCursor};

/// The interval of the search for records to forget.
const ROUND: Duration = Duration::from_secs(3600);

impl Workspace {
    /// Returns the state of a request at its end.
    pub(super) async fn ended_otp(&self, id: RequestId) -> Result<OtpState, ReadOtpError> {
        if id.timestamp().plus(known_for(self.shared.otp.kept_for)) <= self.shared.clock.now() {
            return Err(ReadOtpError::NotFound);
        }
        let found = self
            .read(move |store, workspace| {
                let found = store.get(Table::Otps, &ended::key(workspace, id))?;
                found.map(|bytes| Ended::decode(&bytes)).transpose()
            })
            .await
            .map_err(ReadOtpError::Unavailable)?;
        found.map(|ended| state_of(id, &ended)).ok_or(ReadOtpError::NotFound)
    }
}

/// Returns the state of a request at its end, from its record.
pub(super) fn state_of(id: RequestId, ended: &Ended) -> OtpState {
    let notes = ended.notes.as_deref().map(OtpNotes::from_json).unwrap_or_default();
    let OtpOwnNotes { languages, inbound, tries, .. } =
        notes.own.as_deref().cloned().unwrap_or_default();
    let tries = if tries.is_empty() { sends_of(id, ended, &notes) } else { tries };
    let channel = channel_of(&tries);
    let language = languages.map(|languages| match channel {
        OtpChannel::Messaging => languages.template,
        OtpChannel::Sms | OtpChannel::Email => languages.text,
    });
    let number = notes.number_id;
    OtpState {
        request_id: id,
        status: ended.status,
        attempts_remaining: match ended.status {
            OtpStatus::Invalidated => 0,
            _ => ATTEMPTS_MAX.saturating_sub(ended.attempts),
        },
        expires_at: id.timestamp().plus(Duration::from_secs(ended.valid_seconds.into())),
        delivery: ended.delivery,
        notes,
        tries,
        channel,
        language: language.map(Into::into),
        phone: ended.phone.known(),
        number,
        inbound_code: None,
        is_inbound: inbound,
    }
}

/// Returns the sends of a code without a chain. Only the outcome of the newest is stored.
fn sends_of(id: RequestId, ended: &Ended, notes: &OtpNotes) -> Vec<OtpTry> {
    let inbound = notes.own.as_ref().is_some_and(|own| own.inbound);
    if inbound || notes.test {
        return Vec::new();
    }
    vec![OtpTry {
        step: ended.sends,
        channel: OtpChannel::Messaging,
        status: TryStatus::of(ended.delivery),
        error: None,
        price: 0,
        started_at: id.timestamp(),
        ended_at: None,
    }]
}

/// Returns the records that have been kept for their full time, with their index entries.
pub(crate) fn long_ended(
    look: &Look<'_>,
    cursor: &mut SweepCursor,
) -> Result<RecordKeys, StoreError> {
    let first = RequestId::from_parts(look.now.minus(known_for(look.kept.otps)), 0);
    let prefix = ended::prefix(look.workspace);
    let from = cursor.from.clone();
    let (mut keys, mut next) = (Vec::new(), look.now.plus(ROUND));
    look.scan(Table::Otps, &prefix, &from, &mut |key, value| {
        let id = key[prefix.len()..].try_into().ok().map(RequestId::from_bytes);
        if id.is_none_or(|id| first <= id) {
            return ControlFlow::Break(());
        }
        if keys.len() >= SLICE_MAX {
            next = look.now;
            return ControlFlow::Break(());
        }
        // The index entries of an unreadable record stay, and lead to nothing.
        let ended = id.zip(Ended::decode(value).ok());
        let entries = ended.iter().flat_map(|(id, of)| ended_index::keys(look.workspace, *id, of));
        keys.extend(entries.map(|key| (Table::OtpIndex, key)));
        keys.push((Table::Otps, key.to_vec()));
        cursor.pass(key);
        ControlFlow::Continue(())
    })?;
    cursor.rest_until(next);
    Ok(keys)
}

/// Returns how long after its start a request is known that is kept so long after its end.
fn known_for(kept_for: Duration) -> Duration {
    kept_for + Duration::from_secs(Expiry::MAX_SECONDS.into())
}
