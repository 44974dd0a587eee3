//! Pure: messages that wait, in order, until their claims are durable.

use std::collections::VecDeque;
use std::time::Duration;

use hashbrown::HashSet;

use postrider_channel::{Lane, Outbound};
use postrider_domain::{MessageId, Timestamp};

use super::Granted;
use super::queue::Attempt;

/// A request without an answer for this long is repeated: the workspace may have restarted.
const REQUEST_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// The messages, and the request for claims to their workspace. Only one request is open at a time,
/// so that the next one covers all messages that arrived meanwhile.
#[derive(Debug, Default)]
pub(super) struct ClaimQueue {
    queue: VecDeque<Attempt>,
    requested: Option<Request>,
    tickets: u64,
}

#[derive(Debug)]
struct Request {
    ticket: u64,
    messages: Vec<MessageId>,
    /// The messages that the workspace dispatched again since. Its answer does not drop them.
    dispatched: HashSet<MessageId>,
    /// The time at which it was last sent; `None` if it must be sent again now.
    at: Option<Timestamp>,
}

impl ClaimQueue {
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Attempt> {
        self.queue.iter()
    }

    /// Queues a message until its claim is durable. Returns it at once if it needs no claim and its
    /// lane is empty.
    pub(super) fn admit(&mut self, attempt: Attempt) -> Option<Attempt> {
        let behind = attempt.message.origin.lane() == Lane::First && !self.queue.is_empty();
        if attempt.must_claim().is_none() && !behind {
            return Some(attempt);
        }
        self.queue.push_back(attempt);
        None
    }

    /// Removes and returns the next message, if it waits no longer.
    pub(super) fn pop(&mut self) -> Option<Attempt> {
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
        let messages: Vec<_> = self.queue.iter().filter_map(Attempt::must_claim).collect();
        if messages.is_empty() {
            return None;
        }
        self.tickets += 1;
        let (ticket, at) = (self.tickets, Some(now));
        let dispatched = HashSet::new();
        self.requested = Some(Request { ticket, messages: messages.clone(), dispatched, at });
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
    pub(super) fn granted(&mut self, granted: &Granted) -> Vec<Attempt> {
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
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Attempt> + '_ {
        self.requested = None;
        self.queue.drain(..)
    }
}

#[cfg(test)]
mod tests {
    use super::super::queue::SendQueue;
    use super::super::queue::tests::{at, message};
    use super::*;
    use postrider_channel::Origin;
    use postrider_domain::{BroadcastId, RequestId};

    /// Returns attempts of single messages; 0 is a code instead, and 100 a broadcast's message.
    fn attempts(numbers: &[u64]) -> Vec<Attempt> {
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
    fn admit(queue: &mut ClaimQueue, attempts: Vec<Attempt>) -> Vec<u64> {
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
        let [one, two, three] = <[Attempt; 3]>::try_from(attempts(&[1, 2, 3])).unwrap();
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
