//! Tests of replays: new events go first, and no replay waits for ever.

use super::tests::{REFUSED, at, begin, fail, feed, queue, restarted, rules, succeed};
use super::*;
use crate::delivery::EventBatch;

/// Reads all of the replay in progress.
fn feed_replays(queue: &mut DeliveryQueue) {
    let Some((after, until)) = queue.wants_replay() else { return };
    let delivery = |first| Delivery {
        first,
        last: first,
        events: None,
        lane: None,
        batch: None,
        is_replay: true,
    };
    queue.feed_replays(after, (after + 1..=until).map(delivery).collect(), until);
}

/// Delivers everything that may start; returns the sequences.
fn deliver_all(queue: &mut DeliveryQueue, now: Timestamp) -> Vec<u64> {
    let mut seen = Vec::new();
    while let begun = begin(queue, now)
        && !begun.is_empty()
    {
        begun.iter().for_each(|first| succeed(queue, *first));
        seen.extend(begun);
    }
    seen
}

#[test]
fn everything_from_there_on_comes_again() {
    let mut queue = queue(6);
    assert_eq!(begin(&mut queue, at(0)), [1]);
    succeed(&mut queue, 1);
    assert_eq!(begin(&mut queue, at(0)), [2, 3]);
    fail(&mut queue, 2, REFUSED, at(0));
    queue.replay(1);
    assert_eq!(queue.wants_more(10), Some(6), "what is new is read on where it was");
    assert_eq!(queue.wants_replay(), Some((1, 3)));
    feed_replays(&mut queue);
    assert!(!queue.is_idle() && queue.wants_replay().is_none());
    // The third is in flight, and the second, which failed, is retried at once.
    succeed(&mut queue, 3);
    assert_eq!(deliver_all(&mut queue, at(0)), [4, 5, 6, 2, 3]);
    assert!(queue.is_idle() && queue.cursor().replay.is_none());
}

#[test]
fn what_was_read_meanwhile_does_not_count() {
    let mut queue = queue(6);
    deliver_all(&mut queue, at(0));
    queue.replay(4);
    let before = queue.wants_replay();
    queue.replay(2);
    assert_eq!((before, queue.wants_replay()), (Some((4, 6)), Some((2, 6))));
    queue.feed_replays(4, Vec::new(), 6);
    feed_replays(&mut queue);
    assert_eq!(deliver_all(&mut queue, at(0)), [3, 4, 5, 6]);
}

#[test]
fn what_is_new_goes_first_and_the_others_have_a_share() {
    let mut queue = queue(200);
    deliver_all(&mut queue, at(0));
    queue.replay(0);
    feed_replays(&mut queue);
    let alone = begin(&mut queue, at(0));
    assert_eq!(alone.len(), queue.limiter.limit() / 4, "a quarter of the room, and no more");
    feed(&mut queue, 1000);
    let begun = begin(&mut queue, at(0));
    assert!(begun.iter().all(|first| *first > 200), "there is room for what is new: {begun:?}");
    assert_eq!(begun.len() + alone.len(), queue.limiter.limit());
    for first in alone.into_iter().chain(begun) {
        succeed(&mut queue, first);
    }
    // Under constant load every tenth delivery is a replay.
    let seen: Vec<_> = (0..500)
        .map(|_| {
            let first = queue.start(at(0)).unwrap().delivery.first;
            succeed(&mut queue, first);
            first
        })
        .collect();
    for ten in seen.chunks(10) {
        assert_eq!(ten.iter().filter(|first| **first <= 200).count(), 1, "{ten:?}");
    }
}

