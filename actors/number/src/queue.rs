//! Pure: messages that wait to be sent, in two lanes, and then until their claims are durable.
//!
//! Each lane is in order of arrival, and so are the messages that wait for a claim.

use std::collections::VecDeque;
use std::time::Duration;

use hashbrown::HashSet;
use postrider_channel::{Lane, Origin, Outbound};
use postrider_domain::{BroadcastId, MessageId, Timestamp};

use crate::Granted;

/// A message of a number, and the state of its attempts to be sent.
#[derive(Debug)]
pub struct SendAttempt {
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

impl SendAttempt {
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
    first: VecDeque<SendAttempt>,
    bulk: VecDeque<SendAttempt>,
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
        lane.push_back(SendAttempt::new(message, sequence, claimed));
        self.claimed |= claimed;
    }

    /// Queues a message again at the place that it had.
    pub(super) fn put_back(&mut self, attempt: SendAttempt) {
        let lane = self.of(attempt.message.origin.lane());
        let place = lane.partition_point(|other| other.sequence < attempt.sequence);
        lane.insert(place, attempt);
    }

    /// Removes and returns the next message.
    pub(super) fn pop(&mut self) -> Option<SendAttempt> {
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

    pub(super) fn iter(&self) -> impl Iterator<Item = &SendAttempt> {
        self.first.iter().chain(&self.bulk)
    }

    /// Returns the claimed messages: they had capacity reserved to be sent at once, but still wait.
    /// The caller must release them all; the next call may not find them.
    pub(super) fn claimed(&mut self) -> impl Iterator<Item = &mut SendAttempt> {
        let waiting = if std::mem::take(&mut self.claimed) { self.first.len() } else { 0 };
        self.first.iter_mut().take(waiting).filter(|attempt| attempt.claimed)
    }

    /// Removes and returns the messages of the bulk lane for which `wanted` holds.
    pub(super) fn take_bulk(&mut self, wanted: &dyn Fn(&SendAttempt) -> bool) -> Vec<SendAttempt> {
        let bulk = std::mem::take(&mut self.bulk).into_iter();
        let (taken, kept): (_, VecDeque<_>) = bulk.partition(wanted);
        self.bulk = kept;
        taken.into()
    }

    /// Removes and returns the messages of the first lane for which `wanted` holds.
    pub(super) fn take_first(&mut self, wanted: &dyn Fn(&SendAttempt) -> bool) -> Vec<SendAttempt> {
        let first = std::mem::take(&mut self.first).into_iter();
        let (taken, kept): (_, VecDeque<_>) = first.partition(wanted);
        self.first = kept;
        taken.into()
    }

    /// Removes and returns all messages.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = SendAttempt> + '_ {
        self.first.drain(..).chain(self.bulk.drain(..))
    }

    /// Moves the expired messages to `out`. Returns the time at which the next message expires.
    pub(super) fn expire(
        &mut self,
        now: Timestamp,
        out: &mut Vec<SendAttempt>,
    ) -> Option<Timestamp> {
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

    const fn of(&mut self, lane: Lane) -> &mut VecDeque<SendAttempt> {
        match lane {
            Lane::First => &mut self.first,
            Lane::Bulk => &mut self.bulk,
        }
    }
}

/// A request without an answer for this long is repeated: the workspace may have restarted.
const REQUEST_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// The messages that wait for a claim, and the request for claims to their workspace. Only one
/// request is open at a time, so that the next one covers all messages that arrived meanwhile.
#[derive(Debug, Default)]
pub(super) struct ClaimQueue {
    queue: VecDeque<SendAttempt>,
    requested: Option<ClaimRequest>,
    tickets: u64,
}

#[derive(Debug)]
struct ClaimRequest {
    ticket: u64,
    messages: Vec<MessageId>,
    /// The messages that the workspace dispatched again since the request, whose answer does not
    /// drop them.
    dispatched: HashSet<MessageId>,
    /// The time at which it was last sent; `None` if it must be sent again now.
    at: Option<Timestamp>,
}

impl ClaimQueue {
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &SendAttempt> {
        self.queue.iter()
    }

