//! Pure: the rolling windows: every send of a one-time password in the last hour, exactly.

use std::collections::VecDeque;
use std::time::Duration;

use postrider_domain::{Phone, Timestamp};

use crate::core::otp::index::NumberIndex;
use crate::core::otp::requests::Slot;

/// The longest window that is counted; older sends are dropped.
pub(crate) const WINDOW_MAX: Duration = Duration::from_secs(3600);

/// One send: 16 bytes.
#[derive(Debug, Clone, Copy)]
struct Send {
    at: Timestamp,
    /// The request that was sent. It outlives this entry: it is kept for an hour after it expires
    /// and is not sent after that.
    slot: Slot,
    /// The number of entries back to the previous send to the same phone; 0 for none.
    back: u32,
}

/// All sends of the last hour, oldest first, each linked to the previous one to its phone.
#[derive(Debug, Default)]
pub(crate) struct SendLog {
    sends: VecDeque<Send>,
    /// The number of the entry at the front; numbers wrap around.
    first: u32,
    /// The number of the latest send to each phone.
    latest: NumberIndex,
}

impl SendLog {
    /// Returns the number of sends in the last hour.
    pub(crate) fn len(&self) -> usize {
        self.sends.len()
    }

    /// Returns the sends in the hour before `now`, and when the oldest of them leaves it.
    pub(crate) fn counted(&self, now: Timestamp) -> (usize, Option<Timestamp>) {
        let left = self.sends.partition_point(|send| send.at.plus(WINDOW_MAX) <= now);
        let oldest = self.sends.get(left).map(|send| send.at.plus(WINDOW_MAX));
        (self.sends.len() - left, oldest)
    }

    /// Counts a send at `at`, which is not before the one counted last.
    pub(crate) fn push(&mut self, at: Timestamp, slot: Slot, phone_of: impl Fn(Slot) -> Phone) {
        debug_assert!(self.sends.back().is_none_or(|last| last.at <= at));
        let number = self.first.wrapping_add(self.sends.len() as u32);
        self.sends.push_back(Send { at, slot, back: 0 });
        let (sends, first) = (&self.sends, self.first);
        let key_of = |number: u32| phone_of(sends[number.wrapping_sub(first) as usize].slot);
        let previous = self.latest.set(&phone_of(slot), number, key_of);
        if let (Some(previous), Some(last)) = (previous, self.sends.back_mut()) {
            last.back = number.wrapping_sub(previous);
        }
    }

    /// Drops the sends that have left the longest window.
    pub(crate) fn evict(&mut self, now: Timestamp, phone_of: impl Fn(Slot) -> Phone) {
        while let Some(oldest) = self.sends.front()
            && oldest.at.plus(WINDOW_MAX) <= now
        {
            self.latest.remove(&phone_of(oldest.slot), self.first);
            self.sends.pop_front();
            self.first = self.first.wrapping_add(1);
        }
        if self.sends.is_empty() && self.sends.capacity() > 0 {
            // Gives the memory of a busy hour back.
            *self = Self::default();
        }
    }

    /// Sends that were counted after `to` count as just then.
    pub(crate) fn rebase(&mut self, to: Timestamp) {
        self.sends.iter_mut().for_each(|send| send.at = send.at.min(to));
    }

    /// Returns how long until one more send to `phone` makes no more than `limit` in any `window`.
    ///
    /// `None` if it may go now.
    pub(crate) fn wait_for_phone(
        &self,
        now: Timestamp,
        phone: Phone,
        limit: u32,
        window: Duration,
        phone_of: impl Fn(Slot) -> Phone,
    ) -> Option<Duration> {
        let key_of = |number: u32| phone_of(self.sends[self.place(number)].slot);
        let mut place = self.place(self.latest.get(&phone, key_of)?);
        for _ in 1..limit {
            let back = self.sends[place].back as usize;
            if back == 0 || back > place {
                return None;
            }
            place -= back;
        }
        remaining(self.sends[place].at, now, window)
    }

    /// Returns the same wait for all phones together.
    pub(crate) fn wait_for_any(
        &self,
        now: Timestamp,
        limit: u32,
        window: Duration,
    ) -> Option<Duration> {
        let place = self.sends.len().checked_sub(limit as usize)?;
        remaining(self.sends[place].at, now, window)
    }