#[test]
fn what_fails_again_holds_back_nothing_new() {
    let mut queue = queue(20);
    deliver_all(&mut queue, at(0));
    queue.replay(0);
    feed_replays(&mut queue);
    let begun = begin(&mut queue, at(0));
    for first in begun {
        fail(&mut queue, first, REFUSED, at(0));
    }
    feed(&mut queue, 9);
    // The replay is due again, and so are new events.
    assert_eq!(queue.start(at(5)).unwrap().delivery.first, 21);
    succeed(&mut queue, 21);
    let seen = deliver_all(&mut queue, at(5));
    assert_eq!(seen.iter().filter(|first| **first > 20).count(), 8, "{seen:?}");
    assert_eq!(seen[..5], [22, 23, 24, 25, 26]);
    assert!(queue.is_idle());
}

#[test]
fn all_that_failed_waits_for_what_is_new() {
    let mut queue = queue(4);
    for first in 1..=4 {
        assert_eq!(begin(&mut queue, at(0)), [first]);
        fail(&mut queue, first, REFUSED, at(0));
    }
    feed(&mut queue, 3);
    assert_eq!(queue.retry_failed(at(1)), 4);
    assert_eq!(deliver_all(&mut queue, at(1)), [5, 6, 7, 1, 2, 3, 4]);
}

#[test]
fn however_much_failed_what_is_new_does_not_wait_for_it() {
    let count = WAITING_MAX as u64;
    let given_up = |last| WaitingDelivery {
        last,
        failures: 10,
        at: None,
        lane: None,
        batch: None,
        is_replay: false,
    };
    let waiting = (1..=count).map(|first| (first, given_up(first))).collect();
    let cursor = Cursor { after: count, ..Cursor::default() };
    let mut queue = DeliveryQueue::new(&cursor, waiting, at(0));
    queue.set_rules(rules());
    assert_eq!(queue.retry_failed(at(0)), count);
    feed(&mut queue, 5);
    for new in 1..=5 {
        assert_eq!(queue.start(at(0)).unwrap().delivery.first, count + new);
        succeed(&mut queue, count + new);
    }
    assert_eq!(begin(&mut queue, at(0)), [1], "nothing new waits");
}

#[test]
fn a_crash_forgets_no_replay() {
    let mut queue = queue(40);
    deliver_all(&mut queue, at(0));
    queue.replay(10);
    feed_replays(&mut queue);
    let begun = begin(&mut queue, at(0));
    let cursor = queue.cursor();
    assert_eq!(cursor.replay, Some((*begun.last().unwrap(), 40)));
    assert_eq!(cursor.open.iter().map(|open| open.first).collect::<Vec<_>>(), begun);
    let mut queue = restarted(&mut queue, &mut BTreeMap::new(), at(1));
    feed(&mut queue, 2);
    feed_replays(&mut queue);
    let mut seen = deliver_all(&mut queue, at(1));
    assert_eq!(seen[..2], [41, 42]);
    seen.sort_unstable();
    assert_eq!(seen, (11..=42).collect::<Vec<_>>());
}

#[test]
fn in_order_each_contacts_events_come_again_in_order() {
    let mut queue = queue(0);
    queue.set_rules(QueueRules { ordered: true, ..rules() });
    let delivery = |first, is_replay| {
        let lane = Some(OrderingKey::numbered(first % 2));
        Delivery { first, last: first, events: None, lane, batch: None, is_replay }
    };
    queue.feed(0, (1..=6).map(|first| delivery(first, false)).collect(), 6);
    deliver_all(&mut queue, at(0));
    queue.replay(0);
    queue.feed_replays(0, (1..=6).map(|first| delivery(first, true)).collect(), 6);
    assert_eq!(begin(&mut queue, at(0)), [1]);
    queue.feed(6, (7..=8).map(|first| delivery(first, false)).collect(), 8);
    // A new event waits for what is in flight of the same contact, and for no other.
    assert_eq!(begin(&mut queue, at(0)), [8]);
    fail(&mut queue, 1, REFUSED, at(0));
    succeed(&mut queue, 8);
    assert_eq!(deliver_all(&mut queue, at(1)), [2, 4, 6]);
    assert_eq!(deliver_all(&mut queue, at(5)), [1, 3, 5, 7]);
    assert!(queue.is_idle());
}

