//! Recipients that were sent too much for the moment: each waits for itself, in order, and the
//! others go on.

use std::collections::BTreeSet;
use std::time::Duration;

use hashbrown::HashMap;

use postrider_domain::{Phone, Timestamp};

use super::queue::Attempt;

/// A wait is not longer than this many times four: about an hour.
const POWER_MAX: u32 = 6;

/// Those that wait. Pure: the caller tells the time.
#[derive(Debug, Default)]
pub(super) struct Recipients {
    waiting: HashMap<Phone, Wait>,
    /// When each wait that no trial is under way for ends.
    ends: BTreeSet<(Timestamp, Phone)>,
}

#[derive(Debug)]
struct Wait {
    until: Timestamp,
    /// Throttles in a row.
    row: u32,
    /// In order.
    held: Vec<Attempt>,
    /// The sequence of the message that is tried.
    trial: Option<u64>,
}

impl Recipients {
    /// A message was not taken because its recipient had too many. It waits for 4^n seconds after
    /// the n-th in a row, counted from 0, or as long as the provider asked.
    pub(super) fn throttled(&mut self, now: Timestamp, after: Option<Duration>, attempt: Attempt) {
        let to = attempt.message.to;
        let new = || Wait { until: now, row: 0, held: Vec::new(), trial: None };
        let wait = self.waiting.entry(to).or_insert_with(new);
        let first = wait.row == 0;
        // What was under way when the wait began belongs to it.
        if first || wait.trial == Some(attempt.sequence) {
            self.ends.remove(&(wait.until, to));
            let seconds = Duration::from_secs(4_u64.pow(wait.row.min(POWER_MAX)));
            wait.until = now.plus(after.unwrap_or(seconds).max(Duration::from_millis(100)));
            wait.row += 1;
            wait.trial = None;
            self.ends.insert((wait.until, to));
        }
        wait.hold(attempt);
    }

    /// Keeps a message whose recipient waits; gives it back if it may go.
    pub(super) fn hold(&mut self, attempt: Attempt) -> Option<Attempt> {
        if !self.must_wait(&attempt) {
            return Some(attempt);
        }
        if let Some(wait) = self.waiting.get_mut(&attempt.message.to) {
            wait.hold(attempt);
        }
        None
    }

    /// Whether the message's recipient waits, and it is not the one that is tried.
    pub(super) fn must_wait(&self, attempt: &Attempt) -> bool {
        let wait = self.waiting.get(&attempt.message.to);
        wait.is_some_and(|wait| wait.trial != Some(attempt.sequence))
    }

    /// The next message that is to be tried because its recipient's wait is over.
    pub(super) fn due(&mut self, now: Timestamp) -> Option<Attempt> {
        loop {
            let (_, to) = *self.ends.first().filter(|(until, _)| *until <= now)?;
            self.ends.pop_first();
            let Some(wait) = self.waiting.get_mut(&to) else { continue };
            if wait.held.is_empty() {
                self.waiting.remove(&to);
                continue;
            }
            let attempt = wait.held.remove(0);
            wait.trial = Some(attempt.sequence);
            return Some(attempt);
        }
    }

    /// A message was answered for otherwise, or is over: if it was the one that was tried, all
    /// that its recipient has waiting may go.
    pub(super) fn settled(&mut self, to: Phone, sequence: u64) -> Vec<Attempt> {
        if self.waiting.get(&to).is_none_or(|wait| wait.trial != Some(sequence)) {
            return Vec::new();
        }
        self.waiting.remove(&to).map(|wait| wait.held).unwrap_or_default()
    }

