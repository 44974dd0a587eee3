//! The parts of a damaged directory that can be kept.

use std::path::Path;

use postrider_log::{Inspection, LogError, LogGap, StoppedLog};

use super::RepairError;
use crate::check::{DirectoryCheck, check};
use crate::checkpoints::Checkpoint;
use crate::directory::{self, CHECKPOINTS, DirectoryError, LOG};
use crate::{Position, StoreError};

/// The positions that a repair keeps and gives up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The last position that is kept.
    pub last: Position,
    /// The first and the last position that are given up; `None` if nothing is lost.
    pub given_up: Option<(Position, Position)>,
    /// Set if the records are rebuilt, from a checkpoint or from the log.
    pub rebuilds_view: bool,
    /// The position of the checkpoint from which the records are rebuilt, if there is one.
    pub from_checkpoint: Option<Position>,
    /// The problems, each in a line.
    pub problems: Vec<String>,
    /// The epoch from which the new log continues.
    pub(super) epoch: u64,
    /// The position behind which the view must apply the log.
    pub(super) view_after: Position,
    /// The position before the log's first one.
    pub(super) begins_after: Position,
    /// The checkpoint from which the records are rebuilt.
    pub(super) records: Option<Checkpoint>,
    /// The source of the states in the actors' memory.
    pub(super) states: StateSource,
}

/// The source of the states in the actors' memory, after which the log is replayed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StateSource {
    /// There are none before the log's first position.
    None,
    /// In a snapshot of this name.
    Snapshot(String),
    /// In a checkpoint.
    Checkpoint(Checkpoint),
}

/// A reachable position and its sources.
struct Reachable {
    last: Position,
    states: StateSource,
    /// The position behind which the view must apply the log.
    view_after: Position,
    rebuilds_view: bool,
    records: Option<Checkpoint>,
}

/// The whole parts of a directory.
struct WholeParts {
    log: Inspection,
    /// Positions and names.
    snapshots: Vec<(Position, String)>,
    /// The checkpoints, the newest one first.
    checkpoints: Vec<Checkpoint>,
}

/// Reads everything, and finds the last position whose whole state can be built.
///
/// The records come from the view, from a checkpoint or from a log that starts at 1. The states in
/// the actors' memory come from a snapshot or a checkpoint. The log behind them is applied.
///
/// # Errors
/// [`RepairError`]: there is no damage, no state can be reached, or the directory cannot be read.
pub fn plan(dir: &Path) -> Result<Plan, RepairError> {
    let checked = check(dir, false)?;
    // A start needs no checkpoint while the view can be read.
    if checked.problems.iter().all(|it| it.file.starts_with(CHECKPOINTS)) {
        return Err(RepairError::NotNeeded);
    }
    if !dir.join(LOG).is_dir() {
        return Err(RepairError::NotPossible("it has no log".into()));
    }
    let found = StoppedLog::open(&dir.join(LOG)).and_then(|log| log.inspect(&mut |_, _, _| ()));
    let found = found.map_err(StoreError::from).map_err(DirectoryError::from)?;
    let whole = WholeParts::of(dir, &checked, found)?;
    let view_is_whole = !checked.problems.iter().any(|it| it.file.starts_with("view"));
    let view = checked.view.filter(|_| view_is_whole);
    let kept = view.and_then(|view| {
        let reached = whole.reach(view.synced, None)?;
        (reached.last >= view.applied).then_some(Reachable { rebuilds_view: false, ..reached })
    });
    let reached = kept
        .or_else(|| whole.farthest_rebuilt())
        .ok_or_else(|| not_possible(&checked, &whole.log))?;
    // These are all positions that are known to have existed.
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

impl WholeParts {
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

    /// Returns the farthest position that a rebuilt view reaches.
    fn farthest_rebuilt(&self) -> Option<Reachable> {
        let of_checkpoints = self.checkpoints.iter();
        let of_checkpoints = of_checkpoints.map(|it| self.reach(it.position, Some(it)));
        let begins = self.log.first == Position::START.next();
        let of_log = begins.then(|| self.reach(Position::START, None));
        // If several reach equally far, it is the newest one, which comes first.
        of_checkpoints.chain(of_log).flatten().reduce(farther)
    }

    /// Returns the farthest position reachable from the records up to `after`.
    ///
    /// A snapshot or checkpoint with the actors' states is needed too.
    fn reach(&self, after: Position, records: Option<&Checkpoint>) -> Option<Reachable> {
        let to = self.reached_through(after)?;
        let snapshots = self.snapshots.iter();
        let snapshots =
            snapshots.map(|(position, name)| (*position, StateSource::Snapshot(name.clone())));
        let checkpoints = self.checkpoints.iter();
        let checkpoints = checkpoints.map(|it| (it.position, StateSource::Checkpoint(it.clone())));
        let all = snapshots.chain(checkpoints).chain([(Position::START, StateSource::None)]);
        let reached =
            all.filter(|(position, _)| *position <= to).filter_map(|(position, states)| {
                let last = self.reached_through(position)?.min(to);
                let (view_after, records) = (after, records.cloned());
                Some(Reachable { last, states, view_after, rebuilds_view: true, records })
            });
        reached.reduce(farther)
    }

    /// Returns the last position that is reached from `after` without a gap.
    ///
    /// `None` if the entries behind `after` are trimmed. The state at `after` itself needs no log.
    fn reached_through(&self, after: Position) -> Option<Position> {
        let Inspection { first, last, gaps, .. } = &self.log;
        if after.next() < *first {
            return None;
        }
        let ends = gaps.iter().filter_map(gap_bounds).filter(|(_, through)| *through > after);
        let first_end = ends.map(|(from, _)| from.previous()).min().unwrap_or(*last);
        Some(first_end.min(*last).max(after))
    }
}

fn farther(best: Reachable, other: Reachable) -> Reachable {
    if other.last > best.last { other } else { best }
}

fn not_possible(checked: &DirectoryCheck, found: &Inspection) -> RepairError {
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

/// Returns the start and the end of a gap; `None` if every entry can be read.
fn gap_bounds(gap: &LogGap) -> Option<(Position, Position)> {
    match (&gap.error, gap.positions) {
        (_, Some(positions)) => Some(positions),
        (LogError::Damaged { position: Some(position), .. }, None) => {
            Some((*position, gap.segment_ends))
        }
        _ => None,
    }
}
