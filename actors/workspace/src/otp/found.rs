//! Reads one-time passwords that have ended from their records, newest first.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use postrider_domain::code::{ATTEMPTS_MAX, Expiry};
use postrider_domain::event::OtpStatus;
use postrider_domain::{RequestId, Timestamp, WorkspaceId};
use postrider_store::{Direction, StoreError, Table, View};

use crate::core::otp::ended::{self, Ended};
use crate::core::otp::ended_index::EndedBy;
use crate::newest_first::{self, Batch};
use crate::otp::kept::state_of;
use crate::otp::list::{OtpFilter, OtpRow};

/// How much later than another one that was made after it a request may end.
const ENDS_WITHIN: Duration = Duration::from_secs(Expiry::MAX_SECONDS as u64 + 300);

/// Records that are looked up in the index together.
const ENTRIES_AT_ONCE: usize = 1_000;

/// The place and the filter of the records to read.
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
/// many that are looked at. `all_in` is of the workspace: whether all are known to be in the index.
pub(super) fn ended_before(
    (store, all_in): (&dyn View, &AtomicBool),
    workspace: &WorkspaceId,
    filter: &OtpFilter,
    before: Option<RequestId>,
    wanted: (usize, usize),
) -> Result<Batch<RequestId, OtpRow>, StoreError> {
    let records = Records { store, workspace, filter, before, wanted };
    let reference = filter.reference.as_deref().map(EndedBy::Reference);
    let Some(by) = filter.phone.map(EndedBy::Phone).or(reference) else { return records.scan() };
    let begin = begin(store, workspace, all_in)?;
    let first = RequestId::from_parts(begin, 0);
    match before.is_some_and(|before| before <= first) {
        true => records.scan(),
        false => records.indexed(by, begin),
    }
}

/// From which moment on all records are in the index. Of those that earlier versions wrote none is,
/// and as requests end in another order than they begin, those of some minutes are mixed: one that
/// is not in the index began at most so long after the first that is. `all_in` remembers that all
/// are.
fn begin(
    store: &dyn View,
    workspace: &WorkspaceId,
    all_in: &AtomicBool,
) -> Result<Timestamp, StoreError> {
    let start = Timestamp::from_millis(0);
    if all_in.load(Ordering::Relaxed) {
        return Ok(start);
    }
    let begin = newest_first::indexed_from(|at, direction| {
        let found = entries(store, workspace, (at, direction), 1)?.pop();
        let Some((at, key)) = found else { return Ok(None) };
        Ok(Some((at, store.get(Table::OtpIndex, &key)?.is_some())))
    })?;
    let first = entries(store, workspace, (begin, Direction::Forward), 1)?.pop();
    let Some((first, _)) = first else { return Ok(begin) };
    let all_from = first.plus(ENDS_WITHIN);
    if begin > start || lacks_one(store, workspace, first, all_from)? {
        return Ok(all_from);
    }
    // What ends from now on has its entries, so it stays so.
    all_in.store(true, Ordering::Relaxed);
    Ok(start)
}

/// Whether one that began at a moment or later, but before another, is not in the index.
fn lacks_one(
    store: &dyn View,
    workspace: &WorkspaceId,
    mut from: Timestamp,
    until: Timestamp,
) -> Result<bool, StoreError> {
    loop {
        let some = entries(store, workspace, (from, Direction::Forward), ENTRIES_AT_ONCE)?;
        for (at, key) in &some {
            if until <= *at {
                return Ok(false);
            }
            if store.get(Table::OtpIndex, key)?.is_none() {
                return Ok(true);
            }
        }
        match some.last() {
            // Those of one moment may be more than are looked at together.
            Some((at, _)) if some.len() >= ENTRIES_AT_ONCE => {
                from = (*at).max(from.plus(Duration::from_millis(1)));
            }
            _ => return Ok(false),
        }
    }
}