#[test]
fn a_batch_that_waits_is_left_out_of_what_comes_again() {
    let entry = |sequence| {
        let event = postrider_domain::PublicEvent::Other {
            kind: postrider_domain::EventKind::WebhookTest,
            data: "{}".into(),
        };
        let entry = postrider_domain::LogEntry { at: at(0), event };
        postrider_store::EventEntry::of(&"acme".parse().unwrap(), sequence, entry)
    };
    let batch = |first, last, is_replay| {
        let events: std::sync::Arc<[_]> = (first..=last).map(entry).collect();
        let batch = Some(EventBatch::of(first..=last));
        Delivery { first, last, events: Some(events), lane: None, batch, is_replay }
    };
    let mut queue = queue(0);
    queue.feed(0, vec![batch(1, 16, false), batch(17, 20, false)], 20);
    begin(&mut queue, at(0));
    succeed(&mut queue, 1);
    queue.start(at(0)).unwrap();
    fail(&mut queue, 17, REFUSED, at(0));
    queue.replay(16);
    queue.feed_replays(16, vec![batch(17, 20, true)], 20);
    let again = queue.start(at(1)).unwrap();
    assert_eq!(again.delivery.batch, Some(EventBatch::of(17..=20)), "it was brought forward");
    assert!(queue.start(at(1)).is_none());
    succeed(&mut queue, 17);
    // The replay's batches may overlap one that waits: the rest of them is delivered.
    queue.replay(0);
    queue.feed_replays(0, vec![batch(1, 20, true)], 20);
    queue.replay_one(1, None, Some(EventBatch::of([1])), at(1));
    let begun: Vec<_> = std::iter::from_fn(|| queue.start(at(1))).collect();
    assert_eq!(begun[0].delivery.batch, Some(EventBatch::of([1])));
    succeed(&mut queue, 1);
    let rest = queue.start(at(1)).unwrap().delivery;
    assert_eq!((rest.first, rest.batch), (1, Some(EventBatch::of(1..=20))));
}

#[test]
fn the_record_of_what_is_in_flight_twice_stays_until_both_ended() {
    let mut queue = queue(40);
    deliver_all(&mut queue, at(0));
    let mut records = BTreeMap::new();
    let mut begin_again = |queue: &mut DeliveryQueue, batch: Option<EventBatch>| {
        queue.replay_one(1, None, batch, at(1));
        drop(restarted(queue, &mut records, at(1)));
        queue.start(at(1)).unwrap().serial
    };
    let one = begin_again(&mut queue, None);
    let other = begin_again(&mut queue, None);
    queue.succeeded(one, Duration::from_millis(20));
    let mut again = restarted(&mut queue, &mut records, at(1));
    assert_eq!(begin(&mut again, at(1)), [1], "the other may not have arrived");
    queue.succeeded(other, Duration::from_millis(20));
    restarted(&mut queue, &mut records, at(1));
    assert!(records.is_empty(), "{records:?}");
}

#[test]
fn one_event_takes_no_batchs_record_while_that_is_in_flight() {
    let mut queue = queue(40);
    deliver_all(&mut queue, at(0));
    let mut records = BTreeMap::new();
    queue.replay_one(41, None, Some(EventBatch::of([41])), at(1));
    let one = queue.start(at(1)).unwrap().serial;
    let batch = Some(EventBatch::of(41..=60));
    let all = Delivery { first: 41, last: 60, events: None, lane: None, batch, is_replay: false };
    queue.feed(40, vec![all], 60);
    assert_eq!(begin(&mut queue, at(1)), [41]);
    queue.in_flight.keys().max().copied().map(|all| queue.failed(all, REFUSED, at(1), 0.5));
    queue.retry_failed(at(1));
    let all = queue.start(at(1)).unwrap();
    assert_eq!(all.delivery.last, 60);
    queue.failed(one, REFUSED, at(1), 0.5);
    let again = restarted(&mut queue, &mut records, at(2));
    assert_eq!(again.waiting[&41].last, 60, "all of it comes again");
}
