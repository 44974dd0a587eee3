//! Pure: the waits that a provider asks for, of numbers and of single recipients.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use hashbrown::HashMap;
use postrider_domain::{PartyId, Timestamp};
use postrider_runtime::flow::Backoff;

use crate::queue::SendAttempt;

/// The durations of consecutive pauses if the provider names none.
const PAUSE: Backoff = Backoff { min: Duration::from_secs(1), max: Duration::from_secs(60) };
/// The minimum pause, whatever the provider asks for.
const ASKED_MIN: Duration = Duration::from_millis(100);

/// The time until which nothing may be sent; several numbers may share it. Throttles of messages
/// that were in flight when a pause started do not prolong it.
#[derive(Debug, Default)]
pub struct Pause {
    until_ms: AtomicU64,
    /// The number of consecutive pauses.
    consecutive: AtomicU32,
}

impl Pause {
    /// Returns the end of the pause, if it is after `now`.
    pub(super) fn until(&self, now: Timestamp) -> Option<Timestamp> {
        let until = Timestamp::from_millis(self.until_ms.load(Ordering::Acquire));
        (until > now).then_some(until)
    }

    /// Starts a pause after a throttle, for `after` if the provider gave it.
    pub(super) fn throttled(&self, now: Timestamp, after: Option<Duration>) {
        if self.until(now).is_some() && after.is_none() {
            return;
        }
        let consecutive = self.consecutive.fetch_add(1, Ordering::AcqRel);
        let until = now.plus(after.unwrap_or(PAUSE.delay(consecutive)).max(ASKED_MIN)).as_millis();
        self.until_ms.fetch_max(until, Ordering::AcqRel);
    }

    /// Records that the provider accepted a message: the next pause is a first one.
    pub(super) fn accepted(&self) {
        // Most calls read 0: a read does not take the cache line from other threads.
        if self.consecutive.load(Ordering::Relaxed) > 0 {
            self.consecutive.store(0, Ordering::Release);
        }
    }
}

/// The longest wait is four to this power, in seconds: about an hour.
const EXPONENT_MAX: u32 = 6;

/// The throttled recipients, and their messages, which wait in order while others are served. When
/// a wait ends, one message is tried; the others follow when it has its outcome.
#[derive(Debug, Default)]
pub(super) struct RecipientBackoff {
    waiting: HashMap<PartyId, RecipientWait>,
    /// The end of each wait, for recipients without a trial in flight.
    ends: BTreeSet<(Timestamp, PartyId)>,
}

#[derive(Debug)]
struct RecipientWait {
    until: Timestamp,
    /// The number of consecutive throttles.
    throttles: u32,
    /// The recipient's waiting messages, in order.
    waiting: Vec<SendAttempt>,
    /// The sequence of the message that is being tried.
    trial: Option<u64>,
}

impl RecipientBackoff {
    /// Makes the recipient of a message wait that was refused because the recipient had too many.
    /// The wait is as long as the provider asked, else 4^n seconds after the n-th consecutive
    /// throttle, counted from 0.
    pub(super) fn throttled(
        &mut self,
        now: Timestamp,
        after: Option<Duration>,
        attempt: SendAttempt,
    ) {
        let to = attempt.message.to.clone();
        let new = || RecipientWait { until: now, throttles: 0, waiting: Vec::new(), trial: None };
        let wait = self.waiting.entry(to.clone()).or_insert_with(new);
        let first = wait.throttles == 0;
        // Messages that were in flight at the start of the wait do not prolong it.
        if first || wait.trial == Some(attempt.sequence) {
            self.ends.remove(&(wait.until, to.clone()));
            let seconds = Duration::from_secs(4_u64.pow(wait.throttles.min(EXPONENT_MAX)));
            wait.until = now.plus(after.unwrap_or(seconds).max(Duration::from_millis(100)));
            wait.throttles += 1;
            wait.trial = None;
            self.ends.insert((wait.until, to));
        }
        wait.insert(attempt);
    }

    /// Queues a message whose recipient waits. Returns it if it may be sent.
    pub(super) fn admit(&mut self, attempt: SendAttempt) -> Option<SendAttempt> {
        if !self.must_wait(&attempt) {
            return Some(attempt);
        }
        if let Some(wait) = self.waiting.get_mut(&attempt.message.to) {
            wait.insert(attempt);
        }
        None
    }

    /// Returns whether the message's recipient waits, and the message is not its trial.
    pub(super) fn must_wait(&self, attempt: &SendAttempt) -> bool {
        let wait = self.waiting.get(&attempt.message.to);
        wait.is_some_and(|wait| wait.trial != Some(attempt.sequence))
    }

    /// Returns the next message that must be tried because its recipient's wait has ended.
    pub(super) fn due(&mut self, now: Timestamp) -> Option<SendAttempt> {
        loop {
            self.ends.first().filter(|(until, _)| *until <= now)?;
            let (_, to) = self.ends.pop_first()?;
            let Some(wait) = self.waiting.get_mut(&to) else { continue };
            if wait.waiting.is_empty() {
                self.waiting.remove(&to);
                continue;
            }
            let attempt = wait.waiting.remove(0);
            wait.trial = Some(attempt.sequence);
            return Some(attempt);
        }
    }

