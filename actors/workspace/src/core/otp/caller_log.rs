//! Pure: the sends of one-time passwords by caller, and by the mailbox to which they go.
//!
//! A caller is an address or a session, and is known by a keyed hash only. Sends are counted if a
//! limit of that kind is set, and forgotten after an hour, as those by phone are.

use core::net::IpAddr;
use std::collections::VecDeque;
use std::time::Duration;

use hashbrown::HashMap;

use postrider_domain::code::CallerHash;
use postrider_domain::event::chain::{ChainPlan, OtpChannel};
use postrider_domain::event::{EventDecodeError, encode};
use postrider_domain::{CodeKeys, Limits, Timestamp};

use crate::core::otp::rolling_window::WINDOW_MAX;
use crate::core::otp::types::{CallerContext, CallerKind};

const TEN_MINUTES: Duration = Duration::from_secs(600);

/// The counter of one kind of caller: the hash, and the most in ten minutes and in an hour.
pub(crate) struct Counting {
    pub(crate) kind: CallerKind,
    pub(crate) hash: CallerHash,
    in_10m: u32,
    in_hour: u32,
}

/// Returns the counters of a send in this context, for the limits that are set.
pub(crate) fn counting(keys: &CodeKeys, limits: &Limits, context: &CallerContext) -> Vec<Counting> {
    let ip = context.ip.map(|ip| (CallerKind::Ip, network(ip)));
    let session = context.session.as_ref().map(|it| (CallerKind::Session, it.as_bytes().to_vec()));
    ip.into_iter().chain(session).filter_map(|it| of(keys, limits, it)).collect()
}

/// Returns the counter of a code that may go to an address of mail.
///
/// The limits of a phone hold for it too. Otherwise one mailbox would get a code for each phone
/// that a stranger thinks of.
pub(crate) fn of_mailbox(
    keys: &CodeKeys,
    limits: &Limits,
    plan: Option<&ChainPlan>,
) -> Option<Counting> {
    let plan = plan.filter(|it| it.steps.iter().any(|step| step.channel == OtpChannel::Email))?;
    let address = plan.email.as_ref()?.to_lowercase();
    of(keys, limits, (CallerKind::Email, address.into_bytes()))
}

fn of(keys: &CodeKeys, limits: &Limits, (kind, name): (CallerKind, Vec<u8>)) -> Option<Counting> {
    let (in_10m, in_hour) = match kind {
        CallerKind::Ip => (limits.otp_per_ip_10m, limits.otp_per_ip_hour),
        CallerKind::Session => (limits.otp_per_session_10m, limits.otp_per_session_hour),
        CallerKind::Email => (limits.otp_per_phone_10m, limits.otp_per_phone_hour),
    };
    let hash = (in_10m > 0 || in_hour > 0).then(|| keys.caller(kind.as_str(), &name));
    Some(Counting { kind, hash: hash??, in_10m, in_hour })
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
    pub(crate) fn wait(&self, now: Timestamp, of: &Counting) -> Option<Duration> {
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