    /// Returns every send with the slot of its request, oldest first.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (Timestamp, Slot)> {
        self.sends.iter().map(|send| (send.at, send.slot))
    }

    /// Returns the sends until a moment, newest first; only those to `phone`, if it is given.
    pub(crate) fn back_from(
        &self,
        until: Timestamp,
        phone: Option<Phone>,
        phone_of: impl Fn(Slot) -> Phone,
    ) -> impl Iterator<Item = (Timestamp, Slot)> {
        let end = self.sends.partition_point(|send| send.at <= until);
        let key_of = |number: u32| phone_of(self.sends[self.place(number)].slot);
        let newest = match phone {
            Some(phone) => self.latest.get(&phone, key_of).map(|number| self.place(number)),
            None => end.checked_sub(1),
        };
        let before = move |place: &usize| {
            let back = phone.map_or(1, |_| self.sends[*place].back as usize);
            place.checked_sub(back).filter(|_| back > 0)
        };
        let places = std::iter::successors(newest, before).filter(move |place| *place < end);
        places.map(|place| (self.sends[place].at, self.sends[place].slot))
    }

    const fn place(&self, number: u32) -> usize {
        number.wrapping_sub(self.first) as usize
    }
}

/// Returns how long a send at `at` stays in the window that ends at `now`; `None` if it has left.
fn remaining(at: Timestamp, now: Timestamp, window: Duration) -> Option<Duration> {
    let left = at.plus(window).since(now);
    (!left.is_zero()).then_some(left)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEN_MINUTES: Duration = Duration::from_secs(600);

    fn phone(slot: Slot) -> Phone {
        format!("+1555000{:04}", slot % 4).parse().unwrap()
    }

    #[test]
    fn the_sixth_waits_for_the_first_to_leave() {
        let mut log = SendLog::default();
        for second in 0..5 {
            let now = Timestamp::from_millis(second * 1000);
            assert_eq!(log.wait_for_phone(now, phone(0), 5, TEN_MINUTES, phone), None);
            log.push(now, 0, phone);
        }
        let wait =
            |ms| log.wait_for_phone(Timestamp::from_millis(ms), phone(0), 5, TEN_MINUTES, phone);
        assert_eq!(wait(4_000), Some(Duration::from_secs(596)));
        assert_eq!(wait(599_999), Some(Duration::from_millis(1)));
        assert_eq!(wait(600_000), None);
        assert_eq!(
            log.wait_for_phone(Timestamp::from_millis(4_000), phone(1), 5, TEN_MINUTES, phone),
            None
        );
    }

    #[derive(Debug, Clone)]
    struct Step {
        advance_ms: u64,
        slot: Slot,
    }

    proptest! {
        /// Compares with the plain list of all sends ever.
        #[test]
        fn windows_are_exact(
            steps in prop::collection::vec(
                (0_u64..400_000, 0_u32..4).prop_map(|(advance_ms, slot)| Step { advance_ms, slot }),
                1..200,
            ),
            limit in 1_u32..6,
            first in any::<u32>(),
        ) {
            let mut log = SendLog { first, ..SendLog::default() };
            let mut model: Vec<(u64, Slot)> = Vec::new();
            let mut now_ms = 0;
            for Step { advance_ms, slot } in steps {
                now_ms += advance_ms;
                let now = Timestamp::from_millis(now_ms);
                log.evict(now, phone);
                let inside = |window: Duration, slot: Option<Slot>| {
                    let from = (now_ms as i64) - window.as_millis() as i64;
                    let mut times: Vec<u64> = model
                        .iter()
                        .filter(|(at, sent)| *at as i64 > from && slot.is_none_or(|s| s == *sent))
                        .map(|(at, _)| *at)
                        .collect();
                    times.reverse();
                    times.get(limit as usize - 1).map(|at| {
                        Duration::from_millis(at + window.as_millis() as u64 - now_ms)
                    })
                };
                for window in [TEN_MINUTES, WINDOW_MAX] {
                    prop_assert_eq!(
                        log.wait_for_phone(now, phone(slot), limit, window, phone),
                        inside(window, Some(slot))
                    );
                    prop_assert_eq!(log.wait_for_any(now, limit, window), inside(window, None));
                }
                log.push(now, slot, phone);
                model.push((now_ms, slot));
            }
        }
    }
}
