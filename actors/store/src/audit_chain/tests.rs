//! Tests of listing, keeping and verifying the audit log.

use std::sync::Arc;

use postrider_domain::{AuditContext, AuditEntry, AuditId};

use super::*;
use crate::{
    CrashOutcome, CrashingStore, Direction, Group, Keep, MemoryStore, Store, Writer, WriterOptions,
};

fn change(number: u64) -> Change {
    let at = Timestamp::from_millis(1000 * number);
    let action = if number.is_multiple_of(2) { "key.create" } else { "keys" };
    let entry = AuditEntry::new(action).change("number", number);
    record_change(
        at,
        &entry.record(AuditId::from_parts(at, number.into()), &AuditContext::system()),
    )
}

/// Returns a store with this many records, each in a commit of its own.
fn with_records(count: u64) -> MemoryStore {
    let store = MemoryStore::new();
    for number in 1..=count {
        let mut changes = [change(number)];
        let newest = link_staged(&mut changes, &head(&store).unwrap()).unwrap();
        let [record] = changes;
        let end = Change::put(Table::Meta, HEAD_KEY, newest.encode());
        store.commit(Group::new(None, &[record, end])).unwrap();
    }
    store
}

fn put(store: &MemoryStore, change: Change) {
    store.commit(Group::new(None, &[change])).unwrap();
}

fn fault(store: &dyn View) -> Option<(u64, FaultKind)> {
    verify(store, None, u64::MAX).unwrap().fault.map(|fault| (fault.sequence, fault.kind))
}

fn value(store: &MemoryStore, sequence: u64) -> Vec<u8> {
    store.get(Table::Audit, &sequence.to_be_bytes()).unwrap().unwrap()
}

fn sequences(page: &AuditPage) -> Vec<u64> {
    page.rows.iter().map(|row| row.mark.sequence).collect()
}

#[test]
fn an_altered_a_removed_and_an_added_record_are_found() {
    assert_eq!(fault(&MemoryStore::new()), None);
    let whole = with_records(9);
    assert_eq!(verify(&whole, None, 100).unwrap().checked, 9);
    assert_eq!(fault(&whole), None);
    for sequence in 1..=9_u64 {
        let key = sequence.to_be_bytes();
        let altered = with_records(9);
        let text = String::from_utf8(value(&altered, sequence)[HEADER_BYTES..].to_vec()).unwrap();
        let json = text.replace("number\":", "number\":1");
        let bytes = [&value(&altered, sequence)[..HEADER_BYTES], json.as_bytes()].concat();
        put(&altered, Change::put(Table::Audit, key, bytes));
        assert_eq!(fault(&altered), Some((sequence, FaultKind::Altered)));
        let unreadable = with_records(9);
        put(&unreadable, Change::put(Table::Audit, key, *b"x"));
        assert_eq!(fault(&unreadable), Some((sequence, FaultKind::Altered)));
        let removed = with_records(9);
        put(&removed, Change::delete(Table::Audit, key));
        assert_eq!(fault(&removed), Some((sequence, FaultKind::Missing)));
    }
    let added = with_records(9);
    put(&added, Change::put(Table::Audit, 10_u64.to_be_bytes(), value(&added, 9)));
    assert_eq!(fault(&added), Some((10, FaultKind::Unexpected)));
}

