//! Tests that one delivery queue retries, orders by contact, disables and restarts.

use super::*;
use crate::retry_schedule::DisabledReason;

const MS: Duration = Duration::from_millis(20);
pub(super) const REFUSED: DeliveryFailure =
    DeliveryFailure { timed_out: false, gone: false, slow_down: false, retry_after: None };

pub(super) fn at(seconds: u64) -> Timestamp {
    Timestamp::from_millis((1_700_000_000 + seconds) * 1000)
}

pub(super) fn rules() -> QueueRules {
    QueueRules { enabled: true, enabled_at: at(0), ..QueueRules::default() }
}

/// Returns a queue that has read `count` events.
pub(super) fn queue(count: u64) -> DeliveryQueue {
    let mut queue = DeliveryQueue::new(&Cursor::default(), BTreeMap::new(), at(0));
    queue.set_rules(rules());
    feed(&mut queue, count);
    queue
}

pub(super) fn feed(queue: &mut DeliveryQueue, count: u64) {
    let after = queue.new.scanned;
    let delivery = |first| Delivery {
        first,
        last: first,
        events: None,
        lane: None,
        batch: None,
        is_replay: false,
    };
    queue.feed(after, (after + 1..=after + count).map(delivery).collect(), after + count);
}

/// Starts everything that may start; returns the sequences.
pub(super) fn begin(queue: &mut DeliveryQueue, now: Timestamp) -> Vec<u64> {
    std::iter::from_fn(|| queue.start(now)).map(|attempt| attempt.delivery.first).collect()
}

/// Returns the serial of the attempt in flight of this sequence.
fn serial(queue: &DeliveryQueue, first: u64) -> u64 {
    let mut all = queue.in_flight.values();
    all.find(|attempt| attempt.delivery.first == first).unwrap().serial
}

pub(super) fn succeed(queue: &mut DeliveryQueue, first: u64) {
    queue.succeeded(serial(queue, first), MS);
}

pub(super) fn fail(
    queue: &mut DeliveryQueue,
    first: u64,
    failure: DeliveryFailure,
    now: Timestamp,
) -> Aftermath {
    queue.failed(serial(queue, first), failure, now, 0.5)
}

/// Returns the queue after a restart.
pub(super) fn restarted(
    queue: &mut DeliveryQueue,
    records: &mut BTreeMap<u64, WaitingDelivery>,
    now: Timestamp,
) -> DeliveryQueue {
    for (first, change) in queue.take_changed() {
        match change {
            Some(waiting) => drop(records.insert(first, waiting)),
            None => drop(records.remove(&first)),
        }
    }
    let mut again = DeliveryQueue::new(&queue.cursor(), records.clone(), now);
    again.set_rules(rules());
    again
}

#[test]
fn it_begins_with_one_and_doubles() {
    let mut queue = queue(100);
    assert_eq!(begin(&mut queue, at(0)), [1]);
    succeed(&mut queue, 1);
    assert_eq!(begin(&mut queue, at(0)), [2, 3]);
    succeed(&mut queue, 2);
    succeed(&mut queue, 3);
    assert_eq!(begin(&mut queue, at(0)).len(), 4);
    assert_eq!(queue.cursor().after, 7);
    assert_eq!(queue.cursor().open.len(), 4);
}

#[test]
fn what_fails_goes_again_on_schedule_and_is_given_up() {
    let mut queue = queue(1);
    let mut now = at(0);
    let waits = [5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400];
    for wait in waits {
        assert_eq!(begin(&mut queue, now), [1]);
        let after = fail(&mut queue, 1, REFUSED, now);
        assert_eq!(
            after,
            Aftermath { next_at: Some(now.plus(Duration::from_secs(wait))), disable: None }
        );
        assert_eq!(queue.next_at(now), after.next_at);
        now = now.plus(Duration::from_secs(wait));
        assert_eq!(begin(&mut queue, now.minus(Duration::from_millis(1))), [0; 0]);
    }
    assert_eq!(begin(&mut queue, now), [1]);
    assert_eq!(fail(&mut queue, 1, REFUSED, now), Aftermath { next_at: None, disable: None });
    assert!(queue.is_idle());
    assert_eq!(queue.take_changed()[&1].as_ref().unwrap().at, None, "it is remembered");
    assert_eq!(queue.retry_failed(now), 1);
    assert_eq!(begin(&mut queue, now), [1]);
    succeed(&mut queue, 1);
    assert_eq!(queue.take_changed()[&1], None, "and then forgotten");
}

