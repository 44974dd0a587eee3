//! Pure: the rolling windows: every send of a one-time password in the last hour, exactly.
//!
//! Sends are counted by phone, and by caller or mailbox if a limit of that kind is set. A caller is
//! an address or a session, and is known by a keyed hash only.

use core::net::IpAddr;
use std::collections::VecDeque;
use std::time::Duration;

use hashbrown::HashMap;
use postrider_domain::code::CallerHash;
use postrider_domain::event::chain::{ChainPlan, OtpChannel};
use postrider_domain::event::{EventDecodeError, encode};
use postrider_domain::{CodeKeys, Limits, Phone, Timestamp};

use crate::core::otp::compact_index::CompactIndex;
use crate::core::otp::requests::OtpSlot;
use crate::core::otp::types::{CallerContext, CallerKind};

/// The longest window that is counted; older sends are dropped.
pub(crate) const WINDOW_MAX: Duration = Duration::from_secs(3600);

/// One send: 16 bytes.
#[derive(Debug, Clone, Copy)]
struct SentCode {
    at: Timestamp,
    /// The request that was sent. It outlives this entry: it is kept for an hour after it expires
    /// and is not sent after that.
    slot: OtpSlot,
    /// The number of entries back to the previous send to the same phone; 0 for none.
    back: u32,
}

/// All sends of the last hour, oldest first, each linked to the previous one to its phone.
#[derive(Debug, Default)]
pub(crate) struct SendLog {
    sends: VecDeque<SentCode>,
    /// The number of the entry at the front; numbers wrap around.
    first: u32,
    /// The number of the latest send to each phone.
    latest: CompactIndex,
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
    pub(crate) fn push(
        &mut self,
        at: Timestamp,
        slot: OtpSlot,
        phone_of: impl Fn(OtpSlot) -> Phone,
    ) {
        debug_assert!(self.sends.back().is_none_or(|last| last.at <= at));
        let number = self.first.wrapping_add(self.sends.len() as u32);
        self.sends.push_back(SentCode { at, slot, back: 0 });
        let (sends, first) = (&self.sends, self.first);
        let key_of = |number: u32| phone_of(sends[number.wrapping_sub(first) as usize].slot);
        let previous = self.latest.set(&phone_of(slot), number, key_of);
        if let (Some(previous), Some(last)) = (previous, self.sends.back_mut()) {
            last.back = number.wrapping_sub(previous);
        }
    }

    /// Drops the sends that have left the longest window.
    pub(crate) fn evict(&mut self, now: Timestamp, phone_of: impl Fn(OtpSlot) -> Phone) {
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
        phone_of: impl Fn(OtpSlot) -> Phone,
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
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (Timestamp, OtpSlot)> {
        self.sends.iter().map(|send| (send.at, send.slot))
    }

    /// Returns the sends until a moment, newest first; only those to `phone`, if it is given.
    pub(crate) fn back_from(
        &self,
        until: Timestamp,
        phone: Option<Phone>,
        phone_of: impl Fn(OtpSlot) -> Phone,
    ) -> impl Iterator<Item = (Timestamp, OtpSlot)> {
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

const TEN_MINUTES: Duration = Duration::from_secs(600);

/// The quota of one caller: its hash, and the most sends in ten minutes and in an hour.
pub(crate) struct CallerQuota {
    pub(crate) kind: CallerKind,
    pub(crate) hash: CallerHash,
    in_10m: u32,
    in_hour: u32,
}

/// Returns the quotas of a send in this context, for the limits that are set.
pub(crate) fn quotas_of_caller(
    keys: &CodeKeys,
    limits: &Limits,
    context: &CallerContext,
) -> Vec<CallerQuota> {
    let ip = context.ip.map(|ip| (CallerKind::Ip, network(ip)));
    let session = context.session.as_ref().map(|it| (CallerKind::Session, it.as_bytes().to_vec()));
    ip.into_iter().chain(session).filter_map(|it| quota_of(keys, limits, it)).collect()
}

/// Returns the quota of a code that may go to an address of mail.
///
/// The limits of a phone hold for it too. Otherwise one mailbox would get a code for each phone
/// that a stranger thinks of.
pub(crate) fn quota_of_mailbox(
    keys: &CodeKeys,
    limits: &Limits,
    plan: Option<&ChainPlan>,
) -> Option<CallerQuota> {
    let plan = plan.filter(|it| it.steps.iter().any(|step| step.channel == OtpChannel::Email))?;
    let address = plan.email.as_ref()?.to_lowercase();
    quota_of(keys, limits, (CallerKind::Email, address.into_bytes()))
}

fn quota_of(
    keys: &CodeKeys,
    limits: &Limits,
    (kind, name): (CallerKind, Vec<u8>),
) -> Option<CallerQuota> {
    let (in_10m, in_hour) = match kind {
        CallerKind::Ip => (limits.otp_per_ip_10m, limits.otp_per_ip_hour),
        CallerKind::Session => (limits.otp_per_session_10m, limits.otp_per_session_hour),
        CallerKind::Email => (limits.otp_per_phone_10m, limits.otp_per_phone_hour),
    };
    let hash = (in_10m > 0 || in_hour > 0).then(|| keys.caller(kind.as_str(), &name));
    Some(CallerQuota { kind, hash: hash??, in_10m, in_hour })
}

/// Returns the network of an address: itself, or for IPv6 its /64, which is usually one person's.
fn network(ip: IpAddr) -> Vec<u8> {
    match ip.to_canonical() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets()[..8].to_vec(),
    }
}

/// All sends of the last hour that count for a caller, oldest first.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct CallerLog {
    sends: VecDeque<(Timestamp, CallerHash)>,
    /// The moments of each caller's sends, oldest first.
    by_caller: HashMap<CallerHash, VecDeque<Timestamp>>,
}

impl CallerLog {
    /// Returns whether no send is counted.
    pub(crate) fn is_empty(&self) -> bool {
        self.sends.is_empty()
    }

