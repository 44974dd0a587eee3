//! Tests that the index finds the same as a read of the whole log, at the cost of its matches.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use postrider_domain::{EventKind, Phone, RequestId, Timestamp};
use postrider_store::hooked::{Hook, Hooked};
use postrider_store::view::event_index::BLOCK_EVENTS;
use postrider_store::{Change, Group, MemoryStore, Store, Table, event_log_key};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;

const START: Timestamp = Timestamp::from_millis(1_700_000_000_000);
/// The number in all events.
const NUMBER: &str = "num_01jd3v0x5n8m7k2q4r6s8t0w2y";

fn workspace() -> WorkspaceId {
    "acme".parse().unwrap()
}

fn phone(number: u64) -> Phone {
    Phone::from_digits(15_550_100_000 + number).unwrap()
}

fn request(sequence: u64) -> RequestId {
    RequestId::from_parts(START, sequence.into())
}

/// Returns the event of a sequence. Some are about one of few, some are about one of many.
fn event(sequence: u64) -> PublicEvent {
    let (request_id, few) = (request(sequence / 3), phone(sequence * 7 % 900));
    match sequence % 5 {
        0 => PublicEvent::OtpVerified { request_id, phone: few },
        1 => PublicEvent::OtpExpired { request_id, phone: Phone::ANYBODY },
        2 => {
            let notes = format!(r#"{{"reference":"order-{}"}}"#, sequence % 1_000);
            let event = Box::new(PublicEvent::OtpVerified { request_id, phone: few });
            PublicEvent::Noted { event, notes: notes.into() }
        }
        _ => {
            let name = if sequence.is_multiple_of(2) { "Ada" } else { "Bo" };
            let mut tags = vec!["vip".to_owned(), format!("tag{}@example.com", sequence % 77)];
            if sequence.is_multiple_of(5_003) {
                // More than the index takes of one event.
                tags.extend((0..400).map(|number| format!("tag-{number}")));
            }
            let data = serde_json::json!({
                "phone": phone(sequence).to_string(), "name": name, "number_id": NUMBER,
                "tags": tags,
            });
            PublicEvent::Other { kind: EventKind::ContactUpdated, data: data.to_string().into() }
        }
    }
}

/// Appends the entries of these sequences, in chunks of different sizes.
fn append(store: &MemoryStore, sequences: std::ops::RangeInclusive<u64>) {
    let mut first = *sequences.start();
    while first <= *sequences.end() {
        let count = (1 + first % 190).min(sequences.end() - first + 1);
        let mut value = u32::try_from(count).unwrap().to_be_bytes().to_vec();
        value.extend_from_slice(&[0; 8]);
        for sequence in first..first + count {
            let at = START.plus(std::time::Duration::from_millis(sequence));
            LogEntry { at, event: event(sequence) }.encode_into(&mut value);
        }
        let key = event_log_key(&workspace(), first);
        store.commit(Group::new(None, &[Change::put(Table::Events, key, value)])).unwrap();
        first += count;
    }
}

/// Indexes the log, up to so many blocks. Returns the number of blocks.
fn index(store: &MemoryStore, most: usize) -> usize {
    for count in 0..most {
        let (_, changes) = event_index::next_block(store, &workspace()).unwrap();
        let Some(changes) = changes else {
            return count;
        };
        store.commit(Group::new(None, &changes)).unwrap();
    }
    most
}

/// Deletes the chunks that start before this sequence, and the blocks that are empty afterwards.
///
/// Returns the first sequence that is left.
fn trim(store: &MemoryStore, before: u64) -> u64 {
    let (mut changes, mut left) = (Vec::new(), 0);
    postrider_store::scan_event_log(store, &workspace(), 0, &mut |chunk| {
        if chunk.first >= before {
            left = chunk.first;
            return ControlFlow::Break(());
        }
        changes.push(Change::delete(Table::Events, event_log_key(&workspace(), chunk.first)));
        ControlFlow::Continue(())
    })
    .unwrap();
    for block in event_index::blocks_before(store, &workspace(), (0, left), 100).unwrap() {
        changes.extend(event_index::without_block(&workspace(), block));
    }
    store.commit(Group::new(None, &changes)).unwrap();
    left
}

/// Returns all sequences that match a filter, in pages of `limit`.
fn walk(store: &dyn View, filter: &EventFilter, limit: usize, is_forward: bool) -> Vec<u64> {
    let (mut found, mut cursor) = (Vec::new(), if is_forward { 0 } else { u64::MAX });
    loop {
        let (entries, next) = if is_forward {
            let page = after(store, &workspace(), cursor, limit, filter).unwrap();
            (page.entries, Some(page.next_after).filter(|next| *next > cursor))
        } else {
            let page = before(store, &workspace(), cursor, limit, filter).unwrap();
            (page.entries, page.next_before)
        };
        assert!(entries.len() <= limit);
        found.extend(entries.iter().map(|entry| entry.sequence));
        let Some(next) = next else { return found };
        cursor = next;
    }
}

/// Returns the matches in a read of all these sequences.
fn model(filter: &EventFilter, sequences: std::ops::RangeInclusive<u64>) -> Vec<u64> {
    let ready = filter.ready();
    sequences.filter(|sequence| ready.takes(&event(*sequence))).collect()
}

fn about(texts: &[&str]) -> EventFilter {
    EventFilter { types: None, about: texts.iter().map(|it| (*it).to_owned()).collect() }
}

#[test]
fn the_index_finds_what_reading_the_log_finds() {
    let end = 2 * BLOCK_EVENTS + 700;
    let config = ProptestConfig {
        cases: 6,
        rng_seed: RngSeed::Fixed(7),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let texts = prop::sample::select(vec![
        phone(700).to_string(),
        phone(end - 3).to_string(),
        phone(5_003).to_string(),
        request(BLOCK_EVENTS / 3).to_string(),
        "order-32".into(),
        "tag7@example.com".into(),
        NUMBER.into(),
        "Ada".into(),
        "otp_01jd3v0x5n8m7k2q4r6s8t0w2y".into(),
    ]);
    let case = (
        prop::collection::vec(texts, 1..4),
        prop::option::of(Just(vec!["otp.verified".to_owned()])),
        0_usize..4,
        prop_oneof![Just(1), 1..end],
        prop_oneof![Just(7_usize), Just(200)],
    );
    let mut runner = proptest::test_runner::TestRunner::new(config);
    runner
        .run(&case, |(about, types, blocks, trimmed, limit)| {
            let store = MemoryStore::new();
            append(&store, 1..=end);
            index(&store, blocks);
            let first = trim(&store, trimmed);
            // The first deleted part has no block, and a later block is still built.
            index(&store, blocks);
            let filter = EventFilter { types, about };
            let mut expected = model(&filter, first..=end);
            prop_assert_eq!(&walk(&store, &filter, limit, true), &expected);
            expected.reverse();
            prop_assert_eq!(&walk(&store, &filter, limit, false), &expected);
            Ok(())
        })
        .unwrap();
}

/// Counts the scans of the log.
#[derive(Debug, Clone, Default)]
struct Looks(Arc<AtomicUsize>);

impl Hook for Looks {
    fn before_scan(&self, table: Table, _prefix: &[u8], _from: Option<&[u8]>) {
        if table == Table::Events {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[test]
fn a_search_costs_what_it_finds() {
    let store = Hooked { inner: MemoryStore::new(), hook: Looks::default() };
    let end = 8 * BLOCK_EVENTS;
    assert!(end > EVENTS_LOOKED_AT_MAX);
    append(&store.inner, 1..=end);
    let filter = about(&[&request(2).to_string()]);
    // Without an index, one page does not reach that far, and reports its position.
    let page = before(&store, &workspace(), u64::MAX, 50, &filter).unwrap();
    assert_eq!((page.entries, page.next_before), (vec![], Some(end + 1 - EVENTS_LOOKED_AT_MAX)));
    assert_eq!(index(&store.inner, 100), 8);
    store.hook.0.store(0, Ordering::Relaxed);
    let page = before(&store, &workspace(), u64::MAX, 50, &filter).unwrap();
    let found: Vec<_> = page.entries.iter().map(|entry| entry.sequence).collect();
    assert_eq!((found, page.next_before), (vec![7, 6], None));
    let page = after(&store, &workspace(), 0, 50, &filter).unwrap();
    assert_eq!((page.entries.len(), page.next_after), (2, end));
    let looks = store.hook.0.load(Ordering::Relaxed);
    assert!(looks < 40, "{looks}");
}

#[test]
fn blocks_go_with_their_events() {
    let store = MemoryStore::new();
    append(&store, 1..=3 * BLOCK_EVENTS + 900);
    assert_eq!(index(&store, 100), 3);
    let records = || {
        let (mut count, prefix) = (0, b"acme\0");
        let mut visit = |_: &[u8], _: &[u8]| {
            count += 1;
            ControlFlow::Continue(())
        };
        store.scan(Table::EventIndex, prefix, None, Direction::Forward, &mut visit).unwrap();
        count
    };
    let all = records();
    trim(&store, BLOCK_EVENTS / 2);
    assert_eq!(records(), all);
    trim(&store, 2 * BLOCK_EVENTS + 200);
    assert_eq!(records(), all / 3);
    assert!(trim(&store, 3 * BLOCK_EVENTS + 300) > 3 * BLOCK_EVENTS);
    assert_eq!(records(), 0);
    assert_eq!(index(&store, 1), 0);
}