#[test]
fn an_endpoint_that_is_down_uses_up_no_tries_of_what_waits() {
    let mut queue = queue(50);
    for first in 1..=5 {
        assert_eq!(begin(&mut queue, at(0)), [first]);
        fail(&mut queue, first, REFUSED, at(0));
    }
    assert_eq!(begin(&mut queue, at(0)), [0; 0], "five in a row are enough");
    // The first retry is due; it finds the endpoint down, and so do others at their time.
    let mut now = at(5);
    let mut tried = Vec::new();
    for _ in 0..20 {
        let begun = begin(&mut queue, now);
        assert!(begun.len() <= 1, "one at a time: {begun:?}");
        for first in begun {
            tried.push(first);
            fail(&mut queue, first, REFUSED, now);
        }
        now = queue.next_at(now).unwrap();
    }
    assert!(tried.len() >= 19);
    let spent = |first: u64| queue.waiting.get(&first).map(|waiting| waiting.failures);
    assert!((7..=50).all(|first| spent(first).is_none()), "{:?}", queue.waiting);
    // The endpoint works again: deliveries start one, two, four at a time.
    now = now.plus(Duration::from_secs(60));
    let first = begin(&mut queue, now);
    assert_eq!(first.len(), 1);
    succeed(&mut queue, first[0]);
    let mut rounds = Vec::new();
    for _ in 0..3 {
        let begun = begin(&mut queue, now);
        begun.iter().for_each(|first| succeed(&mut queue, *first));
        rounds.push(begun.len());
    }
    assert!(rounds[0] <= 2 && rounds[2] > rounds[0], "{rounds:?}");
}

#[test]
fn it_is_left_alone_for_as_long_as_it_asks() {
    let mut queue = queue(10);
    begin(&mut queue, at(0));
    let wait = Some(Duration::from_secs(90));
    let busy = DeliveryFailure { slow_down: true, retry_after: wait, ..REFUSED };
    assert_eq!(fail(&mut queue, 1, busy, at(0)).next_at, Some(at(90)));
    assert_eq!(begin(&mut queue, at(89)), [0; 0]);
    assert_eq!(queue.next_at(at(89)), Some(at(90)));
    assert_eq!(begin(&mut queue, at(90)), [1]);
}

#[test]
fn nothing_but_failures_for_five_days_disables_and_enabling_forgives() {
    let day = 24 * 3600;
    let mut queue = queue(10);
    let mut disabled = Vec::new();
    for days in 0..=5 {
        let now = at(days * day);
        let first = begin(&mut queue, now)[0];
        disabled.push(fail(&mut queue, first, REFUSED, now).disable);
        queue.forgive();
        feed(&mut queue, 10);
    }
    assert_eq!(disabled[..5], [None; 5]);
    assert_eq!(disabled[5], Some(DisabledReason::Failing));
    queue.set_rules(QueueRules { enabled_at: at(6 * day), ..rules() });
    let first = begin(&mut queue, at(6 * day))[0];
    assert_eq!(fail(&mut queue, first, REFUSED, at(6 * day)).disable, None);
    feed(&mut queue, 10);
    let first = begin(&mut queue, at(6 * day))[0];
    let gone = DeliveryFailure { gone: true, ..REFUSED };
    assert_eq!(fail(&mut queue, first, gone, at(6 * day)).disable, Some(DisabledReason::Gone));
}

