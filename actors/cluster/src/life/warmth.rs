//! Keeps the records of a shard close to the end of its log while another node owns it.
//!
//! Its takeover then has no checkpoint to fetch, and few entries to apply. A node that shall own a
//! shard asks the living owner for it only when its records are close. Records that the node does
//! not need any more are removed.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use postrider_log::Position;

use super::{Life, Order};
use crate::checkpoints::ShardCheckpoints;
use crate::shard::{Role, ShardInput, ShardState};
use crate::shared::{Host, Inner, Seen};

/// The number of entries that the records may lack before they are updated early.
const LACKS_MAX: u64 = 1_000;
/// The time between updates when fewer entries are missing, in milliseconds: each costs a sync.
const EVERY_MS: u64 = 10_000;
/// The minimum time between updates, however much the records lack, in milliseconds.
const REST_MS: u64 = 1_000;
/// The pause after an update, as a multiple of its duration.
const REST_TIMES: u64 = 4;
/// The maximum age of the records when the living owner is asked for the shard, in milliseconds.
///
/// If an update takes longer, they may be twice as old as it took.
const CLOSE_MS: u64 = 1_000;
/// The time for which unneeded records are retained, in milliseconds.
///
/// The node may become a standby again, such as after a restart of another node.
const FORGET_AFTER_MS: u64 = 600_000;

/// The progress of the records of a shard.
#[derive(Debug, Default)]
pub(super) struct Warmth {
    at: Position,
    /// The time at which the last update ended, and its duration.
    tried: Option<(u64, u64)>,
    begun: Option<u64>,
    /// The end of the log when the update was started.
    aim: Position,
    /// A time at which the log ended where the records do now, or earlier.
    as_of: Option<u64>,
    /// The reason why the last update failed, if it did.
    failed: Option<String>,
}

impl Warmth {
    /// Returns whether the records shall be updated now, for a log that ends at `end`.
    ///
    /// The records of a shard that is about to move do not rest.
    fn is_due(&self, now: u64, end: Position, moves: bool) -> bool {
        let lacks = end.0.saturating_sub(self.at.0);
        let is_much = lacks >= LACKS_MAX && self.failed.is_none();
        let rest = if is_much { REST_MS } else { EVERY_MS };
        let rests = |(since, took): (u64, u64)| now < since + rest.max(took * REST_TIMES);
        let rests = |tried| rests(tried) && !(moves && self.failed.is_none());
        self.begun.is_none() && lacks > 0 && !self.tried.is_some_and(rests)
    }

    /// Returns whether an engine could start over the records at once, for a log that ends at
    /// `end`.
    fn is_close(&self, now: u64, end: Position) -> bool {
        let took = self.tried.map_or(0, |(_, took)| took);
        self.lag_ms(now, end).is_some_and(|lag| lag <= CLOSE_MS.max(took * 2))
    }

    /// Returns the age of the records for a log that ends at `end`, in milliseconds.
    ///
    /// Returns `None` if they were never whole.
    fn lag_ms(&self, now: u64, end: Position) -> Option<u64> {
        let lag = self.as_of.map(|as_of| now.saturating_sub(as_of));
        if self.at >= end { lag.map(|_| 0) } else { lag }
    }

    /// Records the outcome of an update. Returns whether it failed for a new reason.
    fn tried(&mut self, now: u64, outcome: Result<Position, String>) -> bool {
        let began = self.begun.take().unwrap_or(now);
        self.tried = Some((now, now.saturating_sub(began)));
        let before = self.failed.take();
        match outcome {
            Ok(at) => {
                self.at = at;
                // The update may have been given up on the way.
                if at >= self.aim {
                    self.as_of = Some(began);
                }
                false
            }
            Err(error) => {
                let is_news = before.as_ref() != Some(&error);
                self.failed = Some(error);
                is_news
            }
        }
    }
}

/// The time since which the node does not need the records of a shard that another node owns.
#[derive(Debug, Default)]
pub(super) struct Idle {
    since: Option<u64>,
    is_forgotten: bool,
}

