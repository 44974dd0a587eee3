//! Pure: the recipients that a fan-out claims next, and the outcomes of earlier claims.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::outcomes::{Failed, Mark, Reports, Tally, Window};
use crate::record::{BroadcastPolicy, WINDOW};

/// The progress of a fan-out: claims, outcomes, and what must still be written.
#[derive(Debug)]
pub struct FanoutPlan {
    /// The number of recipients to send to. Those behind them opted out before the broadcast's
    /// creation.
    sendable: u32,
    /// The first recipient that was never claimed.
    next: u32,
    /// Windows whose outcomes may still change.
    open: BTreeMap<u32, Window>,
    /// Open windows that changed since they were last written.
    dirty: BTreeSet<u32>,
    /// Recipients to claim again: the channel certainly did not accept their message.
    retries: VecDeque<u32>,
    tally: Tally,
    uncounted: UncountedOutcomes,
}

/// Outcomes that are not in the daily counts yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UncountedOutcomes {
    /// Messages that the channel accepted, or may have accepted.
    pub sent: u32,
    /// Messages that it certainly did not accept.
    pub failed: u32,
}

impl UncountedOutcomes {
    /// Counts a message once, as sent or failed, when its first outcome is known.
    const fn add(&mut self, from: Mark, to: Mark) {
        match (from, to) {
            (Mark::Claimed | Mark::Retry, Mark::Sent | Mark::Held | Mark::Unknown) => {
                self.sent += 1
            }
            (Mark::Claimed | Mark::Retry, Mark::Failed) => self.failed += 1,
            _ => {}
        }
    }
}

impl FanoutPlan {
    /// Creates the plan of a broadcast without claims.
    pub fn new(sendable: u32) -> Self {
        Self {
            sendable,
            next: 0,
            open: BTreeMap::new(),
            dirty: BTreeSet::new(),
            retries: VecDeque::new(),
            tally: Tally::default(),
            uncounted: UncountedOutcomes::default(),
        }
    }

    /// Resumes with a window that was written before. A claimed message without an outcome counts
    /// as sent if the provider reported on it. Otherwise the policy decides.
    pub fn resume(
        &mut self,
        number: u32,
        mut window: Window,
        reported: Option<&Reports>,
        policy: BroadcastPolicy,
    ) {
        let first = number * WINDOW;
        let marks: Vec<_> = window.marks().collect();
        for (at, mark) in marks.into_iter().enumerate() {
            let index = first + u32::try_from(at).unwrap_or(u32::MAX);
            let is_reported = reported.is_some_and(|reported| reported.of(at).is_some());
            let becomes = match (mark, policy) {
                (Mark::Claimed, _) if is_reported => Mark::Sent,
                (Mark::Claimed, BroadcastPolicy::AtMostOnce) => Mark::Unknown,
                (Mark::Claimed, BroadcastPolicy::AtLeastOnce) => Mark::Retry,
                (mark, _) => mark,
            };
            if becomes != mark {
                self.uncounted.add(mark, becomes);
                window.set(at, becomes);
                self.dirty.insert(number);
            }
            if becomes == Mark::Retry {
                self.retries.push_back(index);
            }
            self.tally.add(becomes);
        }
        let end = first + u32::try_from(window.marks().count()).unwrap_or(WINDOW);
        self.next = self.next.max(self.sendable.min(end));
        if self.dirty.contains(&number) || !self.is_over(number, &window) {
            self.open.insert(number, window);
        }
    }

    /// Returns the outcomes that are not in the daily counts yet.
    pub const fn uncounted(&self) -> UncountedOutcomes {
        self.uncounted
    }

    /// Records that the uncounted outcomes were added to the daily counts.
    pub fn counted(&mut self) {
        self.uncounted = UncountedOutcomes::default();
    }

    /// Returns the number of messages in flight: claimed, and without an outcome.
    pub const fn in_flight(&self) -> u32 {
        self.tally.of(Mark::Claimed)
    }

    /// Returns the number of messages with each mark.
    pub const fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Returns whether every recipient has an outcome.
    pub fn is_done(&self) -> bool {
        self.next == self.sendable && self.in_flight() == 0 && self.tally.of(Mark::Retry) == 0
    }

    /// Claims at most `max` recipients: retries first, otherwise new ones of one window. Their
    /// messages must not be dispatched before the claim is durable.
    pub fn claim(&mut self, max: u32) -> Vec<u32> {
        let mut claimed = Vec::new();
        while claimed.len() < max as usize
            && let Some(index) = self.retries.pop_front()
        {
            if self.change(index, Mark::Retry, Mark::Claimed) {
                claimed.push(index);
            }
        }
        if claimed.is_empty() && self.next < self.sendable {
            let number = self.next / WINDOW;
            let length = max.min(self.end(number) - self.next);
            claimed.extend(self.next..self.next + length);
            self.next += length;
            self.open.entry(number).or_insert_with(|| Window::claimed(0)).claim(length);
            self.dirty.insert(number);
            (0..length).for_each(|_| self.tally.add(Mark::Claimed));
        }
        claimed
    }

