//! Pure: wrong passwords make the next try wait. No account is locked.
//!
//! Tries are counted by their origin: a session, a browser in which the person has signed in
//! before, or else a network. So a stranger's tries delay nobody else. The tries of many networks
//! for one account are also counted together, with a much larger bound.

use std::time::Duration;

use hashbrown::HashMap;

use postrider_domain::Timestamp;

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
pub(crate) enum Counted {
    /// The failures of a caller, and for which account if the caller has no session.
    Caller(Box<str>),
    /// The failures of all strangers for an account.
    Account(Box<str>),
}

impl Counted {
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
    failed: HashMap<Counted, Failed>,
}

#[derive(Debug, Clone, Copy)]
struct Failed {
    count: u32,
    last: Timestamp,
}

impl Tries {
    /// Returns the time for which the next try has to wait, if it has to.
    pub(crate) fn wait(&self, of: &Counted, now: Timestamp) -> Option<Duration> {
        let Failed { count, last } = *self.failed.get(of)?;
        let beyond = count.checked_sub(of.free())?;
        if now >= last.plus(WINDOW) {
            return None;
        }
        let wait = Duration::from_secs(2_u64.saturating_pow(beyond.saturating_add(1).min(6)));
        let due = last.plus(wait.min(WAIT_MAX));
        (now < due).then(|| due.since(now))
    }

    /// Notes a try before its check, so that concurrent tries count one by one.
    pub(crate) fn note(&mut self, of: &Counted, now: Timestamp) {
        if self.failed.len() >= REMEMBERED_MAX && !self.failed.contains_key(of) {
            self.forget_old(now);
        }
        let failed = self.failed.entry(of.clone()).or_insert(Failed { count: 0, last: now });
        let count = if now < failed.last.plus(WINDOW) { failed.count } else { 0 };
        *failed = Failed { count: count.saturating_add(1), last: now };
    }

    /// Notes that the try was right. The tries of strangers for the account still count.
    pub(crate) fn succeeded(&mut self, of: &Counted) {
        match of {
            Counted::Caller(_) => drop(self.failed.remove(of)),
            Counted::Account(_) => {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(1_700_000_000_000 + seconds * 1000)
    }

    fn caller(name: &str) -> Counted {
        Counted::Caller(name.into())
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
        let ada = Counted::Account("ada".into());
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
}