impl Idle {
    /// Returns whether the records shall be removed now; returns `true` once.
    fn is_over(&mut self, now: u64, is_idle: bool) -> bool {
        if !is_idle {
            *self = Self::default();
            return false;
        }
        let since = *self.since.get_or_insert(now);
        let is_over = now >= since + FORGET_AFTER_MS;
        is_over && !std::mem::replace(&mut self.is_forgotten, is_over)
    }

    /// Notes that the records were removed. If they were not, that is tried again after as long.
    pub(super) fn removed(&mut self, is_done: bool) {
        if !is_done {
            *self = Self::default();
        }
    }
}

/// Updates the records. It ends early when the node stops or one of its engines starts.
pub(super) fn follow(
    host: &dyn Host,
    inner: &Inner,
    shard: u16,
    checkpoints: ShardCheckpoints,
) -> Result<Position, String> {
    let log = inner.open_log(shard).map_err(|error| error.to_string())?;
    let gives_up = || inner.is_stopping() || inner.turns.are_starts();
    host.follow(shard, Arc::new(log), checkpoints, &gives_up)
}

impl Life {
    /// Orders an update of the records if they lack much, or have lacked something for long.
    pub(super) fn keep_warm(&mut self, now: u64, orders: &Sender<Order>) {
        let end = self.shard.replica().chain().last();
        self.step(ShardInput::RecordsAreClose(self.warmth.is_close(now, end)), orders);
        if self.shard.stands_by()
            && self.warmth.is_due(now, end, self.shard.prepares())
            && let Some(turn) = self.inner.turns.follow()
        {
            self.warmth.begun = orders.send(Order::Follow(turn)).is_ok().then_some(now);
            self.warmth.aim = end;
        }
        let lag = self.shard.stands_by().then(|| self.warmth.lag_ms(now, end)).flatten();
        if let Some(kept) = self.inner.apply_lags.lock().get_mut(usize::from(self.number)) {
            *kept = lag;
        }
    }

    /// Returns the reason why the records of a shard that the node follows cannot be updated.
    pub(super) fn lags_because(&self) -> Option<String> {
        let why = self.warmth.failed.as_ref().filter(|_| self.shard.stands_by());
        why.map(|why| format!("its records do not follow the log: {why}"))
    }

    pub(super) fn followed(&mut self, followed: Result<Position, String>) {
        let (shard, now) = (self.number, self.inner.clock.now_ms());
        let is_news = self.warmth.tried(now, followed);
        let (position, error) = (self.warmth.at.0, self.warmth.failed.as_deref());
        match error {
            Some(error) if is_news => {
                tracing::warn!(shard, error, "the records do not follow the log");
            }
            Some(error) => tracing::debug!(shard, error, "the records still do not follow the log"),
            None => tracing::debug!(shard, position, "the records follow the log"),
        }
    }

