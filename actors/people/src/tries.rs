//! Pure: wrong passwords of an account make the next try wait. No account is locked.

use std::time::Duration;

use hashbrown::HashMap;

use postrider_domain::Timestamp;

/// Failures within the window that cost nothing.
const FREE: u32 = 5;
const WINDOW: Duration = Duration::from_secs(15 * 60);
const WAIT_MAX: Duration = Duration::from_secs(60);
/// Accounts that are remembered; they need not be there. Beyond it the oldest are forgotten.
const ACCOUNTS_MAX: usize = 10_000;

/// The failures of accounts.
#[derive(Debug, Default)]
pub(crate) struct Tries {
    failed: HashMap<Box<str>, Failed>,
}

#[derive(Debug, Clone, Copy)]
struct Failed {
    count: u32,
    last: Timestamp,
}

impl Tries {
    /// How long the next try has to wait, if it has to.
    pub(crate) fn wait(&self, account: &str, now: Timestamp) -> Option<Duration> {
        let Failed { count, last } = *self.failed.get(account)?;
        let beyond = count.checked_sub(FREE)?;
        if now >= last.plus(WINDOW) {
            return None;
        }
        let wait = Duration::from_secs(2_u64.saturating_pow(beyond.saturating_add(1).min(6)));
        let due = last.plus(wait.min(WAIT_MAX));
        (now < due).then(|| due.since(now))
    }

    /// Notes a try before it is judged, so that tries at the same moment count one by one.
    pub(crate) fn note(&mut self, account: &str, now: Timestamp) {
        if self.failed.len() >= ACCOUNTS_MAX && !self.failed.contains_key(account) {
            self.forget_old(now);
        }
        let failed = self.failed.entry(account.into()).or_insert(Failed { count: 0, last: now });
        let count = if now < failed.last.plus(WINDOW) { failed.count } else { 0 };
        *failed = Failed { count: count.saturating_add(1), last: now };
    }

    /// The try was right.
    pub(crate) fn succeeded(&mut self, account: &str) {
        self.failed.remove(account);
    }

    /// Forgets what is over, or else the older half.
    fn forget_old(&mut self, now: Timestamp) {
        self.failed.retain(|_, failed| now < failed.last.plus(WINDOW));
        if self.failed.len() >= ACCOUNTS_MAX {
            let mut moments: Vec<_> = self.failed.values().map(|failed| failed.last).collect();
            moments.sort_unstable();
            let middle = moments[moments.len() / 2];
            // At least one goes, also where all are of the same moment.
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

    #[test]
    fn the_sixth_try_waits_and_each_one_longer() {
        let mut tries = Tries::default();
        let mut now = 0;
        for _ in 0..5 {
            assert_eq!(tries.wait("ada", at(now)), None);
            tries.note("ada", at(now));
        }
        for wait in [2, 4, 8, 16, 32, 60, 60] {
            assert_eq!(tries.wait("ada", at(now)), Some(Duration::from_secs(wait)));
            assert_eq!(tries.wait("bob", at(now)), None);
            now += wait;
            assert_eq!(tries.wait("ada", at(now)), None);
            tries.note("ada", at(now));
        }
        assert_eq!(tries.wait("ada", at(now + 15 * 60)), None);
        tries.note("ada", at(now + 15 * 60));
        assert_eq!(tries.wait("ada", at(now + 15 * 60)), None, "the window is over");
    }

    #[test]
    fn a_success_forgets_and_a_flood_of_names_is_bounded() {
        let mut tries = Tries::default();
        (0..6).for_each(|_| tries.note("ada", at(0)));
        tries.succeeded("ada");
        assert_eq!(tries.wait("ada", at(0)), None);
        for name in 0..3 * ACCOUNTS_MAX as u64 {
            tries.note(&name.to_string(), at(name % 7));
            assert!(tries.failed.len() <= ACCOUNTS_MAX);
        }
    }
}