#[test]
fn a_verification_goes_on_in_parts() {
    let store = with_records(9);
    let (mut after, mut checked) = (None, 0);
    loop {
        let part = verify(&store, after, 4).unwrap();
        assert_eq!(part.fault, None);
        checked += part.checked;
        after = part.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(checked, 9);
    put(&store, Change::delete(Table::Audit, 7_u64.to_be_bytes()));
    let fault = verify(&store, Some(4), 4).unwrap().fault.unwrap();
    assert_eq!((fault.sequence, fault.kind), (7, FaultKind::Missing));
}

#[test]
fn what_retention_removes_leaves_a_chain_that_fits() {
    let store = with_records(9);
    assert_eq!(remove(&store, 1000, 100), [0; 0]);
    assert_eq!(remove(&store, 5000, 3), [0; 0]);
    assert_eq!((fault(&store), trimmed(&store).unwrap().sequence), (None, 3));
    remove(&store, 5000, 3);
    assert_eq!((fault(&store), trimmed(&store).unwrap().sequence), (None, 4));
    put(&store, Change::delete(Table::Audit, 5_u64.to_be_bytes()));
    assert_eq!(fault(&store), Some((5, FaultKind::Missing)));
    remove(&store, u64::MAX, 100);
    assert_eq!(fault(&store), None, "all of it is gone");
}

/// Removes the records before that moment. Returns the sequences that could not be read.
fn remove(store: &MemoryStore, moment: u64, max: usize) -> Vec<u64> {
    let ExpiredRecords { changes, damaged } =
        expired(store, Timestamp::from_millis(moment), max).unwrap();
    store.commit(Group::new(None, &changes)).unwrap();
    damaged.iter().map(|row| row.sequence).collect()
}

#[test]
fn a_damaged_record_is_shown_named_and_passed() {
    // The damage is in the text, in the version, or in all of it.
    type Damage = fn(&mut Vec<u8>);
    let damages: [(Damage, bool, bool); 3] = [
        (|value| *value.last_mut().unwrap() = b'?', true, true),
        (|value| value[0] = 9, false, true),
        (|value| value.truncate(3), false, false),
    ];
    for (damage, has_moment, has_id) in damages {
        let store = with_records(9);
        let mut bytes = value(&store, 4);
        damage(&mut bytes);
        put(&store, Change::put(Table::Audit, 4_u64.to_be_bytes(), bytes));
        let list = |filter: &AuditFilter, direction, cursor, limit| {
            let page = page(&store, filter, direction, cursor, limit).unwrap();
            (sequences(&page), page.damaged, page.next)
        };
        let all = AuditFilter::default();
        let (others, damaged, _) = list(&all, Direction::Forward, None, 9);
        assert_eq!((others, damaged.len()), (vec![1, 2, 3, 5, 6, 7, 8, 9], 1));
        assert_eq!(damaged[0].sequence, 4);
        assert_eq!(damaged[0].at.is_some(), has_moment, "{damaged:?}");
        let id = has_id.then(|| AuditId::from_parts(Timestamp::from_millis(4000), 4));
        assert_eq!(damaged[0].id, id);
        // It takes a place in a part, and the next part continues behind it.
        let (others, damaged, next) = list(&all, Direction::Backward, Some(6), 2);
        assert_eq!((others, damaged.len(), next), (vec![5], 1, Some(4)));
        // The search by time works wherever the damaged record is.
        for moment in 1..=9 {
            let since = Some(Timestamp::from_millis(1000 * moment));
            let filter = AuditFilter { since, ..all.clone() };
            let (found, ..) = list(&filter, Direction::Forward, None, 9);
            let expected: Vec<_> = (moment..=9).filter(|it| *it != 4).collect();
            assert_eq!(found, expected, "since {moment}");
        }
        let check = verify(&store, None, 100).unwrap().fault.unwrap();
        assert_eq!((check.sequence, check.kind, check.id), (4, FaultKind::Altered, id));
        // It is not removed before the next one is, and then with it.
        assert_eq!(remove(&store, 4500, 100), [0; 0]);
        assert_eq!(trimmed(&store).unwrap().sequence, 3);
        assert_eq!(remove(&store, 6500, 100), [4]);
        assert_eq!((fault(&store), trimmed(&store).unwrap().sequence), (None, 6));
    }
}

#[test]
fn records_are_listed_by_filter_both_ways() {
    let store = with_records(9);
    let all = AuditFilter::default();
    let list = |filter: &AuditFilter, direction, cursor, limit| {
        let page = page(&store, filter, direction, cursor, limit).unwrap();
        (sequences(&page), page.next)
    };
    use Direction::{Backward, Forward};
    assert_eq!(list(&all, Forward, None, 4), (vec![1, 2, 3, 4], Some(4)));
    assert_eq!(list(&all, Forward, Some(4), 9), (vec![5, 6, 7, 8, 9], Some(9)));
    assert_eq!(list(&all, Forward, Some(9), 9), (vec![], Some(9)));
    assert_eq!(list(&all, Backward, None, 4), (vec![9, 8, 7, 6], Some(6)));
    assert_eq!(list(&all, Backward, Some(6), 9), (vec![5, 4, 3, 2, 1], None));
    let keys = AuditFilter { action: Some("key".into()), ..all.clone() };
    assert_eq!(list(&keys, Forward, None, 9).0, [2, 4, 6, 8]);
    let since = Some(Timestamp::from_millis(3500));
    let until = Some(Timestamp::from_millis(6000));
    let within = AuditFilter { since, until, ..all.clone() };
    assert_eq!(list(&within, Forward, None, 9), (vec![4, 5], Some(5)));
    assert_eq!(list(&within, Backward, None, 9), (vec![5, 4], None));
    for actor in ["system", "somebody"] {
        let by = AuditFilter { actor: Some(actor.into()), ..all.clone() };
        assert_eq!(list(&by, Forward, None, 9).0.len(), if actor == "system" { 9 } else { 0 });
    }
}

#[tokio::test]
async fn the_writer_links_what_is_staged_and_goes_on_after_a_failure() {
    for outcome in [CrashOutcome::Lost, CrashOutcome::Kept, CrashOutcome::Unsynced] {
        let store = CrashingStore::new();
        let writer = Writer::start(Arc::new(store.clone()), WriterOptions::default()).unwrap();
        let both = tokio::join!(writer.commit(vec![change(2)]), writer.commit(vec![change(1)]));
        assert_eq!(both, (Ok(()), Ok(())));
        let rows = page(&store, &AuditFilter::default(), Direction::Forward, None, 9).unwrap().rows;
        assert_eq!(rows.len(), 2);
        assert!(rows[0].mark.at <= rows[1].mark.at, "the moments never go back");
        store.fail_next_commits(1, outcome);
        assert!(writer.commit(vec![change(3)]).await.is_err());
        while !writer.is_healthy() {
            tokio::task::yield_now().await;
        }
        writer.commit(vec![change(4)]).await.unwrap();
        let expected = if outcome == CrashOutcome::Lost { 3 } else { 4 };
        assert_eq!((fault(&store), head(&store).unwrap().sequence), (None, expected));
        writer.stop();
        // The next writer continues where this one ended.
        let store = store.crash(Keep::Nothing);
        let writer = Writer::start(Arc::new(store.clone()), WriterOptions::default()).unwrap();
        writer.commit(vec![change(5)]).await.unwrap();
        assert_eq!((fault(&store), head(&store).unwrap().sequence), (None, expected + 1));
        writer.stop();
    }
}
