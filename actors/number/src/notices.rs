//! What a number has to tell its workspace beside the answers for messages.

use std::time::Duration;

use hashbrown::HashSet;

use postrider_channel::Failure;
use postrider_domain::{Phone, Timestamp};

/// Most names of phones that are remembered to be told.
const NAMES_MAX: usize = 10_000;
/// What was told is told again after this: the workspace forgets the names of a contact that is
/// deleted.
const TOLD_FOR: Duration = Duration::from_secs(600);

/// What happened to a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NumberNotice {
    /// Its account cannot send: what it has waits.
    Stopped(Failure),
    /// It sends again.
    Recovered,
    /// The channel's answers have told this of whom it wrote to.
    Recipients(Vec<Recipient>),
}

/// What an answer tells of whom a message went to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recipient {
    /// The provider knows whoever has the phone by another number; `at` is when what it answered for
    /// was accepted.
    KnownAs { phone: Phone, known_as: Phone, at: Timestamp },
    /// They want no marketing.
    StoppedMarketing(Phone),
}

/// Names of phones that the workspace was told lately. The provider says them of every message.
#[derive(Debug, Default)]
pub(super) struct ToldNames {
    names: HashSet<(Phone, Phone)>,
    since: Timestamp,
}

impl ToldNames {
    /// Whether the workspace is to be told that the provider knows `phone` as `known_as`.
    pub(super) fn is_news(&mut self, now: Timestamp, phone: Phone, known_as: Phone) -> bool {
        if now >= self.since.plus(TOLD_FOR) || self.names.len() >= NAMES_MAX {
            self.names.clear();
            self.since = now;
        }
        self.names.insert((phone, known_as))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phone(number: u32) -> Phone {
        format!("+1555{number:07}").parse().unwrap()
    }

    #[test]
    fn a_name_is_told_once_in_a_while() {
        let at = |seconds: u64| Timestamp::from_millis(seconds * 1000);
        let mut told = ToldNames::default();
        assert!(told.is_news(at(1000), phone(1), phone(2)));
        assert!(!told.is_news(at(1599), phone(1), phone(2)));
        assert!(told.is_news(at(1599), phone(1), phone(3)));
        assert!(told.is_news(at(1600), phone(1), phone(2)));
        for number in 0..=u32::try_from(NAMES_MAX).unwrap() {
            told.is_news(at(1700), phone(number), phone(0));
        }
        assert!(told.names.len() <= NAMES_MAX);
    }
}