    /// Records the outcome of a message. A final outcome stays as it is, unless it was unknown.
    pub fn settle(&mut self, index: u32, mark: Mark, failed: Option<Failed>) {
        let known = [Mark::Claimed, Mark::Retry, Mark::Unknown];
        let Some(from) = known.into_iter().find(|from| self.change(index, *from, mark)) else {
            return;
        };
        if from != mark && mark == Mark::Retry {
            self.retries.push_back(index);
        }
        if let (Some(failed), Some(window)) = (failed, self.open.get_mut(&(index / WINDOW))) {
            window.set_failed((index % WINDOW) as usize, failed);
        }
    }

    /// Defers a claimed recipient: it may be claimed again only once it is queued again.
    pub fn defer(&mut self, index: u32) {
        self.change(index, Mark::Claimed, Mark::Retry);
    }

    /// Allows another claim of recipients that were deferred.
    pub fn requeue(&mut self, indices: impl IntoIterator<Item = u32>) {
        self.retries.extend(indices);
    }

    /// Settles every message in flight with this mark.
    pub fn settle_in_flight(&mut self, mark: Mark) {
        for index in self.claimed() {
            self.settle(index, mark, None);
        }
    }

    /// Returns the recipients whose messages are in flight.
    pub fn claimed(&self) -> Vec<u32> {
        let of_window = |(number, window): (&u32, &Window)| {
            let first = number * WINDOW;
            let claimed = window.marks().enumerate().filter(|(_, mark)| *mark == Mark::Claimed);
            claimed.map(|(at, _)| first + u32::try_from(at).unwrap_or(u32::MAX)).collect::<Vec<_>>()
        };
        self.open.iter().flat_map(of_window).collect()
    }

    fn change(&mut self, index: u32, from: Mark, to: Mark) -> bool {
        let (number, at) = (index / WINDOW, (index % WINDOW) as usize);
        let Some(window) = self.open.get_mut(&number) else { return false };
        if window.mark(at) != Some(from) {
            return false;
        }
        window.set(at, to);
        self.dirty.insert(number);
        self.tally.change(from, to);
        self.uncounted.add(from, to);
        true
    }

    /// Returns the index behind the last recipient of a window.
    fn end(&self, number: u32) -> u32 {
        self.sendable.min((number + 1) * WINDOW)
    }

    /// Returns whether all of a window is claimed and every outcome in it is final.
    fn is_over(&self, number: u32, window: &Window) -> bool {
        self.next >= self.end(number) && window.is_final()
    }

    /// Returns whether a window is over and its last changes are not written.
    pub fn has_final(&self) -> bool {
        let mut dirty = self.dirty();
        dirty.any(|(number, window)| self.is_over(number, window))
    }

    /// Returns whether any window has unwritten changes.
    pub fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Returns the windows with unwritten changes.
    pub fn dirty(&self) -> impl Iterator<Item = (u32, &Window)> {
        self.dirty.iter().filter_map(|number| Some((*number, self.open.get(number)?)))
    }