    /// Counts a send at `at`, which is not before the one counted last.
    pub(crate) fn push(&mut self, at: Timestamp, caller: CallerHash) {
        self.sends.push_back((at, caller));
        self.by_caller.entry(caller).or_default().push_back(at);
    }

    /// Drops the sends that have left the longest window.
    pub(crate) fn evict(&mut self, now: Timestamp) {
        while let Some((_, caller)) = self.sends.pop_front_if(|(at, _)| at.plus(WINDOW_MAX) <= now)
        {
            if let Some(own) = self.by_caller.get_mut(&caller) {
                own.pop_front();
                if own.is_empty() {
                    self.by_caller.remove(&caller);
                }
            }
        }
    }

    /// Sends that were counted after `to` count as just then.
    pub(crate) fn rebase(&mut self, to: Timestamp) {
        self.sends.iter_mut().for_each(|(at, _)| *at = (*at).min(to));
        let all = self.by_caller.values_mut().flatten();
        all.for_each(|at| *at = (*at).min(to));
    }

    /// Returns how long until one more send keeps the caller's limits; `None`: now.
    pub(crate) fn wait(&self, now: Timestamp, of: &CallerQuota) -> Option<Duration> {
        let own = self.by_caller.get(&of.hash)?;
        let wait = |limit: u32, window: Duration| {
            let place = own.len().checked_sub(limit as usize).filter(|_| limit > 0)?;
            let left = own[place].plus(window).since(now);
            (!left.is_zero()).then_some(left)
        };
        wait(of.in_10m, TEN_MINUTES).max(wait(of.in_hour, WINDOW_MAX))
    }

    pub(crate) fn encode_into(&self, out: &mut Vec<u8>) {
        encode(&self.sends, out);
    }

    pub(crate) fn take_from(bytes: &mut &[u8]) -> Result<Self, EventDecodeError> {
        let (sends, rest) = postcard::take_from_bytes::<Vec<(Timestamp, CallerHash)>>(bytes)
            .map_err(|_| EventDecodeError)?;
        *bytes = rest;
        let mut log = Self::default();
        sends.into_iter().for_each(|(at, caller)| log.push(at, caller));
        Ok(log)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEN_MINUTES: Duration = Duration::from_secs(600);

    fn phone(slot: OtpSlot) -> Phone {
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
        slot: OtpSlot,
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
            let mut model: Vec<(u64, OtpSlot)> = Vec::new();
            let mut now_ms = 0;
            for Step { advance_ms, slot } in steps {
                now_ms += advance_ms;
                let now = Timestamp::from_millis(now_ms);
                log.evict(now, phone);
                let inside = |window: Duration, slot: Option<OtpSlot>| {
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
