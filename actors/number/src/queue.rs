//! What waits to be sent: two lanes, each in the order in which its messages came.

use std::collections::VecDeque;

use postrider_channel::{Lane, Origin, Outbound};
use postrider_domain::{MessageId, Timestamp};
use postrider_runtime::clock::Stopwatch;

/// A message and what has happened to it so far.
#[derive(Debug)]
pub struct Attempt {
    pub(super) message: Outbound,
    /// Its place in the order.
    pub(super) sequence: u64,
    /// How often the channel could not be reached for it.
    pub(super) refusals: u32,
    /// It decides whether the breaker closes.
    pub(super) trial: bool,
    /// Its workspace has durably noted that it is about to be handed over.
    pub(super) claimed: bool,
    /// Which of the number's channels it was handed to last.
    pub(super) era: u32,
    /// Runs while it is with a channel that takes its time.
    pub(super) watch: Option<Stopwatch>,
}

impl Attempt {
    fn new(message: Outbound, sequence: u64, claimed: bool) -> Self {
        Self { message, sequence, refusals: 0, trial: false, claimed, era: 0, watch: None }
    }

    /// Gives the claim up; the message whose claim it was, if it was claimed.
    pub(super) fn release(&mut self) -> Option<MessageId> {
        match self.message.origin {
            Origin::Message(id) if std::mem::take(&mut self.claimed) => Some(id),
            _ => None,
        }
    }

    /// The message that must be claimed before it is handed over. A code may go out twice, since it
    /// stays the same; a broadcast claims its own.
    pub(super) const fn must_claim(&self) -> Option<MessageId> {
        match self.message.origin {
            Origin::Message(id) if !self.claimed => Some(id),
            _ => None,
        }
    }
}

/// The lanes.
#[derive(Debug, Default)]
pub(super) struct SendQueue {
    first: VecDeque<Attempt>,
    bulk: VecDeque<Attempt>,
    /// Messages that came, ever.
    count: u64,
    /// Some may be claimed.
    claimed: bool,
}

impl SendQueue {
    /// Takes a new message in, behind those of its lane.
    pub(super) fn push(&mut self, message: Outbound, claimed: bool) {
        self.count += 1;
        let sequence = self.count;
        let lane = self.of(message.origin.lane());
        lane.push_back(Attempt::new(message, sequence, claimed));
        self.claimed |= claimed;
    }

    /// Takes a message back to the place that it had.
    pub(super) fn put_back(&mut self, attempt: Attempt) {
        let lane = self.of(attempt.message.origin.lane());
        let place = lane.partition_point(|other| other.sequence < attempt.sequence);
        lane.insert(place, attempt);
    }

    /// The message that goes next.
    pub(super) fn pop(&mut self) -> Option<Attempt> {
        self.first.pop_front().or_else(|| self.bulk.pop_front())
    }

    pub(super) fn len(&self) -> usize {
        self.first.len() + self.bulk.len()
    }

    /// The lane that it is in.
    pub(super) fn next_lane(&self) -> Lane {
        if self.first.is_empty() { Lane::Bulk } else { Lane::First }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first.is_empty() && self.bulk.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Attempt> {
        self.first.iter().chain(&self.bulk)
    }

    /// Those that are claimed: they were to be handed over at once, and wait after all.
    pub(super) fn claimed(&mut self) -> impl Iterator<Item = &mut Attempt> {
        let waiting = if std::mem::take(&mut self.claimed) { self.first.len() } else { 0 };
        self.first.iter_mut().take(waiting).filter(|attempt| attempt.claimed)
    }

    /// Takes those of the bulk lane out that are so.
    pub(super) fn take_bulk(&mut self, is_so: &dyn Fn(&Attempt) -> bool) -> Vec<Attempt> {
        let bulk = std::mem::take(&mut self.bulk).into_iter();
        let (taken, kept): (_, VecDeque<_>) = bulk.partition(is_so);
        self.bulk = kept;
        taken.into()
    }

    /// Takes everything out.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Attempt> + '_ {
        self.first.drain(..).chain(self.bulk.drain(..))
    }

    /// Takes out what is not worth sending any more. Gives when the next one will not be.
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
    use postrider_domain::NumberId;

    pub(crate) fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    /// A text to this phone that is worth sending until this second.
    pub(crate) fn message(phone: u64, until: u64) -> Outbound {
        let id = MessageId::from_parts(at(0), u128::from(phone));
        Outbound {
            message_id: id,
            origin: Origin::Message(id),
            number: NumberId::from_parts(at(0), 1),
            workspace: "acme".parse().unwrap(),
            to: format!("+1555{phone:07}").parse().unwrap(),
            give_up_at: at(until),
            content: Content::Text("hello".into()),
        }
    }

    fn popped(lanes: &mut SendQueue) -> Vec<u64> {
        std::iter::from_fn(|| lanes.pop()).map(|attempt| attempt.sequence).collect()
    }

    #[test]
    fn what_is_put_back_has_its_old_place() {
        let mut lanes = SendQueue::default();
        (0..5).for_each(|phone| lanes.push(message(phone, 9), false));
        let taken: Vec<_> = (0..3).filter_map(|_| lanes.pop()).collect();
        lanes.push(message(5, 9), false);
        let [one, two, three] = <[Attempt; 3]>::try_from(taken).unwrap();
        lanes.put_back(two);
        lanes.put_back(three);
        lanes.put_back(one);
        assert_eq!(popped(&mut lanes), [1, 2, 3, 4, 5, 6]);
        assert!(lanes.is_empty());
    }

    #[test]
    fn what_is_over_is_taken_out_and_the_order_stays() {
        let mut lanes = SendQueue::default();
        for (phone, until) in [(1, 30), (2, 10), (3, 20), (4, 10), (5, 40)] {
            lanes.push(message(phone, until), false);
        }
        let mut out = Vec::new();
        assert_eq!(lanes.expire(at(9), &mut out), Some(at(10)));
        assert_eq!((out.len(), lanes.iter().count()), (0, 5));
        assert_eq!(lanes.expire(at(10), &mut out), Some(at(20)));
        assert_eq!(out.iter().map(|it| it.sequence).collect::<Vec<_>>(), [2, 4]);
        lanes.push(message(6, 50), false);
        assert_eq!(popped(&mut lanes), [1, 3, 5, 6]);
        assert_eq!(lanes.expire(at(99), &mut out), None);
    }

    #[test]
    fn claims_are_found_after_something_was_over() {
        let mut lanes = SendQueue::default();
        lanes.push(message(1, 10), false);
        lanes.push(message(2, 20), true);
        lanes.expire(at(10), &mut Vec::new());
        let claimed: Vec<_> = lanes.claimed().map(|attempt| attempt.sequence).collect();
        assert_eq!(claimed, [2]);
    }
}