    /// Records that all dirty windows are durable.
    pub fn written(&mut self) {
        for number in std::mem::take(&mut self.dirty) {
            if self.open.get(&number).is_some_and(|window| self.is_over(number, window)) {
                self.open.remove(&number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const AT_MOST_ONCE: BroadcastPolicy = BroadcastPolicy::AtMostOnce;

    fn sent(plan: &mut FanoutPlan, claimed: &[u32]) {
        claimed.iter().for_each(|index| plan.settle(*index, Mark::Sent, None));
    }

    #[test]
    fn everybody_is_claimed_once() {
        let mut plan = FanoutPlan::new(2 * WINDOW + 3);
        let mut seen = Vec::new();
        loop {
            let claimed = plan.claim(WINDOW);
            if claimed.is_empty() {
                break;
            }
            assert!(plan.has_final() || plan.is_dirty());
            sent(&mut plan, &claimed);
            assert!(plan.has_final());
            plan.written();
            seen.extend(claimed);
        }
        assert_eq!(seen, (0..2 * WINDOW + 3).collect::<Vec<_>>());
        assert!(plan.is_done() && plan.open.is_empty() && !plan.is_dirty());
        assert_eq!(plan.tally().of(Mark::Sent), 2 * WINDOW + 3);
    }

    #[test]
    fn a_window_may_be_claimed_in_parts() {
        let mut plan = FanoutPlan::new(WINDOW + 1);
        let first = plan.claim(3);
        sent(&mut plan, &first);
        assert_eq!((first, plan.has_final()), (vec![0, 1, 2], false));
        plan.written();
        assert_eq!(plan.claim(2), [3, 4]);
        let written: BTreeMap<_, _> = plan.dirty().map(|(at, it)| (at, it.clone())).collect();
        plan = crashed(&written, WINDOW + 1, AT_MOST_ONCE);
        assert_eq!([Mark::Sent, Mark::Unknown].map(|mark| plan.tally().of(mark)), [3, 2]);
        let rest = plan.claim(WINDOW);
        assert_eq!(rest, (5..WINDOW).collect::<Vec<_>>());
        sent(&mut plan, &rest);
        assert!(plan.has_final());
        assert_eq!(plan.claim(9), [WINDOW]);
    }

    #[test]
    fn an_answer_counts_once_and_a_late_one_reports_the_unknown() {
        let mut plan = FanoutPlan::new(3);
        plan.claim(9);
        plan.settle(0, Mark::Sent, None);
        plan.settle(
            0,
            Mark::Failed,
            Some(Failed { refused: true, code: None, details: "x".into() }),
        );
        plan.settle(1, Mark::Unknown, None);
        plan.settle(1, Mark::Sent, None);
        plan.settle(2, Mark::Retry, None);
        plan.settle(7, Mark::Sent, None);
        assert_eq!([plan.tally().of(Mark::Sent), plan.in_flight()], [2, 0]);
        assert!(!plan.is_done());
        assert_eq!(plan.claim(9), [2]);
        assert_eq!(plan.claim(9), [0_u32; 0]);
        plan.settle(2, Mark::Sent, None);
        assert!(plan.is_done());
    }

    #[test]
    fn what_the_provider_has_reported_is_not_uncertain() {
        use crate::outcomes::Report;
        for policy in [AT_MOST_ONCE, BroadcastPolicy::AtLeastOnce] {
            let mut reports = Reports::default();
            assert!(
                reports.take(1, Report::Delivered, None) && reports.take(2, Report::Failed, None)
            );
            let mut plan = FanoutPlan::new(3);
            plan.resume(0, Window::claimed(3), Some(&reports), policy);
            assert_eq!(plan.tally().of(Mark::Sent), 2, "{policy:?}");
            assert_eq!(
                (plan.claim(9).len(), plan.in_flight()),
                match policy {
                    BroadcastPolicy::AtMostOnce => (0, 0),
                    BroadcastPolicy::AtLeastOnce => (1, 1),
                }
            );
        }
    }

    /// Returns a plan that resumes from the written windows.
    fn crashed(
        written: &BTreeMap<u32, Window>,
        sendable: u32,
        policy: BroadcastPolicy,
    ) -> FanoutPlan {
        let mut plan = FanoutPlan::new(sendable);
        written
            .iter()
            .for_each(|(number, window)| plan.resume(*number, window.clone(), None, policy));
        plan
    }

    proptest! {
        #[test]
        fn after_any_crash_nobody_is_sent_to_twice_and_everybody_has_one_outcome(
            sendable in 1..4 * WINDOW,
            steps in prop::collection::vec((0_u8..5, 1_u32..2000), 0..60),
        ) {
            let mut plan = FanoutPlan::new(sendable);
            let mut written = BTreeMap::new();
            let mut handed_over = vec![0_u8; sendable as usize];
            let mut outstanding = Vec::new();
            let write = |plan: &mut FanoutPlan, written: &mut BTreeMap<u32, Window>| {
                written.extend(plan.dirty().map(|(number, window)| (number, window.clone())));
                plan.written();
            };
            for (kind, number) in steps {
                match kind {
                    0 => {
                        let claimed = plan.claim(number % WINDOW + 1);
                        write(&mut plan, &mut written);
                        for index in claimed {
                            handed_over[index as usize] += 1;
                            outstanding.push(index);
                        }
                    }
                    1 => {
                        // The recipients are claimed, and the engine crashes before it dispatches
                        // anything.
                        plan.claim(number % WINDOW + 1);
                        write(&mut plan, &mut written);
                        plan = crashed(&written, sendable, AT_MOST_ONCE);
                    }
                    2 => plan = crashed(&written, sendable, AT_MOST_ONCE),
                    3 => write(&mut plan, &mut written),
                    _ => {
                        let some = outstanding.len().min(number as usize);
                        for index in outstanding.drain(..some) {
                            plan.settle(index, Mark::Sent, None);
                        }
                    }
                }
            }
            plan = crashed(&written, sendable, AT_MOST_ONCE);
            let counted = written.values().flat_map(Window::marks);
            let counted = counted.filter(|mark| matches!(mark, Mark::Sent | Mark::Unknown));
            let counted = u32::try_from(counted.count()).unwrap();
            loop {
                let claimed = plan.claim(WINDOW);
                if claimed.is_empty() {
                    break;
                }
                claimed.iter().for_each(|index| handed_over[*index as usize] += 1);
                sent(&mut plan, &claimed);
            }
            prop_assert!(plan.is_done());
            prop_assert!(handed_over.iter().all(|times| *times <= 1));
            let finals = [Mark::Sent, Mark::Unknown].map(|mark| plan.tally().of(mark));
            prop_assert_eq!(finals[0] + finals[1], sendable);
            prop_assert_eq!(plan.uncounted(), UncountedOutcomes { sent: sendable - counted, failed: 0 });
        }
    }
}