    /// Handles another outcome, or the expiry, of a message. If it was its recipient's trial, the
    /// wait ends: all messages of the recipient are returned and may be sent.
    pub(super) fn settled(&mut self, to: &PartyId, sequence: u64) -> Vec<SendAttempt> {
        if self.waiting.get(to).is_none_or(|wait| wait.trial != Some(sequence)) {
            return Vec::new();
        }
        self.waiting.remove(to).map(|wait| wait.waiting).unwrap_or_default()
    }

    /// Returns the number of waiting messages.
    pub(super) fn len(&self) -> usize {
        self.waiting.values().map(|wait| wait.waiting.len()).sum()
    }

    /// Returns the time at which the next wait ends.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.ends.first().map(|(until, _)| *until)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &SendAttempt> {
        self.waiting.values().flat_map(|wait| &wait.waiting)
    }

    /// Removes and returns the messages for which `wanted` holds. The waits continue.
    pub(super) fn take(&mut self, wanted: &dyn Fn(&SendAttempt) -> bool) -> Vec<SendAttempt> {
        let queues = self.waiting.values_mut().map(|wait| &mut wait.waiting);
        queues.flat_map(|queue| queue.extract_if(.., |attempt| wanted(attempt))).collect()
    }

    /// Removes and returns all messages, and ends all waits.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = SendAttempt> + '_ {
        self.ends.clear();
        self.waiting.drain().flat_map(|(_, wait)| wait.waiting)
    }

    /// Moves the expired messages to `out`. Returns the time at which the next message expires.
    pub(super) fn expire(
        &mut self,
        now: Timestamp,
        out: &mut Vec<SendAttempt>,
    ) -> Option<Timestamp> {
        for wait in self.waiting.values_mut() {
            out.extend(wait.waiting.extract_if(.., |attempt| attempt.message.give_up_at <= now));
        }
        self.iter().map(|attempt| attempt.message.give_up_at).min()
    }
}

impl RecipientWait {
    fn insert(&mut self, attempt: SendAttempt) {
        let place = self.waiting.partition_point(|other| other.sequence < attempt.sequence);
        self.waiting.insert(place, attempt);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::SendQueue;
    use crate::queue::tests::{at, message};

    #[test]
    fn consecutive_pauses_last_longer() {
        let pause = Pause::default();
        assert_eq!(pause.until(at(0)), None);
        let mut now = 0;
        for wait in [1, 2, 4, 8, 16, 32, 60, 60] {
            pause.throttled(at(now), None);
            // A message that was in flight is throttled too, and changes nothing.
            pause.throttled(at(now), None);
            assert_eq!(pause.until(at(now)), Some(at(now + wait)));
            now += wait;
            assert_eq!(pause.until(at(now)), None);
        }
        pause.accepted();
        pause.throttled(at(now), None);
        assert_eq!(pause.until(at(now)), Some(at(now + 1)));
        pause.throttled(at(now), Some(Duration::from_secs(300)));
        assert_eq!(pause.until(at(now)), Some(at(now + 300)));
        pause.throttled(at(now), Some(Duration::from_secs(7)));
        assert_eq!(pause.until(at(now)), Some(at(now + 300)), "it is not cut short");
    }

    /// Returns messages to these phones, in this order.
    fn attempts(phones: &[u64]) -> Vec<SendAttempt> {
        let mut queue = SendQueue::default();
        phones.iter().for_each(|phone| queue.push(message(*phone, 100_000), false));
        std::iter::from_fn(|| queue.pop()).collect()
    }

    #[test]
    fn each_wait_is_four_times_as_long() {
        let mut recipients = RecipientBackoff::default();
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
        let (to, sequence) = (attempt.message.to.clone(), attempt.sequence);
        assert!(recipients.settled(&to, sequence).is_empty());
        recipients.throttled(at(now), None, attempt);
        assert_eq!(recipients.next(), Some(at(now + 1)), "it begins again");
    }

    #[test]
    fn the_order_is_kept_and_others_are_served() {
        let mut recipients = RecipientBackoff::default();
        let [one, other, two, three] =
            <[SendAttempt; 4]>::try_from(attempts(&[1, 2, 1, 1])).unwrap();
        let to = one.message.to.clone();
        // The second was in flight too; its throttle prolongs nothing.
        recipients.throttled(at(0), None, two);
        recipients.throttled(at(0), None, one);
        assert_eq!(recipients.next(), Some(at(1)));
        assert!(recipients.admit(other).is_some());
        assert!(recipients.admit(three).is_none());
        let trial = recipients.due(at(1)).unwrap();
        assert_eq!(trial.sequence, 1);
        let trial = recipients.admit(trial).unwrap();
        assert!(recipients.settled(&to, 3).is_empty(), "not the trial");
        let released = recipients.settled(&to, trial.sequence);
        assert_eq!(released.iter().map(|it| it.sequence).collect::<Vec<_>>(), [3, 4]);
        assert_eq!((recipients.next(), recipients.iter().count()), (None, 0));
    }

    #[test]
    fn the_providers_own_wait_goes_first() {
        let mut recipients = RecipientBackoff::default();
        let attempt = attempts(&[1]).pop().unwrap();
        recipients.throttled(at(0), Some(Duration::from_secs(30)), attempt);
        assert_eq!(recipients.next(), Some(at(30)));
        let mut out = Vec::new();
        assert_eq!(recipients.expire(at(99_999), &mut out), Some(at(100_000)));
        assert_eq!((recipients.expire(at(100_000), &mut out), out.len()), (None, 1));
        assert!(recipients.due(at(30)).is_none() && recipients.next().is_none());
    }
}
