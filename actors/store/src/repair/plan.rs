//! What of a damaged directory can be kept.

use std::path::Path;

use postrider_log::{Inspection, LogError, LogGap, StoppedLog};

use super::RepairError;
use crate::check::{DirectoryCheck, check};
use crate::checkpoints::Checkpoint;
use crate::directory::{self, CHECKPOINTS, DirectoryError, LOG};
use crate::{Position, StoreError};

/// What a repair keeps, and what it gives up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The last position that is kept.
    pub last: Position,
    /// The first position and the last one that are given up; `None` when nothing is lost.
    pub given_up: Option<(Position, Position)>,
    /// Whether the records are built anew, from a checkpoint or from the log.
    pub rebuilds_view: bool,
    /// The position of the checkpoint that the records are built of, if they are.
    pub from_checkpoint: Option<Position>,
    /// What is wrong, each in a line.
    pub problems: Vec<String>,
    /// The epoch that the new log goes on from.
    pub(super) epoch: u64,
    /// The position behind which the view must apply the log.
    pub(super) view_after: Position,
    /// The position before the log's first one.
    pub(super) begins_after: Position,
    /// The checkpoint that the records are built of.
    pub(super) records: Option<Checkpoint>,
    /// What the state is made from that actors hold in memory.
    pub(super) states: States,
}

/// Where the states are that actors hold in memory; what follows is played.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum States {
    /// There are none before the log's first position.
    None,
    /// In a snapshot of this name.
    Snapshot(String),
    /// In a checkpoint.
    Checkpoint(Checkpoint),
}

/// A position that can be reached, and from what.
struct Reached {
    last: Position,
    states: States,
    /// The position behind which the view must apply the log.
    view_after: Position,
    rebuilds_view: bool,
    records: Option<Checkpoint>,
}

/// What is whole of a directory.
struct Whole {
    log: Inspection,
    /// Positions and names.
    snapshots: Vec<(Position, String)>,
    /// The newest one first.
    checkpoints: Vec<Checkpoint>,
}

/// Reads everything, and finds the last position whose whole state can be made: the records, from
/// the view, from a checkpoint or from a log that begins at 1; what actors hold in memory, from a
/// snapshot or a checkpoint; and the log behind them.
///
/// # Errors
/// [`RepairError`]: nothing is wrong, no state can be reached, or it cannot be read.
pub fn plan(dir: &Path) -> Result<Plan, RepairError> {
    let checked = check(dir, false)?;
    // A start needs no checkpoint while the view can be read.
    if checked.problems.iter().all(|it| it.file.starts_with(CHECKPOINTS)) {
        return Err(RepairError::NotNeeded);
    }
    if checked.format == 1 || !dir.join(LOG).is_dir() {
        return Err(RepairError::NotPossible("it has no log".into()));
    }
    let found = StoppedLog::open(&dir.join(LOG)).and_then(|log| log.inspect(&mut |_, _, _| ()));
    let found = found.map_err(StoreError::from).map_err(DirectoryError::from)?;
    let whole = Whole::of(dir, &checked, found)?;
    let view_is_whole = !checked.problems.iter().any(|it| it.file.starts_with("view"));
    let view = checked.view.filter(|_| view_is_whole);
    let kept = view.and_then(|view| {
        let reached = whole.reach(view.synced, None)?;
        (reached.last >= view.applied).then_some(Reached { rebuilds_view: false, ..reached })
    });
    let reached = kept.or_else(|| whole.rebuilt()).ok_or_else(|| no_way(&checked, &whole.log))?;
    // All that is known to have been there.
    let gaps = whole.log.gaps.iter().filter_map(|gap| Some(gap.positions?.1));
    let known = gaps.chain([whole.log.last]).chain(checked.view.map(|view| view.applied));
    let known = known.chain(checked.checkpoints.iter().map(|it| it.position));
    let known = known.chain(checked.snapshots.iter().map(|it| it.position));
    let to = known.max().unwrap_or_default();
    let epochs = checked.checkpoints.iter().filter_map(|it| Some(it.of?.1.epoch));
    Ok(Plan {
        last: reached.last,
        given_up: (to > reached.last).then(|| (reached.last.next(), to)),
        rebuilds_view: reached.rebuilds_view,
        from_checkpoint: reached.records.as_ref().map(|it| it.position),
        problems: checked.problems.iter().map(|it| format!("{}: {}", it.file, it.what)).collect(),
        epoch: epochs.fold(whole.log.epoch, u64::max),
        view_after: reached.view_after,
        begins_after: whole.log.first.previous(),
        records: reached.records,
        states: reached.states,
    })
}