    /// Queues a message until its claim is durable. Returns it at once if it needs no claim and its
    /// lane is empty.
    pub(super) fn admit(&mut self, attempt: SendAttempt) -> Option<SendAttempt> {
        let behind = attempt.message.origin.lane() == Lane::First && !self.queue.is_empty();
        if attempt.must_claim().is_none() && !behind {
            return Some(attempt);
        }
        self.queue.push_back(attempt);
        None
    }

    /// Removes and returns the next message, if it waits no longer.
    pub(super) fn pop(&mut self) -> Option<SendAttempt> {
        self.queue.pop_front_if(|attempt| attempt.must_claim().is_none())
    }

    /// Returns the request that must be sent to the workspace now: its ticket and its messages.
    pub(super) fn request(&mut self, now: Timestamp) -> Option<(u64, Vec<MessageId>)> {
        if let Some(requested) = &mut self.requested {
            if requested.at.is_some_and(|at| now < at.plus(REQUEST_AGAIN_AFTER)) {
                return None;
            }
            requested.at = Some(now);
            return Some((requested.ticket, requested.messages.clone()));
        }
        let messages: Vec<_> = self.queue.iter().filter_map(SendAttempt::must_claim).collect();
        if messages.is_empty() {
            return None;
        }
        self.tickets += 1;
        let (ticket, at) = (self.tickets, Some(now));
        let dispatched = HashSet::new();
        self.requested = Some(ClaimRequest { ticket, messages: messages.clone(), dispatched, at });
        Some((ticket, messages))
    }

    /// Repeats the open request: the workspace has restarted and may have lost it.
    pub(super) fn request_again(&mut self) {
        if let Some(requested) = &mut self.requested {
            requested.at = None;
        }
    }

    /// Records messages that the workspace dispatches again. Its answer to the open request may be
    /// older, and deny claims that it now wants.
    pub(super) fn dispatched_again<'a>(&mut self, messages: impl Iterator<Item = &'a Outbound>) {
        if let Some(requested) = &mut self.requested {
            requested.dispatched.extend(messages.map(|message| message.message_id));
        }
    }