/// When requests began, from a moment on or back from there, and their keys in the index by phone.
fn entries(
    store: &dyn View,
    workspace: &WorkspaceId,
    (at, direction): (Timestamp, Direction),
    enough: usize,
) -> Result<Vec<(Timestamp, Vec<u8>)>, StoreError> {
    let prefix = ended::prefix(workspace);
    let from = ended::key(workspace, RequestId::from_parts(at, 0));
    let mut found = Vec::new();
    store.scan(Table::Otps, &prefix, Some(&from), direction, &mut |key, value| {
        let id = key[prefix.len()..].try_into().ok().map(RequestId::from_bytes);
        // One that cannot be read is passed over: whoever comes to it in the list is warned.
        let ended = Ended::decode(value).ok();
        found.extend(
            id.zip(ended).map(|(id, ended)| {
                (id.timestamp(), EndedBy::Phone(ended.phone).key(workspace, id))
            }),
        );
        if found.len() < enough { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(found)
}

impl Records<'_> {
    /// Reads the records of index entries that are not older than its beginning.
    fn indexed(
        &self,
        by: EndedBy<'_>,
        begin: Timestamp,
    ) -> Result<Batch<RequestId, OtpRow>, StoreError> {
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
                if id.timestamp() < begin {
                    batch.down_to = Some(RequestId::from_parts(begin, 0));
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
                let older = begin.as_millis() > 0 && !self.filter.is_before(begin);
                batch.down_to = older.then(|| RequestId::from_parts(begin, 0));
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
    let Ended { status, verified_at, .. } = ended;
    // An expired one ended then, not at the tick that came to it: a pending one is listed so too.
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
        // Earlier versions kept no end, which for some is known nevertheless.
        ended_at: expired_at.or(ended.ended_at).or(verified_at),
        notes: state.notes,
        tries: state.tries,
        language: state.language,
        number: state.number,
    }
}

#[cfg(test)]
mod tests {
    use postrider_domain::event::Delivery;
    use postrider_store::{Change, Group, MemoryStore, Store};

    use super::*;
    use crate::core::otp::ended_index;

    /// The record of a request, with its entries or as an earlier version wrote it.
    fn keep(store: &MemoryStore, workspace: &WorkspaceId, number: u64, is_indexed: bool) {
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
            ended_at: None,
            notes: Some(format!(r#"{{"reference":"order-{}"}}"#, number % 3).into()),
        };
        let mut changes = vec![Change::put(Table::Otps, ended::key(workspace, id), ended.encode())];
        if is_indexed {
            let keys = ended_index::keys(workspace, id, &ended);
            changes.extend(keys.map(|key| Change::put(Table::OtpIndex, key, [])));
        }
        store.commit(Group::new(None, &changes)).unwrap();
    }

    /// Returns all pages of the search.
    fn pages(store: &MemoryStore, filter: &OtpFilter, wanted: (usize, usize)) -> Vec<u64> {
        pages_of((store, &AtomicBool::new(false)), filter, wanted)
    }

    fn pages_of(
        from: (&MemoryStore, &AtomicBool),
        filter: &OtpFilter,
        wanted: (usize, usize),
    ) -> Vec<u64> {
        let (mut found, mut before) = (Vec::new(), None);
        let (store, all_in): (&dyn View, _) = (from.0, from.1);
        loop {
            let workspace = "acme".parse().unwrap();
            let batch = ended_before((store, all_in), &workspace, filter, before, wanted).unwrap();
            let number =
                |id: &RequestId| (id.timestamp().as_millis() - 1_700_000_000_000) / 300_000;
            found.extend(batch.rows.iter().map(|(id, _)| number(id)));
            let Some(down_to) = batch.down_to else { return found };
            assert!(before.is_none_or(|before| down_to < before), "it goes on");
            before = Some(down_to);
        }
    }

    #[test]
    fn what_earlier_versions_have_kept_is_found_too() {
        let workspace = "acme".parse().unwrap();
        for old in 0..=12 {
            let store = MemoryStore::new();
            for number in 0..12 {
                // One that began before others has ended after them.
                let is_late = number > 0 && number + 2 == old;
                keep(&store, &workspace, number, number >= old || is_late);
            }
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
                    assert_eq!(pages(&store, &filter, wanted), expected, "{old} {filter:?}");
                }
            }
        }
    }

    #[test]
    fn what_ended_under_an_earlier_version_is_found_beside_the_first_of_the_index() {
        let workspace = "acme".parse().unwrap();
        let of = |phone: &str| OtpFilter { phone: phone.parse().ok(), ..OtpFilter::default() };
        // The one before is hours older, or there is none.
        for oldest in [Some(0), None] {
            let store = MemoryStore::new();
            oldest.into_iter().for_each(|number| keep(&store, &workspace, number, false));
            for (number, is_indexed) in [(35, true), (36, false), (38, false), (40, true)] {
                keep(&store, &workspace, number, is_indexed);
            }
            let all_in = AtomicBool::new(false);
            let expected: Vec<_> = [40, 38, 36].into_iter().chain(oldest).collect();
            // It is not taken to be all there at the second look either.
            for wanted in [(1, 1), (2, 100), (50, 100)] {
                let found = pages_of((&store, &all_in), &of("+15550120000"), wanted);
                assert_eq!(found, expected, "{oldest:?} {wanted:?}");
            }
            assert_eq!(pages(&store, &of("+15550120001"), (50, 100)), [35]);
            let third = OtpFilter { reference: Some("order-0".into()), ..OtpFilter::default() };
            let expected: Vec<_> = [36].into_iter().chain(oldest).collect();
            assert_eq!(pages(&store, &third, (50, 100)), expected);
        }
    }

    #[test]
    fn it_is_remembered_that_all_are_in_the_index() {
        let (workspace, all_in) = ("acme".parse().unwrap(), AtomicBool::new(false));
        let (store, phone) = (MemoryStore::new(), "+15550120000".parse().ok());
        let filter = OtpFilter { phone, ..OtpFilter::default() };
        assert!(pages_of((&store, &all_in), &filter, (50, 100)).is_empty());
        assert!(!all_in.load(Ordering::Relaxed), "nothing is known of none");
        (0..6).for_each(|number| keep(&store, &workspace, number, true));
        assert_eq!(pages_of((&store, &all_in), &filter, (50, 100)), [4, 2, 0]);
        assert!(all_in.load(Ordering::Relaxed));
    }
}