    /// How many messages wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.values().map(|wait| wait.held.len()).sum()
    }

    /// When the next wait ends.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.ends.first().map(|(until, _)| *until)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Attempt> {
        self.waiting.values().flat_map(|wait| &wait.held)
    }

    /// Takes those out that are so. The waits go on.
    pub(super) fn take(&mut self, is_so: &dyn Fn(&Attempt) -> bool) -> Vec<Attempt> {
        let held = self.waiting.values_mut().map(|wait| &mut wait.held);
        held.flat_map(|held| held.extract_if(.., |attempt| is_so(attempt))).collect()
    }

    /// Takes everything out.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Attempt> + '_ {
        self.ends.clear();
        self.waiting.drain().flat_map(|(_, wait)| wait.held)
    }

    /// Takes out what is not worth sending any more. Gives when the next one will not be.
    pub(super) fn expire(&mut self, now: Timestamp, out: &mut Vec<Attempt>) -> Option<Timestamp> {
        for wait in self.waiting.values_mut() {
            out.extend(wait.held.extract_if(.., |held| held.message.give_up_at <= now));
        }
        self.iter().map(|held| held.message.give_up_at).min()
    }
}

impl Wait {
    fn hold(&mut self, attempt: Attempt) {
        let place = self.held.partition_point(|other| other.sequence < attempt.sequence);
        self.held.insert(place, attempt);
    }
}

#[cfg(test)]
mod tests {
    use super::super::queue::SendQueue;
    use super::super::queue::tests::{at, message};
    use super::*;

    /// Messages to these phones, in this order.
    fn attempts(phones: &[u64]) -> Vec<Attempt> {
        let mut lanes = SendQueue::default();
        phones.iter().for_each(|phone| lanes.push(message(*phone, 100_000), false));
        std::iter::from_fn(|| lanes.pop()).collect()
    }

    #[test]
    fn each_wait_is_four_times_as_long() {
        let mut recipients = Recipients::default();
        let mut attempt = attempts(&[1]).pop().unwrap();
        let mut now = 0;
        for wait in [1, 4, 16, 64, 256, 1024, 4096, 4096] {
            recipients.throttled(at(now), None, attempt);
            assert_eq!(recipients.next(), Some(at(now + wait)));
            assert!(recipients.due(at(now + wait - 1)).is_none());
            now += wait;
            attempt = recipients.due(at(now)).unwrap();
            assert!(recipients.due(at(now)).is_none(), "one is tried at a time");
        }
        let (to, sequence) = (attempt.message.to, attempt.sequence);
        assert!(recipients.settled(to, sequence).is_empty());
        recipients.throttled(at(now), None, attempt);
        assert_eq!(recipients.next(), Some(at(now + 1)), "it begins anew");
    }

    #[test]
    fn the_order_is_kept_and_others_go_on() {
        let mut recipients = Recipients::default();
        let [one, other, two, three] = <[Attempt; 4]>::try_from(attempts(&[1, 2, 1, 1])).unwrap();
        let to = one.message.to;
        // The second was under way too; its throttle prolongs nothing.
        recipients.throttled(at(0), None, two);
        recipients.throttled(at(0), None, one);
        assert_eq!(recipients.next(), Some(at(1)));
        assert!(recipients.hold(other).is_some());
        assert!(recipients.hold(three).is_none());
        let trial = recipients.due(at(1)).unwrap();
        assert_eq!(trial.sequence, 1);
        let trial = recipients.hold(trial).unwrap();
        assert!(recipients.settled(to, 3).is_empty(), "not the one that is tried");
        let released = recipients.settled(to, trial.sequence);
        assert_eq!(released.iter().map(|it| it.sequence).collect::<Vec<_>>(), [3, 4]);
        assert_eq!((recipients.next(), recipients.iter().count()), (None, 0));
    }

    #[test]
    fn the_providers_own_wait_goes_first() {
        let mut recipients = Recipients::default();
        let attempt = attempts(&[1]).pop().unwrap();
        recipients.throttled(at(0), Some(Duration::from_secs(30)), attempt);
        assert_eq!(recipients.next(), Some(at(30)));
        let mut out = Vec::new();
        assert_eq!(recipients.expire(at(99_999), &mut out), Some(at(100_000)));
        assert_eq!((recipients.expire(at(100_000), &mut out), out.len()), (None, 1));
        assert!(recipients.due(at(30)).is_none() && recipients.next().is_none());
    }
}