#[test]
fn a_restart_repeats_what_was_in_flight_and_nothing_else() {
    let mut queue = queue(20);
    let mut records = BTreeMap::new();
    for first in 1..=3 {
        begin(&mut queue, at(0));
        succeed(&mut queue, first);
    }
    begin(&mut queue, at(0));
    fail(&mut queue, 4, REFUSED, at(0));
    let open: Vec<_> = queue.in_flight.values().map(|attempt| attempt.delivery.first).collect();
    let before = queue.cursor();
    assert_eq!(before.open.iter().map(|it| it.first).collect::<Vec<_>>(), open);
    let mut again = restarted(&mut queue, &mut records, at(1));
    assert_eq!(again.new.scanned, *open.iter().max().unwrap());
    let mut repeated = Vec::new();
    while let [first, ..] = begin(&mut again, at(1))[..] {
        repeated.push(first);
        let all: Vec<_> = again.in_flight.values().map(|it| it.delivery.first).collect();
        repeated.extend(all.iter().filter(|it| **it != first));
        all.into_iter().for_each(|first| succeed(&mut again, first));
    }
    repeated.sort_unstable();
    assert_eq!(repeated, open);
    let mut third = restarted(&mut again, &mut records, at(5));
    assert_eq!(begin(&mut third, at(5)), [4], "what failed goes at its time");
    assert_eq!(third.new.scanned, again.new.scanned);
}

#[test]
fn what_has_no_lane_has_one_in_flight_and_waits_for_what_failed() {
    let mut queue = queue(0);
    queue.set_rules(QueueRules { ordered: true, ..rules() });
    feed(&mut queue, 5);
    assert_eq!(begin(&mut queue, at(0)), [1]);
    succeed(&mut queue, 1);
    assert_eq!(begin(&mut queue, at(0)), [2]);
    fail(&mut queue, 2, REFUSED, at(0));
    assert_eq!(begin(&mut queue, at(4)), [0; 0]);
    assert_eq!(begin(&mut queue, at(5)), [2]);
    succeed(&mut queue, 2);
    assert_eq!(begin(&mut queue, at(5)), [3]);
}

/// Reads events of these contacts.
fn feed_lanes(queue: &mut DeliveryQueue, lanes: &[u64]) {
    let after = queue.new.scanned;
    let deliveries = (after + 1..).zip(lanes).map(|(first, lane)| {
        let lane = Some(OrderingKey::numbered(*lane));
        Delivery { first, last: first, events: None, lane, batch: None, is_replay: false }
    });
    queue.feed(after, deliveries.collect(), after + lanes.len() as u64);
}

#[test]
fn in_order_only_the_same_contact_waits_for_what_failed() {
    let mut queue = queue(0);
    queue.set_rules(QueueRules { ordered: true, ..rules() });
    feed_lanes(&mut queue, &[1, 1, 2, 1, 3, 2]);
    assert_eq!(begin(&mut queue, at(0)), [1]);
    fail(&mut queue, 1, REFUSED, at(0));
    let mut seen = Vec::new();
    while let begun = begin(&mut queue, at(1))
        && !begun.is_empty()
    {
        begun.iter().for_each(|first| succeed(&mut queue, *first));
        seen.extend(begun);
    }
    assert_eq!(seen, [3, 5, 6]);
    let mut records = BTreeMap::new();
    // Deliveries that were set aside are stored with the one that failed.
    let mut queue = restarted(&mut queue, &mut records, at(2));
    queue.set_rules(QueueRules { ordered: true, ..rules() });
    assert_eq!(
        (queue.new.scanned, records.keys().copied().collect::<Vec<_>>()),
        (6, vec![1, 2, 4])
    );
    assert_eq!(queue.next_at(at(2)), Some(at(5)));
    for first in [1, 2, 4] {
        assert_eq!(begin(&mut queue, at(5)), [first]);
        succeed(&mut queue, first);
    }
    assert!(queue.is_idle() && queue.waiting.is_empty());
}

