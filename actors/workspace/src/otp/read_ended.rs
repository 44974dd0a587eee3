//! Reads one-time passwords that have ended from their records.
//!
//! A list reads them newest first, behind the requests in memory. The state of one request is read
//! from its record when the actor has forgotten the request. A sweep reads those past their
//! retention time.

use std::ops::ControlFlow;
use std::time::Duration;

use postrider_domain::code::{ATTEMPTS_MAX, Expiry};
use postrider_domain::event::OtpStatus;
use postrider_domain::event::chain::{OtpChannel, TryStatus};
use postrider_domain::event::otp::{OtpNotes, OtpOwnNotes, OtpTry};
use postrider_domain::{RequestId, WorkspaceId};
use postrider_store::{Direction, StoreError, Table, View};

use crate::core::otp::ended_record::{self, EndedBy, EndedOtp};
use crate::core::otp::failover::channel_of;
use crate::core::otp::types::{OtpState, ReadOtpError};
use crate::newest_first::WalkBatch;
use crate::otp::list::OtpFilter;
use crate::sweep::{Look, RecordKeys, SLICE_MAX, SweepCursor};
use crate::{Workspace, newest_first};

/// The interval of the search for records to forget.
const ROUND: Duration = Duration::from_secs(3600);

/// The sources and the bounds of a search.
#[derive(Clone, Copy)]
struct EndedSearch<'a> {
    store: &'a dyn View,
    workspace: &'a WorkspaceId,
    filter: &'a OtpFilter,
    before: Option<RequestId>,
    /// The number of wanted rows, and the maximum of rows to look at.
    wanted: (usize, usize),
}

/// Returns the rows before a request that a filter matches, but for its channel.
///
/// They are at most so many, of so many that are looked at.
pub(super) fn ended_before(
    store: &dyn View,
    workspace: &WorkspaceId,
    filter: &OtpFilter,
    before: Option<RequestId>,
    wanted: (usize, usize),
) -> Result<WalkBatch<RequestId, OtpState>, StoreError> {
    let records = EndedSearch { store, workspace, filter, before, wanted };
    let reference = filter.reference.as_deref().map(EndedBy::Reference);
    match filter.phone.map(EndedBy::Phone).or(reference) {
        Some(by) => records.indexed(by),
        None => records.scan(),
    }
}

impl EndedSearch<'_> {
    /// Reads the records that an index names.
    fn indexed(&self, by: EndedBy<'_>) -> Result<WalkBatch<RequestId, OtpState>, StoreError> {
        let mut batch = WalkBatch { rows: Vec::new(), looked_at: 0, down_to: None };
        let (prefix, mut before) = (by.prefix(self.workspace), self.before);
        loop {
            let (enough, looks) = self.wanted;
            let bytes = before.as_ref().map(RequestId::as_bytes);
            let place = (Table::OtpIndex, &*prefix);
            let ids = newest_first::ids_before(self.store, place, bytes, enough)?;
            for id in ids.iter().copied().map(RequestId::from_bytes) {
                if self.filter.is_before(id.timestamp()) {
                    return Ok(batch);
                }
                let key = ended_record::key(self.workspace, id);
                let record = self.store.get(Table::Otps, &key)?;
                // A removed record had been kept for its full time.
                let record = record.map(|bytes| EndedOtp::decode(&bytes)).transpose()?;
                let row = record.map(|record| state_of(id, &record));
                batch.rows.extend(row.filter(|row| self.filter.takes(row)).map(|row| (id, row)));
                batch.looked_at += 1;
                if batch.rows.len() == enough || batch.looked_at >= looks {
                    batch.down_to = Some(id);
                    return Ok(batch);
                }
            }
            if ids.len() < enough {
                return Ok(batch);
            }
            before = ids.last().copied().map(RequestId::from_bytes);
        }
    }

    /// Reads all records, one by one.
    fn scan(&self) -> Result<WalkBatch<RequestId, OtpState>, StoreError> {
        let mut batch = WalkBatch { rows: Vec::new(), looked_at: 0, down_to: None };
        let prefix = ended_record::prefix(self.workspace);
        let from = self.before.map(|before| ended_record::key(self.workspace, before));
        let (direction, mut damage) = (Direction::Backward, None);
        let (enough, looks) = self.wanted;
        self.store.scan(Table::Otps, &prefix, from.as_deref(), direction, &mut |key, value| {
            let Some(id) = key[prefix.len()..].try_into().ok().map(RequestId::from_bytes) else {
                return ControlFlow::Continue(());
            };
            if self.before.is_some_and(|before| before <= id) {
                return ControlFlow::Continue(());
            }
            if self.filter.is_before(id.timestamp()) {
                return ControlFlow::Break(());
            }
            match EndedOtp::decode(value) {
                Ok(record) => {
                    let row = Some(state_of(id, &record)).filter(|row| self.filter.takes(row));
                    batch.rows.extend(row.map(|row| (id, row)));
                }
                Err(error) => damage = Some(error),
            }
            batch.looked_at += 1;
            if batch.rows.len() == enough || batch.looked_at >= looks {
                batch.down_to = Some(id);
            }
            match batch.down_to.is_some() || damage.is_some() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        })?;
        damage.map_or(Ok(batch), Err)
    }
}

