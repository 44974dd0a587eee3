//! Pure: messages that wait to be sent, in two lanes, each in order of arrival.

use std::collections::VecDeque;

use postrider_channel::{Lane, Origin, Outbound};
use postrider_domain::{BroadcastId, MessageId, Timestamp};

/// A message of a number, and the state of its attempts to be sent.
#[derive(Debug)]
pub struct Attempt {
    pub(super) message: Outbound,
    /// Its place in the order of arrival.
    pub(super) sequence: u64,
    /// The number of times that the channel did not accept it.
    pub(super) retries: u32,
    /// Set if the breaker waits for its outcome.
    pub(super) trial: bool,
    /// Set if its workspace has recorded durably that it may have been sent.
    pub(super) claimed: bool,
    /// The number's connection that it was sent through, counted from 0.
    pub(super) connection: u32,
}

impl Attempt {
    fn new(message: Outbound, sequence: u64, claimed: bool) -> Self {
        Self { message, sequence, retries: 0, trial: false, claimed, connection: 0 }
    }

    /// Ends the claim. Returns the message if it was claimed.
    pub(super) fn release(&mut self) -> Option<MessageId> {
        match self.message.origin {
            Origin::Message(id) if std::mem::take(&mut self.claimed) => Some(id),
            _ => None,
        }
    }

    /// Returns the message's id, if it must be claimed before it is sent. A code needs no claim: it
    /// may be sent twice, since it stays the same. A broadcast claims its messages itself.
    pub(super) const fn must_claim(&self) -> Option<MessageId> {
        match self.message.origin {
            Origin::Message(id) if !self.claimed => Some(id),
            _ => None,
        }
    }

    /// Returns the broadcast and the recipient's place in it, for a broadcast's message.
    pub(super) const fn broadcast_recipient(&self) -> Option<(BroadcastId, u32)> {
        match self.message.origin {
            Origin::Broadcast { broadcast, index } => Some((broadcast, index)),
            Origin::Otp { .. } | Origin::Message(_) => None,
        }
    }
}

/// The two lanes: the bulk lane is served only while the first one is empty.
#[derive(Debug, Default)]
pub(super) struct SendQueue {
    first: VecDeque<Attempt>,
    bulk: VecDeque<Attempt>,
    /// The number of messages that have ever arrived.
    count: u64,
    /// Set if some messages may be claimed.
    claimed: bool,
}

impl SendQueue {
    /// Queues a new message at the end of its lane.
    pub(super) fn push(&mut self, message: Outbound, claimed: bool) {
        self.count += 1;
        let sequence = self.count;
        let lane = self.of(message.origin.lane());
        lane.push_back(Attempt::new(message, sequence, claimed));
        self.claimed |= claimed;
    }

    /// Queues a message again at the place that it had.
    pub(super) fn put_back(&mut self, attempt: Attempt) {
        let lane = self.of(attempt.message.origin.lane());
        let place = lane.partition_point(|other| other.sequence < attempt.sequence);
        lane.insert(place, attempt);
    }

    /// Removes and returns the next message.
    pub(super) fn pop(&mut self) -> Option<Attempt> {
        self.first.pop_front().or_else(|| self.bulk.pop_front())
    }

    pub(super) fn len(&self) -> usize {
        self.first.len() + self.bulk.len()
    }

    /// Returns the lane of the next message.
    pub(super) fn next_lane(&self) -> Lane {
        if self.first.is_empty() { Lane::Bulk } else { Lane::First }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first.is_empty() && self.bulk.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Attempt> {
        self.first.iter().chain(&self.bulk)
    }

    /// Returns the claimed messages: they had capacity reserved to be sent at once, but still wait.
    /// The caller must release them all; the next call may not find them.
    pub(super) fn claimed(&mut self) -> impl Iterator<Item = &mut Attempt> {
        let waiting = if std::mem::take(&mut self.claimed) { self.first.len() } else { 0 };
        self.first.iter_mut().take(waiting).filter(|attempt| attempt.claimed)
    }

    /// Removes and returns the messages of the bulk lane for which `wanted` holds.
    pub(super) fn take_bulk(&mut self, wanted: &dyn Fn(&Attempt) -> bool) -> Vec<Attempt> {
        let bulk = std::mem::take(&mut self.bulk).into_iter();
        let (taken, kept): (_, VecDeque<_>) = bulk.partition(wanted);
        self.bulk = kept;
        taken.into()
    }

    /// Removes and returns the messages of the first lane for which `wanted` holds.
    pub(super) fn take_first(&mut self, wanted: &dyn Fn(&Attempt) -> bool) -> Vec<Attempt> {
        let first = std::mem::take(&mut self.first).into_iter();
        let (taken, kept): (_, VecDeque<_>) = first.partition(wanted);
        self.first = kept;
        taken.into()
    }

    /// Removes and returns all messages.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Attempt> + '_ {
        self.first.drain(..).chain(self.bulk.drain(..))
    }