    /// Orders the removal of the records if the node has not needed them for long.
    ///
    /// Another node must own the shard.
    pub(super) fn forget_later(&mut self, role: Role, seen: &Seen, orders: &Sender<Order>) {
        let is_away = matches!(
            self.shard.state(),
            ShardState::Absent | ShardState::Restoring | ShardState::Following
        );
        let is_idle = role == Role::Nothing && is_away && seen.owner(self.number).is_some();
        if self.idle.is_over(self.inner.clock.now_ms(), is_idle) {
            // The order is lost only if the worker has ended.
            drop(orders.send(Order::Forget));
            self.warmth = Warmth::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_brought_up_to_date_when_they_lack_much_or_something_for_long() {
        let new = Warmth::default();
        assert!(!new.is_due(0, Position::START, false), "there is nothing to follow");
        assert!(new.is_due(0, Position(1), false), "what was never there is fetched at once");
        let at =
            |at, since| Warmth { at: Position(at), tried: Some((since, 0)), ..Warmth::default() };
        assert!(!at(5, 100).is_due(1_000_000, Position(5), false));
        assert!(!at(5, 100).is_due(10_099, Position(6), false));
        assert!(at(5, 100).is_due(10_100, Position(6), false));
        assert!(!at(5, 100).is_due(1_099, Position(1_005), false), "not one after the other");
        assert!(!at(5, 100).is_due(1_100, Position(1_004), false));
        assert!(at(5, 100).is_due(1_100, Position(1_005), false));
        assert!(!Warmth { begun: Some(1), ..at(5, 100) }.is_due(10_100, Position(6), false));
    }

    #[test]
    fn what_took_long_or_failed_is_left_alone_for_longer() {
        let mut warmth = Warmth { begun: Some(1_000), ..Warmth::default() };
        assert!(!warmth.tried(6_000, Ok(Position(7))));
        assert!(
            !warmth.is_due(25_999, Position(9_000), false)
                && warmth.is_due(26_000, Position(9_000), false)
        );
        warmth.begun = Some(30_000);
        let failed = || Err("no".to_owned());
        assert!(warmth.tried(30_000, failed()) && !warmth.tried(30_000, failed()));
        assert!(
            !warmth.is_due(39_999, Position(9_000), false)
                && warmth.is_due(40_000, Position(9_000), false)
        );
        assert_eq!(warmth.at, Position(7), "they are where they were");
        assert!(!warmth.tried(40_000, Ok(Position(9))) && warmth.tried(40_000, failed()));
    }

    #[test]
    fn records_are_as_old_as_the_last_time_when_they_had_all_that_was_read() {
        let mut warmth = Warmth::default();
        assert_eq!(warmth.lag_ms(5, Position(7)), None, "they were never whole");
        warmth = Warmth { begun: Some(1_000), aim: Position(7), ..Warmth::default() };
        warmth.tried(3_000, Ok(Position(7)));
        assert_eq!(warmth.lag_ms(9_000, Position(7)), Some(0));
        assert_eq!(warmth.lag_ms(9_000, Position(8)), Some(8_000));
        warmth.begun = Some(9_000);
        warmth.aim = Position(20);
        warmth.tried(9_500, Ok(Position(15)));
        assert_eq!(warmth.lag_ms(10_000, Position(20)), Some(9_000), "it was given up early");
    }

    #[test]
    fn a_shard_moves_when_its_records_are_nearly_as_old_as_the_log() {
        assert!(!Warmth::default().is_close(5, Position(7)), "they were never whole");
        let at = |took| Warmth {
            at: Position(7),
            as_of: Some(1_000),
            tried: Some((1_000, took)),
            ..Warmth::default()
        };
        assert!(at(0).is_close(9_000, Position(7)), "they have everything");
        assert!(at(0).is_close(2_000, Position(8)) && !at(0).is_close(2_001, Position(8)));
        assert!(at(600).is_close(2_200, Position(8)) && !at(600).is_close(2_201, Position(8)));
        // The records do not rest meanwhile, unless the update fails.
        assert!(
            at(600).is_due(1_001, Position(8), true) && !at(600).is_due(1_001, Position(8), false)
        );
        let failed = Warmth { failed: Some("no".to_owned()), ..at(600) };
        assert!(!failed.is_due(1_001, Position(8), true));
    }

    #[test]
    fn records_go_once_when_the_node_had_nothing_to_do_with_them_for_long() {
        let mut idle = Idle::default();
        assert!(!idle.is_over(5, true) && !idle.is_over(600_004, true));
        assert!(!idle.is_over(600_005, false), "it stands by again");
        assert!(!idle.is_over(600_006, true) && !idle.is_over(1_200_005, true));
        assert!(idle.is_over(1_200_006, true) && !idle.is_over(9_000_000, true));
        idle.removed(true);
        assert!(!idle.is_over(9_600_000, true));
        idle.removed(false);
        assert!(!idle.is_over(9_600_001, true) && !idle.is_over(10_200_000, true));
        assert!(idle.is_over(10_200_001, true), "what was left is removed later");
    }
}