#[test]
fn what_is_given_up_holds_nothing_back_any_more() {
    let mut queue = queue(0);
    queue.set_rules(QueueRules { ordered: true, ..rules() });
    feed_lanes(&mut queue, &[1, 1]);
    let mut now = at(0);
    loop {
        assert_eq!(begin(&mut queue, now), [1]);
        match fail(&mut queue, 1, REFUSED, now).next_at {
            Some(next) => now = next,
            None => break,
        }
    }
    assert_eq!(begin(&mut queue, now.plus(Duration::from_secs(60))), [2]);
}

#[test]
fn order_that_is_asked_for_later_holds_from_then_on() {
    let mut queue = queue(3);
    assert_eq!(begin(&mut queue, at(0)), [1]);
    fail(&mut queue, 1, REFUSED, at(0));
    queue.set_rules(QueueRules { ordered: true, ..rules() });
    assert_eq!(queue.wants_more(10), Some(1), "what was read without lanes is read again");
    feed_lanes(&mut queue, &[7, 8]);
    assert_eq!(begin(&mut queue, at(1)), [0; 0], "nobody knows whom the first is about");
    assert_eq!(begin(&mut queue, at(5)), [1]);
    succeed(&mut queue, 1);
    assert_eq!(begin(&mut queue, at(5)), [2, 3]);
    queue.set_rules(rules());
    succeed(&mut queue, 2);
    succeed(&mut queue, 3);
    assert!(queue.is_idle());
}

#[test]
fn those_that_fail_together_are_all_remembered() {
    let mut queue = queue(100);
    for _ in 0..4 {
        begin(&mut queue, at(0)).into_iter().for_each(|first| succeed(&mut queue, first));
    }
    let in_flight = begin(&mut queue, at(0));
    assert_eq!(in_flight, (16..=31).collect::<Vec<_>>());
    for first in &in_flight {
        fail(&mut queue, *first, REFUSED, at(0));
    }
    let mut records = BTreeMap::new();
    let again = restarted(&mut queue, &mut records, at(1));
    assert_eq!(again.waiting.keys().copied().collect::<Vec<_>>(), in_flight);
    assert_eq!(again.new.scanned, 31);
    let place =
        |queue: &DeliveryQueue| queue.new.fresh.iter().map(|it| it.first).collect::<Vec<_>>();
    assert_eq!(place(&queue), (21..=100).collect::<Vec<_>>(), "at their places");
}

#[test]
fn one_event_of_a_batch_that_waits_brings_all_of_it() {
    let mut queue = queue(0);
    let batch =
        Delivery { first: 1, last: 16, events: None, lane: None, batch: None, is_replay: false };
    queue.feed(0, vec![batch], 16);
    begin(&mut queue, at(0));
    fail(&mut queue, 1, REFUSED, at(0));
    queue.replay_one(1, None, None, at(1));
    let again = queue.start(at(1)).unwrap();
    assert_eq!((again.delivery.first, again.delivery.last), (1, 16));
    // While the batch is in flight the event is one more delivery, which replaces nothing.
    queue.replay_one(1, None, None, at(1));
    queue.failed(again.serial, REFUSED, at(1), 0.5);
    assert_eq!(queue.waiting[&1].last, 16);
}

/// It may be about the same contacts, and may never have arrived.
#[test]
fn in_order_a_batch_that_comes_again_and_fails_holds_back_new_ones_until_its_end() {
    let mut queue = queue(0);
    queue.set_rules(QueueRules { ordered: true, ..rules() });
    feed(&mut queue, 2);
    for first in 1..=2 {
        assert_eq!(begin(&mut queue, at(0)), [first]);
        succeed(&mut queue, first);
    }
    let batch = Some(crate::delivery::EventBatch::of([1]));
    queue.replay_one(1, None, batch, at(0));
    let mut now = at(0);
    loop {
        assert_eq!(begin(&mut queue, now), [1]);
        feed(&mut queue, 1);
        assert_eq!(begin(&mut queue, now), [0; 0]);
        match fail(&mut queue, 1, REFUSED, now).next_at {
            Some(next) => now = next,
            None => break,
        }
    }
    assert_eq!(begin(&mut queue, now.plus(Duration::from_secs(60))), [3]);
}