    /// Moves the expired messages to `out`. Returns the time at which the next message expires.
    pub(super) fn expire(&mut self, now: Timestamp, out: &mut Vec<Attempt>) -> Option<Timestamp> {
        let (mut kept, mut next) = (Self::default(), None);
        (kept.count, kept.claimed) = (self.count, self.claimed);
        for attempt in self.drain() {
            let end = attempt.message.give_up_at;
            if end <= now {
                out.push(attempt);
            } else {
                next = Some(next.map_or(end, |next: Timestamp| next.min(end)));
                kept.of(attempt.message.origin.lane()).push_back(attempt);
            }
        }
        *self = kept;
        next
    }

    const fn of(&mut self, lane: Lane) -> &mut VecDeque<Attempt> {
        match lane {
            Lane::First => &mut self.first,
            Lane::Bulk => &mut self.bulk,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use postrider_channel::Content;
    use postrider_domain::{NumberId, RenderedContent};
    use std::sync::Arc;

    pub(crate) fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    /// Returns a text to this phone that expires at this second.
    pub(crate) fn message(phone: u64, until: u64) -> Outbound {
        let id = MessageId::from_parts(at(0), u128::from(phone));
        Outbound {
            message_id: id,
            origin: Origin::Message(id),
            number: NumberId::from_parts(at(0), 1),
            workspace: "acme".parse().unwrap(),
            to: format!("+1555{phone:07}").parse().unwrap(),
            give_up_at: at(until),
            content: Content::Message(Arc::new(RenderedContent::Text("hello".parse().unwrap()))),
            answers: None,
            pinned: false,
        }
    }

    fn popped(queue: &mut SendQueue) -> Vec<u64> {
        std::iter::from_fn(|| queue.pop()).map(|attempt| attempt.sequence).collect()
    }

    #[test]
    fn a_message_put_back_has_its_old_place() {
        let mut queue = SendQueue::default();
        (0..5).for_each(|phone| queue.push(message(phone, 9), false));
        let taken: Vec<_> = (0..3).filter_map(|_| queue.pop()).collect();
        queue.push(message(5, 9), false);
        let [one, two, three] = <[Attempt; 3]>::try_from(taken).unwrap();
        queue.put_back(two);
        queue.put_back(three);
        queue.put_back(one);
        assert_eq!(popped(&mut queue), [1, 2, 3, 4, 5, 6]);
        assert!(queue.is_empty());
    }

    #[test]
    fn expired_messages_are_taken_out_and_the_order_stays() {
        let mut queue = SendQueue::default();
        for (phone, until) in [(1, 30), (2, 10), (3, 20), (4, 10), (5, 40)] {
            queue.push(message(phone, until), false);
        }
        let mut out = Vec::new();
        assert_eq!(queue.expire(at(9), &mut out), Some(at(10)));
        assert_eq!((out.len(), queue.iter().count()), (0, 5));
        assert_eq!(queue.expire(at(10), &mut out), Some(at(20)));
        assert_eq!(out.iter().map(|it| it.sequence).collect::<Vec<_>>(), [2, 4]);
        queue.push(message(6, 50), false);
        assert_eq!(popped(&mut queue), [1, 3, 5, 6]);
        assert_eq!(queue.expire(at(99), &mut out), None);
    }

    #[test]
    fn claims_are_found_after_a_message_expired() {
        let mut queue = SendQueue::default();
        queue.push(message(1, 10), false);
        queue.push(message(2, 20), true);
        queue.expire(at(10), &mut Vec::new());
        let claimed: Vec<_> = queue.claimed().map(|attempt| attempt.sequence).collect();
        assert_eq!(claimed, [2]);
    }
}
