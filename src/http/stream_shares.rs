//! Limits the event streams of each key and each person, so that nobody's keep others out.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use postrider_actors::domain::{KeyId, PersonId, SessionId};

/// The maximum number of streams of one key, which several programs may share.
const OF_KEY: usize = 64;
/// The maximum number of streams of one person. A browser has one, however many tabs it shows.
const OF_PERSON: usize = 16;

/// The holder whose streams are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum StreamHolder {
    Key(KeyId),
    Person(PersonId),
    /// A session of an admin token.
    Session(SessionId),
}

impl StreamHolder {
    const fn most(self) -> usize {
        match self {
            Self::Key(_) => OF_KEY,
            Self::Person(_) | Self::Session(_) => OF_PERSON,
        }
    }
}

/// The streams that are open.
#[derive(Debug, Default)]
pub(crate) struct StreamShares(Mutex<HashMap<StreamHolder, usize>>);

impl StreamShares {
    /// Returns a place for one more stream of a caller, who holds it until it is dropped. `None` if
    /// they have the maximum number of streams.
    pub(crate) fn take(self: &Arc<Self>, holder: StreamHolder) -> Option<StreamPlace> {
        let mut open = self.open();
        let held = open.get(&holder).copied().unwrap_or_default();
        if held >= holder.most() {
            return None;
        }
        open.insert(holder, held + 1);
        Some(StreamPlace { shares: Arc::clone(self), holder })
    }

    fn open(&self) -> MutexGuard<'_, HashMap<StreamHolder, usize>> {
        // No code panics while it holds the lock, so the data is consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of a stream.
#[derive(Debug)]
pub(crate) struct StreamPlace {
    shares: Arc<StreamShares>,
    holder: StreamHolder,
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        let mut open = self.shares.open();
        let left = open.remove(&self.holder).unwrap_or_default().saturating_sub(1);
        if left > 0 {
            open.insert(self.holder, left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_a_share_and_gets_it_back() {
        let shares = Arc::new(StreamShares::default());
        let holder = |byte| StreamHolder::Session(SessionId::from_bytes([byte; 16]));
        let mut held: Vec<_> = (0..OF_PERSON).map(|_| shares.take(holder(1)).unwrap()).collect();
        assert!(shares.take(holder(1)).is_none() && shares.take(holder(2)).is_some());
        held.pop();
        held.push(shares.take(holder(1)).unwrap());
        assert!(shares.take(holder(1)).is_none());
        drop(held);
        assert!(shares.open().is_empty());
    }
}
