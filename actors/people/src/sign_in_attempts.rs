//! Pure: attempts to sign in. Wrong passwords make the next try wait, and no account is locked.
//!
//! Tries are counted by their origin: a session, a browser in which the person has signed in
//! before, or else a network. So a stranger's tries delay nobody else. The tries of many networks
//! for one account are also counted together, with a much larger bound.

use core::net::IpAddr;
use std::time::Duration;

use hashbrown::HashMap;
use postrider_domain::{SessionId, Timestamp};

use crate::password::Asker;

/// The number of failures within the window that cause no wait.
const FREE: u32 = 5;
/// The same for an account, from networks in which its owner has no known browser.
const FREE_OF_ACCOUNT: u32 = 200;
const WINDOW: Duration = Duration::from_secs(15 * 60);
const WAIT_MAX: Duration = Duration::from_secs(60);
/// The maximum number of counters. Beyond it the oldest are removed.
const REMEMBERED_MAX: usize = 50_000;

/// The counter of failures.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum TryCounter {
    /// The failures of a caller, and for which account if the caller has no session.
    Caller(Box<str>),
    /// The failures of all strangers for an account.
    Account(Box<str>),
}

impl TryCounter {
    const fn free(&self) -> u32 {
        match self {
            Self::Caller(_) => FREE,
            Self::Account(_) => FREE_OF_ACCOUNT,
        }
    }
}

/// The counted failures.
#[derive(Debug, Default)]
pub(crate) struct Tries {
    failed: HashMap<TryCounter, FailureCount>,
}

#[derive(Debug, Clone, Copy)]
struct FailureCount {
    count: u32,
    last: Timestamp,
}

impl Tries {
    /// Returns the time for which the next try has to wait, if it has to.
    pub(crate) fn wait(&self, of: &TryCounter, now: Timestamp) -> Option<Duration> {
        let FailureCount { count, last } = *self.failed.get(of)?;
        let beyond = count.checked_sub(of.free())?;
        if now >= last.plus(WINDOW) {
            return None;
        }
        let wait = Duration::from_secs(2_u64.saturating_pow(beyond.saturating_add(1).min(6)));
        let due = last.plus(wait.min(WAIT_MAX));
        (now < due).then(|| due.since(now))
    }

    /// Notes a try before its check, so that concurrent tries count one by one.
    pub(crate) fn note(&mut self, of: &TryCounter, now: Timestamp) {
        if self.failed.len() >= REMEMBERED_MAX && !self.failed.contains_key(of) {
            self.forget_old(now);
        }
        let failed = self.failed.entry(of.clone()).or_insert(FailureCount { count: 0, last: now });
        let count = if now < failed.last.plus(WINDOW) { failed.count } else { 0 };
        *failed = FailureCount { count: count.saturating_add(1), last: now };
    }

    /// Notes that the try was right. The tries of strangers for the account still count.
    pub(crate) fn succeeded(&mut self, of: &TryCounter) {
        match of {
            TryCounter::Caller(_) => drop(self.failed.remove(of)),
            TryCounter::Account(_) => {
                if let Some(failed) = self.failed.get_mut(of) {
                    failed.count = failed.count.saturating_sub(1);
                }
            }
        }
    }

    /// Removes expired counters, or else the older half.
    fn forget_old(&mut self, now: Timestamp) {
        self.failed.retain(|_, failed| now < failed.last.plus(WINDOW));
        if self.failed.len() >= REMEMBERED_MAX {
            let mut moments: Vec<_> = self.failed.values().map(|failed| failed.last).collect();
            moments.sort_unstable();
            let middle = moments[moments.len() / 2];
            // At least one is removed, also if all are of the same time.
            let newest = moments.last().copied().unwrap_or(now);
            self.failed.retain(|_, failed| failed.last > middle.min(newest));
        }
    }
}

/// An attempt to prove an identity by a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SignInAttempt {
    /// The caller whose places for hashes the attempt takes.
    pub(crate) asker: Asker,
    /// The counters to which the attempt adds.
    pub(crate) counters: Vec<TryCounter>,
}

