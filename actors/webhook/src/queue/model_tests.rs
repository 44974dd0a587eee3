//! Model tests: no event is lost, and each contact's events keep their order if that is required.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;

use super::*;

/// Number of contacts that the events are about.
const CONTACTS: u64 = 4;

#[derive(Debug, Clone, Copy)]
enum Step {
    /// The log grows by this many events, and is read.
    Read(u64),
    /// This many attempts start.
    Begin(usize),
    /// One attempt in flight succeeds.
    Succeed(usize),
    /// One attempt in flight fails.
    Fail(usize, DeliveryFailure),
    /// All attempts in flight succeed.
    SucceedAll,
    /// All attempts in flight fail, one after the other.
    FailAll(DeliveryFailure),
    /// This many seconds pass.
    Pass(u64),
    /// Changed records are written.
    Write,
    /// The actor stops, and another one reads the written state.
    Restart,
    /// A replay of everything after this sequence is requested.
    Replay(u64),
    /// A replay of one event is requested.
    ReplayOne(u64),
    /// A replay of failed deliveries is requested.
    RetryFailed,
}

fn failure() -> impl Strategy<Value = DeliveryFailure> {
    (any::<bool>(), any::<bool>(), proptest::option::of(0_u64..100)).prop_map(
        |(timed_out, slow_down, retry_after)| {
            let retry_after = retry_after.map(Duration::from_secs);
            DeliveryFailure { timed_out, slow_down, retry_after, gone: false }
        },
    )
}

fn steps(ones: u32) -> impl Strategy<Value = Vec<Step>> {
    let place = 0_usize..64;
    let step = prop_oneof![
        4 => (1_u64..40).prop_map(Step::Read),
        8 => (1_usize..40).prop_map(Step::Begin),
        8 => place.clone().prop_map(Step::Succeed),
        5 => (place, failure()).prop_map(|(place, how)| Step::Fail(place, how)),
        4 => Just(Step::SucceedAll),
        1 => failure().prop_map(Step::FailAll),
        4 => (0_u64..400).prop_map(Step::Pass),
        3 => Just(Step::Write),
        1 => Just(Step::Restart),
    ];
    let again = prop_oneof![(0_u64..100).prop_map(Step::Replay), Just(Step::RetryFailed)];
    let one = (1_u64..100).prop_map(Step::ReplayOne);
    proptest::collection::vec(prop_oneof![20 => step, 2 => again, ones => one], 1..150)
}

/// An endpoint's queue, its durable state, and its history.
struct World {
    queue: DeliveryQueue,
    rules: QueueRules,
    now: Timestamp,
    /// Events of the log.
    log: u64,
    records: BTreeMap<u64, WaitingDelivery>,
    cursor: Cursor,
    /// Events that were delivered or given up; and those of them that are durable.
    ended: BTreeSet<u64>,
    ended_durably: BTreeSet<u64>,
    delivered: BTreeSet<u64>,
    /// Replays that have not ended; and those of them that are durable.
    owed: BTreeSet<u64>,
    owed_durably: BTreeSet<u64>,
    keeps_order: bool,
}

impl World {
    fn new(ordered: bool, keeps_order: bool) -> Self {
        let now = Timestamp::from_millis(1_700_000_000_000);
        let rules = QueueRules { enabled: true, ordered, enabled_at: now, per_second: None };
        let mut world = Self {
            queue: DeliveryQueue::default(),
            rules,
            now,
            log: 0,
            records: BTreeMap::new(),
            cursor: Cursor::default(),
            ended: BTreeSet::new(),
            ended_durably: BTreeSet::new(),
            delivered: BTreeSet::new(),
            owed: BTreeSet::new(),
            owed_durably: BTreeSet::new(),
            keeps_order,
        };
        world.restart();
        world
    }

    /// The contact that an event is about.
    fn lane(sequence: u64) -> Option<OrderingKey> {
        Some(OrderingKey::numbered(sequence * 7919 % CONTACTS))
    }

    fn read(&mut self) {
        let ordered = self.rules.ordered;
        let part = |after, until, is_replay| {
            let delivery = |first| {
                let lane = if ordered { Self::lane(first) } else { None };
                Delivery { first, last: first, events: None, lane, batch: None, is_replay }
            };
            (after + 1..=until).map(delivery).collect()
        };
        if let Some(after) = self.queue.wants_more(64) {
            self.queue.feed(after, part(after, self.log, false), self.log);
        }
        if let Some((after, until)) = self.queue.wants_replay() {
            let scanned = until.min(after + 16);
            self.queue.feed_replays(after, part(after, scanned, true), scanned);
        }
    }

