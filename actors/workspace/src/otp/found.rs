//! Reads one-time passwords that have ended from their records, newest first.

use std::ops::ControlFlow;

use postrider_domain::code::ATTEMPTS_MAX;
use postrider_domain::event::OtpStatus;
use postrider_domain::{RequestId, WorkspaceId};
use postrider_store::{Direction, StoreError, Table, View};

use crate::core::otp::ended::{self, Ended};
use crate::core::otp::ended_index::EndedBy;
use crate::newest_first::{self, Batch};
use crate::otp::kept::state_of;
use crate::otp::list::{OtpFilter, OtpRow};

/// Where the records are read.
#[derive(Clone, Copy)]
struct Records<'a> {
    store: &'a dyn View,
    workspace: &'a WorkspaceId,
    filter: &'a OtpFilter,
    before: Option<RequestId>,
    /// The number of wanted rows, and the maximum of rows to look at.
    wanted: (usize, usize),
}

/// What a filter asks for, but for the channel, from before one on: at most so many rows, of so
/// many that are looked at.
pub(super) fn ended_before(
    store: &dyn View,
    workspace: &WorkspaceId,
    filter: &OtpFilter,
    before: Option<RequestId>,
    wanted: (usize, usize),
) -> Result<Batch<RequestId, OtpRow>, StoreError> {
    let records = Records { store, workspace, filter, before, wanted };
    let reference = filter.reference.as_deref().map(EndedBy::Reference);
    match filter.phone.map(EndedBy::Phone).or(reference) {
        Some(by) => records.indexed(by),
        None => records.scan(),
    }
}

impl Records<'_> {
    /// Looks at those of the index.
    fn indexed(&self, by: EndedBy<'_>) -> Result<Batch<RequestId, OtpRow>, StoreError> {
        let mut batch = Batch { rows: Vec::new(), looked_at: 0, down_to: None };
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
                let key = ended::key(self.workspace, id);
                let record = self.store.get(Table::Otps, &key)?;
                // A removed record had been kept for its full time.
                let record = record.map(|bytes| Ended::decode(&bytes)).transpose()?;
                let row = record.map(|record| row_of(id, record));
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
    fn scan(&self) -> Result<Batch<RequestId, OtpRow>, StoreError> {
        let mut batch = Batch { rows: Vec::new(), looked_at: 0, down_to: None };
        let prefix = ended::prefix(self.workspace);
        let from = self.before.map(|before| ended::key(self.workspace, before));
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
            match Ended::decode(value) {
                Ok(record) => {
                    let row = Some(row_of(id, record)).filter(|row| self.filter.takes(row));
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

fn row_of(id: RequestId, ended: Ended) -> OtpRow {
    let state = state_of(id, &ended);
    let Ended { status, verified_at, ended_at, .. } = ended;
    // What expired ended then, not at the tick that came to it: a pending one is listed so too.
    let expired_at = (status == OtpStatus::Expired).then_some(state.expires_at);
    OtpRow {
        request_id: id,
        channel: state.channel,
        is_inbound: state.is_inbound,
        phone: state.phone,
        status,
        delivery: state.delivery,
        attempts_remaining: ATTEMPTS_MAX.saturating_sub(ended.attempts),
        sends: ended.sends,
        expires_at: state.expires_at,
        verified_at,
        ended_at: Some(expired_at.unwrap_or(ended_at)),
        notes: state.notes,
        tries: state.tries,
        language: state.language,
        number: state.number,
    }
}

#[cfg(test)]
mod tests {
    use postrider_domain::Timestamp;
    use postrider_domain::event::Delivery;
    use postrider_store::{Change, Group, MemoryStore, Store};

    use super::*;
    use crate::core::otp::ended_index;

    /// The record of a request, with its entries.
    fn keep(store: &MemoryStore, workspace: &WorkspaceId, number: u64) {
        let at = Timestamp::from_millis(1_700_000_000_000 + number * 300_000);
        let id = RequestId::from_parts(at, number.into());
        let ended = Ended {
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
        let mut changes = vec![Change::put(Table::Otps, ended::key(workspace, id), ended.encode())];
        let keys = ended_index::keys(workspace, id, &ended);
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