impl Workspace {
    /// Returns the state of a request at its end.
    pub(super) async fn ended_otp(&self, id: RequestId) -> Result<OtpState, ReadOtpError> {
        if id.timestamp().plus(known_for(self.shared.otp.kept_for)) <= self.shared.clock.now() {
            return Err(ReadOtpError::NotFound);
        }
        let found = self
            .read(move |store, workspace| {
                let found = store.get(Table::Otps, &ended_record::key(workspace, id))?;
                found.map(|bytes| EndedOtp::decode(&bytes)).transpose()
            })
            .await
            .map_err(ReadOtpError::Unavailable)?;
        found.map(|ended| state_of(id, &ended)).ok_or(ReadOtpError::NotFound)
    }
}

/// Returns the state of a request at its end, from its record.
pub(super) fn state_of(id: RequestId, ended: &EndedOtp) -> OtpState {
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
    let expires_at = id.timestamp().plus(Duration::from_secs(ended.valid_seconds.into()));
    // An expired code ended then, not at the tick that came to it: a pending one is listed so too.
    let expired_at = (ended.status == OtpStatus::Expired).then_some(expires_at);
    OtpState {
        request_id: id,
        status: ended.status,
        attempts_remaining: match ended.status {
            OtpStatus::Invalidated => 0,
            _ => ATTEMPTS_MAX.saturating_sub(ended.attempts),
        },
        expires_at,
        delivery: ended.delivery,
        sends: ended.sends,
        verified_at: ended.verified_at,
        ended_at: Some(expired_at.unwrap_or(ended.ended_at)),
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
fn sends_of(id: RequestId, ended: &EndedOtp, notes: &OtpNotes) -> Vec<OtpTry> {
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
pub(crate) fn expired_otps(
    look: &Look<'_>,
    cursor: &mut SweepCursor,
) -> Result<RecordKeys, StoreError> {
    let first = RequestId::from_parts(look.now.minus(known_for(look.kept.otps)), 0);
    let prefix = ended_record::prefix(look.workspace);
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
        let ended = id.zip(EndedOtp::decode(value).ok());
        let entries =
            ended.iter().flat_map(|(id, of)| ended_record::index_keys(look.workspace, *id, of));
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

#[cfg(test)]
mod tests {
    use postrider_domain::Timestamp;
    use postrider_domain::event::Delivery;
    use postrider_store::{Change, Group, MemoryStore, Store};

    use super::*;
    use crate::core::otp::ended_record;

    /// The record of a request, with its entries.
    fn keep(store: &MemoryStore, workspace: &WorkspaceId, number: u64) {
        let at = Timestamp::from_millis(1_700_000_000_000 + number * 300_000);
        let id = RequestId::from_parts(at, number.into());
        let ended = EndedOtp {
            phone: format!("+1555012000{}", number % 2).parse().unwrap(),
            valid_seconds: 900,
            status: OtpStatus::Expired,
            delivery: Delivery::Sent,
            attempts: 0,
            sends: 1,
            verified_at: None,
            ended_at: at,
            notes: Some(format!(r#"{{"reference":"order-{}"}}"#, number % 3).into()),
        };
        let mut changes =
            vec![Change::put(Table::Otps, ended_record::key(workspace, id), ended.encode())];
        let keys = ended_record::index_keys(workspace, id, &ended);
        changes.extend(keys.map(|key| Change::put(Table::OtpIndex, key, [])));
        store.commit(Group::new(None, &changes)).unwrap();
    }

    /// Returns all pages of the search.
    fn pages(store: &MemoryStore, filter: &OtpFilter, wanted: (usize, usize)) -> Vec<u64> {
        let (mut found, mut before) = (Vec::new(), None);
        loop {
            let workspace = "acme".parse().unwrap();
            let batch = ended_before(store, &workspace, filter, before, wanted).unwrap();
            let number =
                |id: &RequestId| (id.timestamp().as_millis() - 1_700_000_000_000) / 300_000;
            found.extend(batch.rows.iter().map(|(id, _)| number(id)));
            let Some(down_to) = batch.down_to else { return found };
            assert!(before.is_none_or(|before| down_to < before), "it goes on");
            before = Some(down_to);
        }
    }

    #[test]
    fn what_a_filter_asks_for_is_found_in_pages_of_any_size() {
        let (store, workspace) = (MemoryStore::new(), "acme".parse().unwrap());
        (0..12).for_each(|number| keep(&store, &workspace, number));
        let phone = |digit: u64| format!("+1555012000{digit}").parse().ok();
        let reference = || Some("order-1".to_owned());
        let of = |phone, reference| OtpFilter { phone, reference, ..OtpFilter::default() };
        for (filter, is_wanted) in [
            (of(phone(1), None), (|it| it % 2 == 1) as fn(u64) -> bool),
            (of(None, reference()), |it| it % 3 == 1),
            (of(phone(0), reference()), |it| it % 6 == 4),
            (of(phone(5), None), |_| false),
            (of(None, None), |_| true),
        ] {
            let expected: Vec<_> = (0..12).rev().filter(|it| is_wanted(*it)).collect();
            for wanted in [(1, 1), (2, 100), (50, 3), (50, 100)] {
                assert_eq!(pages(&store, &filter, wanted), expected, "{filter:?}");
            }
        }
    }
}