impl Whole {
    fn of(dir: &Path, checked: &DirectoryCheck, log: Inspection) -> Result<Self, RepairError> {
        let snapshots = checked.snapshots.iter().filter(|it| it.problem.is_none());
        let snapshots = snapshots.map(|it| (it.position, it.name.clone())).collect();
        let is_whole = |it: &Checkpoint| {
            let mut checked = checked.checkpoints.iter();
            checked.any(|of| of.position == it.position && of.problem.is_none())
        };
        let mut checkpoints = directory::checkpoints(dir).all().map_err(DirectoryError::from)?;
        checkpoints.retain(is_whole);
        Ok(Self { log, snapshots, checkpoints })
    }

    /// The farthest that a view leads to which is built anew.
    fn rebuilt(&self) -> Option<Reached> {
        let of_checkpoints = self.checkpoints.iter();
        let of_checkpoints = of_checkpoints.map(|it| self.reach(it.position, Some(it)));
        let begins = self.log.first == Position::START.next();
        let of_log = begins.then(|| self.reach(Position::START, None));
        // Of those that lead equally far, the newest one, which comes first.
        of_checkpoints.chain(of_log).flatten().reduce(farther)
    }

    /// The farthest that the records lead to which are there up to `after`, with a state of what
    /// actors hold in memory.
    fn reach(&self, after: Position, records: Option<&Checkpoint>) -> Option<Reached> {
        let to = self.through(after)?;
        let snapshots = self.snapshots.iter();
        let snapshots =
            snapshots.map(|(position, name)| (*position, States::Snapshot(name.clone())));
        let checkpoints = self.checkpoints.iter();
        let checkpoints = checkpoints.map(|it| (it.position, States::Checkpoint(it.clone())));
        let all = snapshots.chain(checkpoints).chain([(Position::START, States::None)]);
        let reached =
            all.filter(|(position, _)| *position <= to).filter_map(|(position, states)| {
                let last = self.through(position)?.min(to);
                let (view_after, records) = (after, records.cloned());
                Some(Reached { last, states, view_after, rebuilds_view: true, records })
            });
        reached.reduce(farther)
    }

    /// The last position that all entries behind `after` lead to; `None` when those behind it are
    /// trimmed. What is whole at `after` leads that far without the log.
    fn through(&self, after: Position) -> Option<Position> {
        let Inspection { first, last, gaps, .. } = &self.log;
        if after.next() < *first {
            return None;
        }
        let ends = gaps.iter().filter_map(begins).filter(|(_, through)| *through > after);
        let first_end = ends.map(|(from, _)| from.previous()).min().unwrap_or(*last);
        Some(first_end.min(*last).max(after))
    }
}

fn farther(best: Reached, other: Reached) -> Reached {
    if other.last > best.last { other } else { best }
}

fn no_way(checked: &DirectoryCheck, found: &Inspection) -> RepairError {
    let why = match checked.view {
        None => format!(
            "the view cannot be read, no checkpoint is whole, and the log begins at {}",
            found.first
        ),
        Some(view) => format!(
            "the view is at {}, which the log does not lead to; no checkpoint is whole, and the \
             log begins at {}, so the view cannot be built anew",
            view.applied, found.first
        ),
    };
    RepairError::NotPossible(why)
}

/// Where a gap begins and ends; `None` if every entry can be read.
fn begins(gap: &LogGap) -> Option<(Position, Position)> {
    match (&gap.error, gap.positions) {
        (_, Some(positions)) => Some(positions),
        (LogError::Damaged { position: Some(position), .. }, None) => {
            Some((*position, gap.segment_ends))
        }
        _ => None,
    }
}
