//! The messages that a workspace has accepted and that the channel has not answered for.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::domain::{MessageId, Timestamp};

/// How long after its life a message is still left to its number, which may have it under way.
const GRACE: Duration = Duration::from_secs(3600);

/// Unsent messages by id, and so by the moment they came. What they say is in their records.
#[derive(Debug, Default)]
pub(super) struct UnsentMessages {
    /// With the moment after which each is not worth sending.
    give_up_at: BTreeMap<MessageId, Timestamp>,
}

impl UnsentMessages {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.give_up_at.len()
    }

    /// Whether this is one of them.
    pub(super) fn contains(&self, id: MessageId) -> bool {
        self.give_up_at.contains_key(&id)
    }

    /// All of them, oldest first.
    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = (MessageId, Timestamp)> {
        self.give_up_at.iter().map(|(id, give_up_at)| (*id, *give_up_at))
    }

    pub(super) fn insert(&mut self, id: MessageId, give_up_at: Timestamp) {
        self.give_up_at.insert(id, give_up_at);
    }

    pub(super) fn remove(&mut self, id: MessageId) {
        self.give_up_at.remove(&id);
    }

    /// The oldest, at most `max`, whose life is over for so long that no number has them any more.
    pub(super) fn overdue(&self, now: Timestamp, max: usize) -> Vec<MessageId> {
        // One that came later ends later, or is found a little later.
        let overdue = |(_, give_up_at): &(MessageId, Timestamp)| give_up_at.plus(GRACE) <= now;
        self.iter().take_while(overdue).take(max).map(|(id, _)| id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_overdue_is_found_oldest_first() {
        let at = |seconds: u64| Timestamp::from_millis(seconds * 1000);
        let id = |seconds| MessageId::from_parts(at(seconds), 0);
        let mut unsent = UnsentMessages::default();
        for seconds in [3, 1, 2] {
            unsent.insert(id(seconds), at(seconds + 10));
        }
        assert_eq!(unsent.overdue(at(3610), 9), []);
        assert_eq!(unsent.overdue(at(3612), 9), [id(1), id(2)]);
        assert_eq!(unsent.overdue(at(9999), 2), [id(1), id(2)]);
        unsent.remove(id(1));
        assert!(!unsent.contains(id(1)) && unsent.contains(id(2)));
        assert_eq!(unsent.overdue(at(9999), 1), [id(2)]);
    }
}
