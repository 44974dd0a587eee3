//! The use of a node's disk in turns: starting engines precede records that follow their log.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The maximum number of shards whose records follow at a time.
const FOLLOWS_MAX: usize = 2;

/// The turns of a node that are in use.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    starts: AtomicUsize,
    follows: AtomicUsize,
}

/// One turn, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    turns: Arc<Turns>,
    is_start: bool,
}

impl Turns {
    /// Returns whether an engine is starting, or shall start.
    pub(crate) fn are_starts(&self) -> bool {
        self.starts.load(Ordering::Acquire) > 0
    }

    /// Takes a turn for an engine, which always gets one.
    pub(crate) fn start(self: &Arc<Self>) -> Turn {
        self.starts.fetch_add(1, Ordering::AcqRel);
        Turn { turns: self.clone(), is_start: true }
    }

    /// Takes a turn for records, unless enough shards have one or an engine is starting.
    pub(crate) fn follow(self: &Arc<Self>) -> Option<Turn> {
        if self.are_starts() {
            return None;
        }
        let more = |follows| (follows < FOLLOWS_MAX).then_some(follows + 1);
        self.follows.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).ok()?;
        Some(Turn { turns: self.clone(), is_start: false })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let of = if self.is_start { &self.turns.starts } else { &self.turns.follows };
        of.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_shards_follow_at_a_time_and_none_while_an_engine_starts() {
        let turns = Arc::new(Turns::default());
        let first = turns.follow();
        let second = turns.follow();
        assert!(first.is_some() && second.is_some() && turns.follow().is_none());
        drop(first);
        let starts = [turns.start(), turns.start()];
        assert!(turns.are_starts() && turns.follow().is_none());
        drop(starts);
        assert!(!turns.are_starts() && turns.follow().is_some());
    }
}
