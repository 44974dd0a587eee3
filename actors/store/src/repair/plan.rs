//! What of a damaged directory can be kept.

use std::path::Path;

use postrider_log::{Inspection, LogError, LogGap, StoppedLog};

use super::RepairError;
use crate::check::{DirectoryCheck, check};
use crate::directory::{CHECKPOINTS, DirectoryError, LOG};
use crate::{Position, StoreError};

/// What a repair keeps, and what it gives up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The last position that is kept.
    pub last: Position,
    /// The first position and the last one that are given up; `None` when nothing is lost.
    pub given_up: Option<(Position, Position)>,
    /// Whether the records are built anew from the log.
    pub rebuilds_view: bool,
    /// What is wrong, each in a line.
    pub problems: Vec<String>,
    /// The epoch that the new log goes on from.
    pub(super) epoch: u64,
    /// The position behind which the view must apply the log.
    pub(super) view_after: Position,
    /// The position before the log's first one.
    pub(super) begins_after: Position,
    /// The name of the snapshot that the state is made from.
    pub(super) snapshot: Option<String>,
}

/// A position that can be reached, and from what.
struct Reached {
    last: Position,
    snapshot: Option<String>,
}

/// Reads everything, and finds the last position whose whole state can be made: the records, from
/// the view or from a log that begins at 1; what actors hold in memory, from a snapshot and the
/// frames behind it.
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
    let view_is_whole = !checked.problems.iter().any(|it| it.file.starts_with("view"));
    let view = checked.view.filter(|_| view_is_whole);
    let kept = view.and_then(|view| {
        let to = found.through(view.synced)?;
        let reached = reach(&checked, &found, to)?;
        (reached.last >= view.applied).then_some((reached, view.synced, false))
    });
    let rebuilt = || {
        let to = (found.first == Position(1)).then(|| found.through(Position::START))??;
        Some((reach(&checked, &found, to)?, Position::START, true))
    };
    let chosen = kept.or_else(rebuilt);
    let (reached, view_after, rebuilds_view) = chosen.ok_or_else(|| no_way(&checked, &found))?;
    let applied = checked.view.map_or(Position::START, |view| view.applied);
    let known = found.gaps.iter().filter_map(|gap| gap.positions).map(|(_, through)| through);
    let to = known.fold(found.last.max(applied), Position::max);
    Ok(Plan {
        last: reached.last,
        given_up: (to > reached.last).then(|| (reached.last.next(), to)),
        rebuilds_view,
        problems: checked.problems.iter().map(|it| format!("{}: {}", it.file, it.what)).collect(),
        epoch: found.epoch,
        view_after,
        begins_after: found.first.previous(),
        snapshot: reached.snapshot,
    })
}

/// The last position up to `to` that a whole snapshot and the frames behind it lead to.
fn reach(checked: &DirectoryCheck, found: &Inspection, to: Position) -> Option<Reached> {
    let whole = checked.snapshots.iter().filter(|it| it.problem.is_none());
    let names = whole.map(|it| (it.position, Some(it.name.clone())));
    let all = names.chain([(Position::START, None)]).filter(|(position, _)| *position <= to);
    let reached = all.filter_map(|(position, snapshot)| {
        let last = found.through(position)?.min(to);
        (last >= position).then_some(Reached { last, snapshot })
    });
    // Of those that lead equally far, the newest one, which comes first.
    reached.reduce(|best, other| if other.last > best.last { other } else { best })
}

fn no_way(checked: &DirectoryCheck, found: &Inspection) -> RepairError {
    let why = match checked.view {
        None => format!("the view cannot be read, and the log begins at {}", found.first),
        Some(view) => format!(
            "the view is at {}, which the log does not lead to, and the log begins at {}, so the \
             view cannot be built anew",
            view.applied, found.first
        ),
    };
    RepairError::NotPossible(why)
}

/// How far a log can be read.
trait Readable {
    /// The last position that all entries behind `after` lead to; `None` when those behind it are
    /// trimmed.
    fn through(&self, after: Position) -> Option<Position>;
}

impl Readable for Inspection {
    fn through(&self, after: Position) -> Option<Position> {
        if after.next() < self.first {
            return None;
        }
        let ends = self.gaps.iter().filter_map(begins).filter(|(_, through)| *through > after);
        let first = ends.map(|(from, _)| from.previous()).min().unwrap_or(self.last);
        Some(first.min(self.last).max(after.min(self.last)))
    }
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