impl SignInAttempt {
    /// Creates an attempt within a session. Attempts of strangers do not delay its holder.
    pub(crate) fn in_session(id: SessionId) -> Self {
        let name: Box<str> = format!("session {id}").into();
        Self { asker: Asker::Session(name.clone()), counters: vec![TryCounter::Caller(name)] }
    }

    /// Creates an attempt in a known browser, in which the person has signed in before.
    pub(crate) fn in_browser(name: &str) -> Self {
        let name: Box<str> = format!("browser {name}").into();
        Self { asker: Asker::Stranger(name.clone()), counters: vec![TryCounter::Caller(name)] }
    }

    /// Creates an attempt from an address, for an account that may not exist.
    pub(crate) fn from_address(address: Option<&str>, account: &str) -> Self {
        let network: Box<str> = network(address.unwrap_or_default()).into();
        let caller = TryCounter::Caller(format!("{account} {network}").into());
        let counters = vec![caller, TryCounter::Account(account.into())];
        Self { asker: Asker::Stranger(network), counters }
    }
}

/// Returns the network of an address: the address, or the /64 of IPv6, usually one client's.
fn network(address: &str) -> String {
    match address.parse::<IpAddr>().map(|address| address.to_canonical()) {
        Ok(IpAddr::V6(address)) => {
            let [a, b, c, d, ..] = address.segments();
            format!("{a:x}:{b:x}:{c:x}:{d:x}::/64")
        }
        Ok(address) => address.to_string(),
        Err(_) => address.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(1_700_000_000_000 + seconds * 1000)
    }

    fn caller(name: &str) -> TryCounter {
        TryCounter::Caller(name.into())
    }

    #[test]
    fn the_sixth_try_waits_and_each_one_longer() {
        let mut tries = Tries::default();
        let (ada, bob, mut now) = (caller("ada"), caller("bob"), 0);
        for _ in 0..5 {
            assert_eq!(tries.wait(&ada, at(now)), None);
            tries.note(&ada, at(now));
        }
        for wait in [2, 4, 8, 16, 32, 60, 60] {
            assert_eq!(tries.wait(&ada, at(now)), Some(Duration::from_secs(wait)));
            assert_eq!(tries.wait(&bob, at(now)), None);
            now += wait;
            assert_eq!(tries.wait(&ada, at(now)), None);
            tries.note(&ada, at(now));
        }
        assert_eq!(tries.wait(&ada, at(now + 15 * 60)), None);
        tries.note(&ada, at(now + 15 * 60));
        assert_eq!(tries.wait(&ada, at(now + 15 * 60)), None, "the window is over");
    }

    #[test]
    fn an_account_has_a_larger_bound_which_a_right_try_does_not_lift() {
        let mut tries = Tries::default();
        let ada = TryCounter::Account("ada".into());
        for _ in 0..FREE_OF_ACCOUNT {
            assert_eq!(tries.wait(&ada, at(0)), None);
            tries.note(&ada, at(0));
        }
        assert_eq!(tries.wait(&ada, at(0)), Some(Duration::from_secs(2)));
        assert_eq!(tries.wait(&caller("ada"), at(0)), None);
        tries.note(&ada, at(2));
        tries.succeeded(&ada);
        assert_eq!(tries.wait(&ada, at(2)), Some(Duration::from_secs(2)), "as before it");
    }

    #[test]
    fn a_success_forgets_and_a_flood_of_names_is_bounded() {
        let mut tries = Tries::default();
        let ada = caller("ada");
        (0..6).for_each(|_| tries.note(&ada, at(0)));
        tries.succeeded(&ada);
        assert_eq!(tries.wait(&ada, at(0)), None);
        for name in 0..3 * REMEMBERED_MAX as u64 {
            tries.note(&caller(&name.to_string()), at(name % 7));
            assert!(tries.failed.len() <= REMEMBERED_MAX);
        }
    }

    #[test]
    fn a_network_is_an_address_or_its_half() {
        for (address, expected) in [
            ("192.0.2.7", "192.0.2.7"),
            ("::ffff:192.0.2.7", "192.0.2.7"),
            ("2001:db8::1", "2001:db8:0:0::/64"),
            ("2001:db8::ffff:1", "2001:db8:0:0::/64"),
            ("", ""),
        ] {
            assert_eq!(network(address), expected);
        }
    }
}
