//! Pure: the order in which waiting deliveries may start: by time, or in order by contact.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use postrider_domain::{PublicEvent, Timestamp};

/// The contact that an event is about, or none: events with the same key are delivered in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OrderingKey(u64);

impl OrderingKey {
    /// Events about no contact share one key. Two contacts may share a key by hash collision: then
    /// they only wait for each other.
    pub(crate) fn of(event: &PublicEvent) -> Self {
        Self(event.subject().map_or(0, |subject| xxh3_64(subject.as_bytes())))
    }

    #[cfg(test)]
    pub(super) const fn numbered(number: u64) -> Self {
        Self(number)
    }
}

/// The deliveries that wait, and the lanes that are busy.
///
/// There is a lane for each ordering key, and one for deliveries without a key: batches, and
/// deliveries read before the endpoint was ordered. While a delivery without a key is in flight,
/// the queue delivers nothing else.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    in_order: bool,
    /// In order: the lanes in which a delivery waits or is in flight.
    lanes: HashMap<Option<OrderingKey>, LaneLoad>,
    /// Deliveries that may start at their time: all that wait, or in order the first of each lane.
    /// The second set holds the replays.
    due: [BTreeSet<(Timestamp, u64)>; 2],
    waiting: [usize; 2],
}

#[derive(Debug, Default)]
struct LaneLoad {
    /// The time at which each may start, and whether it is a replay; by sequence.
    waiting: BTreeMap<u64, (Timestamp, bool)>,
    in_flight: usize,
}

impl LaneLoad {
    /// Returns the delivery of the lane that may start at its time.
    fn next(&self) -> Option<(Timestamp, u64, bool)> {
        let first = self.waiting.first_key_value();
        let first = first.map(|(first, (at, is_replay))| (*at, *first, *is_replay));
        first.filter(|_| self.in_flight == 0)
    }
}

impl Lanes {
    pub(super) fn new(in_order: bool) -> Self {
        Self { in_order, ..Self::default() }
    }

    pub(super) fn in_order(&self) -> bool {
        self.in_order
    }

    /// Returns the number of deliveries that wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.iter().sum()
    }

    /// Returns the number of waiting deliveries that are no replays.
    pub(super) fn waiting_anew(&self) -> usize {
        self.waiting[usize::from(false)]
    }

    /// Returns the next delivery and its time, of the replays (`is_replay`) or of the others.
    pub(super) fn next(&self, is_replay: bool) -> Option<(Timestamp, u64)> {
        self.due[usize::from(is_replay)].first().copied()
    }

    /// Adds a waiting delivery, which must not wait yet.
    pub(super) fn wait(
        &mut self,
        first: u64,
        lane: Option<OrderingKey>,
        at: Timestamp,
        is_replay: bool,
    ) {
        self.waiting[usize::from(is_replay)] += 1;
        if self.in_order {
            self.change(lane, |taken| {
                taken.waiting.insert(first, (at, is_replay));
            });
        } else {
            self.due[usize::from(is_replay)].insert((at, first));
        }
    }

    /// Removes a waiting delivery.
    pub(super) fn leave(
        &mut self,
        first: u64,
        lane: Option<OrderingKey>,
        at: Timestamp,
        is_replay: bool,
    ) {
        self.waiting[usize::from(is_replay)] -= 1;
        if self.in_order {
            self.change(lane, |taken| {
                taken.waiting.remove(&first);
            });
        } else {
            self.due[usize::from(is_replay)].remove(&(at, first));
        }
    }

    /// Notes that a delivery of this lane has started.
    pub(super) fn begin(&mut self, lane: Option<OrderingKey>) {
        if self.in_order {
            self.change(lane, |taken| taken.in_flight += 1);
        }
    }

    /// Notes that a delivery of this lane has ended.
    pub(super) fn end(&mut self, lane: Option<OrderingKey>) {
        if self.in_order {
            self.change(lane, |taken| taken.in_flight -= 1);
        }
    }

    /// In order: returns whether no delivery waits or is in flight.
    pub(super) fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    /// In order: returns whether a delivery of this lane waits or is in flight.
    pub(super) fn is_taken(&self, lane: Option<OrderingKey>) -> bool {
        self.lanes.contains_key(&lane)
    }

    /// In order: returns whether a delivery of this lane waits.
    pub(super) fn has_waiting(&self, lane: Option<OrderingKey>) -> bool {
        self.lanes.get(&lane).is_some_and(|taken| !taken.waiting.is_empty())
    }

    fn change(&mut self, lane: Option<OrderingKey>, change: impl FnOnce(&mut LaneLoad)) {
        let taken = self.lanes.entry(lane).or_default();
        let before = taken.next();
        change(taken);
        let after = taken.next();
        if taken.waiting.is_empty() && taken.in_flight == 0 {
            self.lanes.remove(&lane);
        }
        if before != after {
            before.map(|(at, first, is_replay)| {
                self.due[usize::from(is_replay)].remove(&(at, first))
            });
            after
                .map(|(at, first, is_replay)| self.due[usize::from(is_replay)].insert((at, first)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use postrider_domain::{EventKind, Phone, RequestId};
    use serde_json::json;

    fn key(kind: EventKind, data: serde_json::Value) -> OrderingKey {
        OrderingKey::of(&PublicEvent::Other { kind, data: data.to_string().into() })
    }

    #[test]
    fn a_contact_has_one_lane_however_it_is_named() {
        let phone: Phone = "+14155550100".parse().unwrap();
        let request_id = RequestId::from_bytes([1; 16]);
        let lane = OrderingKey::of(&PublicEvent::OtpVerified { request_id, phone });
        use EventKind::{BroadcastStarted, ContactUpdated, MessageReceived, MessageSent};
        for (kind, name) in
            [(ContactUpdated, "phone"), (MessageSent, "to"), (MessageReceived, "from")]
        {
            assert_eq!(key(kind, json!({"message_id": "m", name: "+14155550100"})), lane);
        }
        assert_ne!(key(MessageSent, json!({"to": "+14155550101"})), lane);
        let nobody = key(BroadcastStarted, json!({"broadcast_id": "b"}));
        assert_eq!(nobody, key(MessageSent, json!({"to": null, "message_id": 7})));
        let ids = [
            key(ContactUpdated, json!({"contact_id": "c"})),
            key(MessageSent, json!({"message_id": "m"})),
        ];
        assert!(ids[0] != nobody && ids[1] != nobody && ids[0] != ids[1]);
    }

    #[test]
    fn only_the_first_of_a_lane_may_go() {
        let at = Timestamp::from_millis;
        let (a, b) = (Some(OrderingKey(1)), Some(OrderingKey(2)));
        let mut lanes = Lanes::new(true);
        lanes.wait(5, a, at(50), false);
        lanes.wait(7, a, at(1), true);
        lanes.wait(6, b, at(60), false);
        assert_eq!((lanes.next(false), lanes.waiting()), (Some((at(50), 5)), 3));
        assert_eq!(lanes.next(true), None, "not before the first of its lane");
        lanes.begin(a);
        assert_eq!(lanes.next(false), Some((at(60), 6)), "one of the lane is under way");
        lanes.leave(5, a, at(50), false);
        lanes.end(a);
        assert_eq!(lanes.next(true), Some((at(1), 7)));
        lanes.leave(7, a, at(1), true);
        assert!(!lanes.is_taken(a) && lanes.is_taken(b) && lanes.has_waiting(b));
        lanes.leave(6, b, at(60), false);
        assert!(lanes.is_empty() && lanes.next(false).is_none() && lanes.waiting() == 0);
    }
}