    /// Returns the time at which the open request must be repeated.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.requested
            .as_ref()
            .and_then(|requested| requested.at)
            .map(|at| at.plus(REQUEST_AGAIN_AFTER))
    }

    /// Handles the workspace's answer. A requested message that was not granted is settled, or
    /// waits with the workspace. It is removed and returned, unless the workspace has dispatched it
    /// again since. The answer to an older request changes nothing.
    pub(super) fn granted(&mut self, granted: &Granted) -> Vec<SendAttempt> {
        let Some(requested) =
            self.requested.take_if(|requested| requested.ticket == granted.ticket)
        else {
            return Vec::new();
        };
        let granted: HashSet<_> = granted.messages.iter().copied().collect();
        // The requested messages were the first without a claim, and still are.
        let mut unanswered = requested.messages.len();
        let mut dropped = Vec::new();
        for mut attempt in std::mem::take(&mut self.queue) {
            if let Some(id) = attempt.must_claim().filter(|_| unanswered > 0) {
                unanswered -= 1;
                attempt.claimed = granted.contains(&id);
                if !attempt.claimed && !requested.dispatched.contains(&id) {
                    dropped.push(attempt);
                    continue;
                }
            }
            self.queue.push_back(attempt);
        }
        dropped
    }

    /// Removes all messages and closes the open request.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = SendAttempt> + '_ {
        self.requested = None;
        self.queue.drain(..)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;

    use postrider_channel::Content;
    use postrider_domain::{NumberId, RenderedContent, RequestId};

    use super::*;

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
        let [one, two, three] = <[SendAttempt; 3]>::try_from(taken).unwrap();
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

    /// Returns attempts of single messages; 0 is a code instead, and 100 a broadcast's message.
    fn attempts(numbers: &[u64]) -> Vec<SendAttempt> {
        let mut send_queue = SendQueue::default();
        let take = |number: &u64| {
            let mut message = message(*number, 100);
            match number {
                0 => {
                    message.origin =
                        Origin::Otp { request_id: RequestId::from_bytes([0; 16]), number: 1 }
                }
                100 => {
                    let broadcast = BroadcastId::from_bytes([0; 16]);
                    message.origin = Origin::Broadcast { broadcast, index: 0 };
                }
                _ => {}
            }
            send_queue.push(message, false);
            send_queue.pop().unwrap()
        };
        numbers.iter().map(take).collect()
    }

    /// Admits the attempts, and returns the sequences of those that need not wait.
    fn admit(queue: &mut ClaimQueue, attempts: Vec<SendAttempt>) -> Vec<u64> {
        let admitted = attempts.into_iter().filter_map(|attempt| queue.admit(attempt));
        admitted.map(|attempt| attempt.sequence).collect()
    }

    fn ready(queue: &mut ClaimQueue) -> Vec<u64> {
        std::iter::from_fn(|| queue.pop()).map(|attempt| attempt.sequence).collect()
    }

    #[test]
    fn a_lane_stays_in_order_while_claims_are_awaited() {
        let mut queue = ClaimQueue::default();
        assert_eq!(admit(&mut queue, attempts(&[0, 100, 1, 0, 100, 2, 0])), [1, 2, 5]);
        let (ticket, messages) = queue.request(at(0)).unwrap();
        assert_eq!(messages.len(), 2);
        assert_eq!((ready(&mut queue), queue.len()), (vec![], 4));
        let granted = Granted { ticket, messages: messages.clone() };
        assert!(queue.granted(&Granted { ticket: ticket + 1, ..granted }).is_empty());
        assert!(ready(&mut queue).is_empty());
        assert!(queue.granted(&Granted { ticket, messages }).is_empty());
        assert_eq!(ready(&mut queue), [3, 4, 6, 7]);
        assert_eq!((queue.request(at(9)), queue.next()), (None, None));
    }

    #[test]
    fn messages_that_arrive_meanwhile_are_requested_next() {
        let mut queue = ClaimQueue::default();
        let [one, two, three] = <[SendAttempt; 3]>::try_from(attempts(&[1, 2, 3])).unwrap();
        admit(&mut queue, vec![one]);
        let first = queue.request(at(0)).unwrap();
        admit(&mut queue, vec![two, three]);
        assert_eq!(queue.request(at(0)), None, "one request at a time");
        assert_eq!(queue.next(), Some(at(1)));
        assert_eq!(queue.request(at(1)).as_ref(), Some(&first), "the same one again");
        queue.request_again();
        assert_eq!(queue.request(at(1)).as_ref(), Some(&first));
        let (ticket, _) = first;
        let dropped = queue.granted(&Granted { ticket, messages: Vec::new() });
        assert_eq!(dropped.len(), 1, "it was settled meanwhile");
        let (second, messages) = queue.request(at(1)).unwrap();
        assert_eq!((second, messages.len()), (ticket + 1, 2));
        let first_of_both = Granted { ticket: second, messages: messages[..1].to_vec() };
        assert_eq!(queue.granted(&first_of_both).len(), 1);
        assert_eq!((ready(&mut queue), queue.len()), (vec![2], 0));
    }

    #[test]
    fn what_is_dispatched_again_before_the_answer_is_requested_again() {
        let mut queue = ClaimQueue::default();
        let both = attempts(&[1, 2]);
        let second = both[1].message.clone();
        admit(&mut queue, both);
        let (ticket, messages) = queue.request(at(0)).unwrap();
        queue.dispatched_again([&second].into_iter());
        let dropped = queue.granted(&Granted { ticket, messages: Vec::new() });
        assert_eq!(dropped.iter().map(|it| it.sequence).collect::<Vec<_>>(), [1]);
        // Only once: the answer to the next request is newer.
        let (ticket, again) = queue.request(at(0)).unwrap();
        assert_eq!(again, messages[1..]);
        assert_eq!(queue.granted(&Granted { ticket, messages: Vec::new() }).len(), 1);
        assert_eq!(queue.len(), 0);
    }

    #[test]
    fn an_answer_to_drained_messages_is_ignored() {
        let mut queue = ClaimQueue::default();
        admit(&mut queue, attempts(&[1, 2]));
        let (ticket, messages) = queue.request(at(0)).unwrap();
        let out: Vec<_> = queue.drain().collect();
        assert_eq!(out.len(), 2);
        admit(&mut queue, out);
        assert!(queue.granted(&Granted { ticket, messages: messages.clone() }).is_empty());
        assert!(ready(&mut queue).is_empty());
        assert_eq!(queue.request(at(0)), Some((ticket + 1, messages)));
    }
}
