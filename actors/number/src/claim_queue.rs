//! What is about to be handed over, in order, while its claims become durable.

use std::collections::VecDeque;
use std::time::Duration;

use hashbrown::HashSet;

use postrider_channel::Lane;
use postrider_domain::{MessageId, Timestamp};

use super::Granted;
use super::queue::Attempt;

/// A workspace that has not answered for so long is asked again: it may have been rebuilt.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// The messages, and what their workspace is asked for. One question is under way at a time, so
/// that the next one is for all that came meanwhile. Pure: the caller tells the time.
#[derive(Debug, Default)]
pub(super) struct ClaimQueue {
    queue: VecDeque<Attempt>,
    asked: Option<Asked>,
    tickets: u64,
}

#[derive(Debug)]
struct Asked {
    ticket: u64,
    messages: Vec<MessageId>,
    /// When it was asked the last time; `None` if it has to be asked anew.
    at: Option<Timestamp>,
}

impl ClaimQueue {
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Attempt> {
        self.queue.iter()
    }

    /// Takes a message in that may go; gives it back if it need not wait, for its claim or for one
    /// of its lane that does.
    pub(super) fn admit(&mut self, attempt: Attempt) -> Option<Attempt> {
        let behind = attempt.message.origin.lane() == Lane::First && !self.queue.is_empty();
        if attempt.must_claim().is_none() && !behind {
            return Some(attempt);
        }
        self.queue.push_back(attempt);
        None
    }

    /// The next one that need not wait any more.
    pub(super) fn pop(&mut self) -> Option<Attempt> {
        self.queue.pop_front_if(|attempt| attempt.must_claim().is_none())
    }

    /// What the workspace is to be asked for now, and under which ticket.
    pub(super) fn ask(&mut self, now: Timestamp) -> Option<(u64, Vec<MessageId>)> {
        if let Some(asked) = &mut self.asked {
            if asked.at.is_some_and(|at| now < at.plus(ASK_AGAIN)) {
                return None;
            }
            asked.at = Some(now);
            return Some((asked.ticket, asked.messages.clone()));
        }
        let messages: Vec<_> = self.queue.iter().filter_map(Attempt::must_claim).collect();
        if messages.is_empty() {
            return None;
        }
        self.tickets += 1;
        let (ticket, at) = (self.tickets, Some(now));
        self.asked = Some(Asked { ticket, messages: messages.clone(), at });
        Some((ticket, messages))
    }

    /// The workspace was rebuilt and may have forgotten what it was asked.
    pub(super) fn ask_anew(&mut self) {
        if let Some(asked) = &mut self.asked {
            asked.at = None;
        }
    }

    /// When the workspace is to be asked again.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.asked.as_ref().and_then(|asked| asked.at).map(|at| at.plus(ASK_AGAIN))
    }

    /// The workspace has answered. What was asked for and not granted is settled: it is dropped.
    /// An answer to another question changes nothing.
    pub(super) fn granted(&mut self, granted: &Granted) -> Vec<Attempt> {
        let Some(asked) = self.asked.take_if(|asked| asked.ticket == granted.ticket) else {
            return Vec::new();
        };
        let granted: HashSet<_> = granted.messages.iter().copied().collect();
        // They were the first without a claim, and still are.
        let mut unanswered = asked.messages.len();
        let mut dropped = Vec::new();
        for mut attempt in std::mem::take(&mut self.queue) {
            if let Some(id) = attempt.must_claim().filter(|_| unanswered > 0) {
                unanswered -= 1;
                attempt.claimed = granted.contains(&id);
                if !attempt.claimed {
                    dropped.push(attempt);
                    continue;
                }
            }
            self.queue.push_back(attempt);
        }
        dropped
    }

    /// Takes everything out, and waits for no answer any more.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Attempt> + '_ {
        self.asked = None;
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

    /// Attempts for single messages, but a code for 0 and a broadcast's for 100.
    fn attempts(numbers: &[u64]) -> Vec<Attempt> {
        let mut lanes = SendQueue::default();
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
            lanes.push(message, false);
            lanes.pop().unwrap()
        };
        numbers.iter().map(take).collect()
    }

    /// Admits them; gives the sequences of those that need not wait.
    fn admit(staged: &mut ClaimQueue, attempts: Vec<Attempt>) -> Vec<u64> {
        let admitted = attempts.into_iter().filter_map(|attempt| staged.admit(attempt));
        admitted.map(|attempt| attempt.sequence).collect()
    }

    fn ready(staged: &mut ClaimQueue) -> Vec<u64> {
        std::iter::from_fn(|| staged.pop()).map(|attempt| attempt.sequence).collect()
    }

    #[test]
    fn a_lane_stays_in_order_while_claims_are_awaited() {
        let mut staged = ClaimQueue::default();
        assert_eq!(admit(&mut staged, attempts(&[0, 100, 1, 0, 100, 2, 0])), [1, 2, 5]);
        let (ticket, messages) = staged.ask(at(0)).unwrap();
        assert_eq!(messages.len(), 2);
        assert_eq!((ready(&mut staged), staged.len()), (vec![], 4));
        let granted = Granted { ticket, messages: messages.clone() };
        assert!(staged.granted(&Granted { ticket: ticket + 1, ..granted }).is_empty());
        assert!(ready(&mut staged).is_empty());
        assert!(staged.granted(&Granted { ticket, messages }).is_empty());
        assert_eq!(ready(&mut staged), [3, 4, 6, 7]);
        assert_eq!((staged.ask(at(9)), staged.next()), (None, None));
    }

    #[test]
    fn what_comes_meanwhile_is_asked_for_next() {
        let mut staged = ClaimQueue::default();
        let [one, two, three] = <[Attempt; 3]>::try_from(attempts(&[1, 2, 3])).unwrap();
        admit(&mut staged, vec![one]);
        let first = staged.ask(at(0)).unwrap();
        admit(&mut staged, vec![two, three]);
        assert_eq!(staged.ask(at(0)), None, "one question at a time");
        assert_eq!(staged.next(), Some(at(1)));
        assert_eq!(staged.ask(at(1)).as_ref(), Some(&first), "the same one again");
        staged.ask_anew();
        assert_eq!(staged.ask(at(1)).as_ref(), Some(&first));
        let (ticket, _) = first;
        let dropped = staged.granted(&Granted { ticket, messages: Vec::new() });
        assert_eq!(dropped.len(), 1, "it was settled meanwhile");
        let (second, messages) = staged.ask(at(1)).unwrap();
        assert_eq!((second, messages.len()), (ticket + 1, 2));
        let first_of_both = Granted { ticket: second, messages: messages[..1].to_vec() };
        assert_eq!(staged.granted(&first_of_both).len(), 1);
        assert_eq!((ready(&mut staged), staged.len()), (vec![2], 0));
    }

    #[test]
    fn what_is_taken_out_waits_for_no_answer() {
        let mut staged = ClaimQueue::default();
        admit(&mut staged, attempts(&[1, 2]));
        let (ticket, messages) = staged.ask(at(0)).unwrap();
        let out: Vec<_> = staged.drain().collect();
        assert_eq!(out.len(), 2);
        admit(&mut staged, out);
        assert!(staged.granted(&Granted { ticket, messages: messages.clone() }).is_empty());
        assert!(ready(&mut staged).is_empty());
        assert_eq!(staged.ask(at(0)), Some((ticket + 1, messages)));
    }
}