    fn begin(&mut self) -> bool {
        let Some(attempt) = self.queue.start(self.now) else { return false };
        let first = attempt.delivery.first;
        if self.keeps_order {
            let before = (1..first).filter(|before| Self::lane(*before) == Self::lane(first));
            let open: Vec<_> = before.filter(|before| !self.ended.contains(before)).collect();
            assert!(open.is_empty(), "{first} goes before {open:?} of the same contact");
        }
        true
    }

    fn serial(&self, place: usize) -> Option<u64> {
        let count = self.queue.in_flight.len();
        (count > 0).then(|| *self.queue.in_flight.keys().nth(place % count).unwrap())
    }

    fn succeed(&mut self, place: usize) {
        let Some(serial) = self.serial(place) else { return };
        let first = self.queue.in_flight[&serial].delivery.first;
        self.queue.succeeded(serial, Duration::from_millis(20));
        self.delivered.insert(first);
        self.ended.insert(first);
        self.owed.remove(&first);
    }

    fn fail(&mut self, place: usize, failure: DeliveryFailure) {
        let Some(serial) = self.serial(place) else { return };
        let first = self.queue.in_flight[&serial].delivery.first;
        let after = self.queue.failed(serial, failure, self.now, 0.5);
        if after.next_at.is_none() {
            self.ended.insert(first);
            self.owed.remove(&first);
        }
    }

    fn write(&mut self) {
        self.cursor = self.queue.cursor();
        for (first, change) in self.queue.take_changed() {
            match change {
                Some(waiting) => drop(self.records.insert(first, waiting)),
                None => drop(self.records.remove(&first)),
            }
        }
        self.ended_durably = self.ended.clone();
        self.owed_durably = self.owed.clone();
        self.nothing_is_lost();
    }

    /// Every event that was read is delivered, given up, or repeated after a restart.
    fn nothing_is_lost(&self) {
        for sequence in 1..=self.cursor.after {
            let is_open = self.cursor.open.iter().any(|open| open.first == sequence);
            let is_kept = is_open || self.records.contains_key(&sequence);
            assert!(is_kept || self.delivered.contains(&sequence), "{sequence} is lost");
        }
    }

    fn restart(&mut self) {
        self.queue = DeliveryQueue::new(&self.cursor, self.records.clone(), self.now);
        self.queue.set_rules(self.rules);
        self.ended = self.ended_durably.clone();
        self.owed = self.owed_durably.clone();
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Read(count) => {
                self.log += count;
                self.read();
            }
            Step::Begin(count) => drop((0..count).take_while(|_| self.begin()).count()),
            Step::Succeed(place) => self.succeed(place),
            Step::Fail(place, failure) => self.fail(place, failure),
            Step::SucceedAll => (0..self.queue.in_flight()).for_each(|_| self.succeed(0)),
            Step::FailAll(failure) => {
                (0..self.queue.in_flight()).for_each(|_| self.fail(0, failure));
            }
            Step::Pass(seconds) => self.now = self.now.plus(Duration::from_secs(seconds)),
            Step::Write => self.write(),
            Step::Restart => self.restart(),
            Step::Replay(after) => {
                self.owed.extend(after + 1..=self.queue.new.place());
                self.queue.replay(after);
            }
            Step::ReplayOne(sequence) if sequence <= self.log => {
                let lane = self.rules.ordered.then_some(()).and(Self::lane(sequence));
                self.queue.replay_one(sequence, lane, None, self.now);
            }
            Step::ReplayOne(_) => {}
            Step::RetryFailed => drop(self.queue.retry_failed(self.now)),
        }
    }

    /// The endpoint works for long enough: everything is delivered except what was given up.
    fn finish(&mut self) {
        for _ in 0..10_000 {
            self.read();
            while self.begin() {}
            if self.queue.in_flight() > 0 {
                self.succeed(0);
            } else if let Some(next) = self.queue.next_at(self.now) {
                self.now = next;
            } else {
                break;
            }
        }
        assert!(self.queue.is_idle(), "{:?}", self.queue);
        assert!(self.owed.is_empty(), "{:?} never came again", self.owed);
        self.write();
        assert_eq!((self.cursor.after, self.cursor.open.len()), (self.log, 0));
        for sequence in 1..=self.log {
            let given_up = self.records.get(&sequence).is_some_and(|it| it.at.is_none());
            assert!(given_up || self.delivered.contains(&sequence), "{sequence} never came");
        }
    }
}

proptest! {
    #[test]
    fn nothing_is_lost(ordered in any::<bool>(), steps in steps(1)) {
        let mut world = World::new(ordered, false);
        steps.into_iter().for_each(|step| world.step(step));
        world.finish();
    }

    #[test]
    fn each_contacts_events_keep_their_order(steps in steps(0)) {
        let mut world = World::new(true, true);
        steps.into_iter().for_each(|step| world.step(step));
        world.finish();
    }
}
