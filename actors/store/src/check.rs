//! Reads everything in a data directory that no engine uses, and reports the problems.
//!
//! Each problem has its place and its cost: whether a start needs the unreadable part, and the loss
//! without it.

mod checkpoints;
mod deep;
mod log;
mod records;

#[cfg(test)]
mod tests;

use std::path::Path;

use postrider_log::{LogId, Mark};

pub use checkpoints::CheckedCheckpoint;
pub use deep::Deep;

use crate::directory::{self, DirectoryError};
use crate::fjall::FjallView;
use crate::snapshot::{self, GenerationCheck};
use crate::{FjallOptions, MarkedView, Position, StoreError};

/// The contents of a data directory, and its problems.
#[derive(Debug)]
pub struct DirectoryCheck {
    /// The log.
    pub log: CheckedLog,
    /// The view; `None` when it cannot be opened.
    pub view: Option<CheckedView>,
    /// The checkpoints, the newest one first.
    pub checkpoints: Vec<CheckedCheckpoint>,
    /// The snapshots, the newest one first.
    pub snapshots: Vec<GenerationCheck>,
    /// The comparison with a rebuilt view, if it was requested.
    pub deep: Option<Deep>,
    /// The problems. A commit at the end that was not written whole is no problem.
    pub problems: Vec<Problem>,
}

/// The log of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedLog {
    /// Its identity.
    pub id: Option<LogId>,
    /// Its first position.
    pub first: Position,
    /// Its last position.
    pub last: Position,
    /// The epoch of its last entry.
    pub epoch: u64,
    /// The number of files.
    pub segments: usize,
    /// The bytes of its entries.
    pub bytes: u64,
    /// The bytes of a commit at its end that was not written whole.
    pub torn_bytes: u64,
}

/// The view of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckedView {
    /// The position that it last applied.
    pub applied: Position,
    /// The position up to which it surely survives a power cut.
    pub synced: Position,
    /// The number of readable records.
    pub records: u64,
}

/// A problem at a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The kind: whether the data is damaged or missing.
    pub kind: ProblemKind,
    /// The file or directory, relative to the data directory.
    pub file: String,
    /// The offset in the file, if it is known.
    pub offset: Option<u64>,
    /// The position of the log, if there is one.
    pub position: Option<Position>,
    /// The problem.
    pub what: String,
    /// The cost.
    pub cost: String,
}

/// A kind of problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProblemKind {
    /// The bytes are not those that were written.
    Damaged,
    /// Acknowledged data is missing.
    Lost,
}

impl ProblemKind {
    /// Returns its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Damaged => "damaged",
            Self::Lost => "lost",
        }
    }
}

impl Problem {
    /// Returns a problem of a directory as a whole.
    fn of(kind: ProblemKind, file: &str, what: impl Into<String>, cost: &str) -> Self {
        let (what, cost) = (what.into(), cost.to_owned());
        Self { kind, file: file.to_owned(), offset: None, position: None, what, cost }
    }
}

/// The parts that a start reads besides the newest segment.
#[derive(Debug, Clone, Copy)]
struct Needs {
    /// The mark of the view, if it can be read.
    applied: Option<Mark>,
    /// The position behind which a start reads every segment.
    after: Position,
}

/// Checks the directory.
///
/// It changes only what opening the view changes. The rebuilt view for the comparison is removed
/// again.
///
/// # Errors
/// [`DirectoryError`]: there is no data, it is in use, a newer version wrote it, or a file of it
/// cannot be read at all.
pub fn check(dir: &Path, deep: bool) -> Result<DirectoryCheck, DirectoryError> {
    if !directory::has_data(dir)? {
        let none = format!("there is no data in {}", dir.display());
        return Err(StoreError::Failed(none).into());
    }
    let mut problems = Vec::new();
    let view = records::open(dir, &mut problems)?;
    let checked = view.as_ref().map(|view| records::read(view, &mut problems)).transpose()?;
    let snapshots = snapshot::check(&dir.join("snapshots"))?;
    let newest = snapshots.iter().find(|it| it.problem.is_none());
    let mut checkpoints = checkpoints::read(dir)?;
    let of_view = view.as_ref().map(FjallView::log).transpose()?.flatten();
    let is_whole = |it: &&CheckedCheckpoint| it.problem.is_none() && it.may_be_of(of_view);
    let whole = checkpoints.iter().find(is_whole);
    // The base of a rebuilt view, and of the actors' memory if there is no snapshot.
    let base = whole.map_or(Position::START, |it| it.position);
    let newest = newest.map_or(base, |it| it.position);
    let applied = view.as_ref().map(FjallView::applied).transpose()?;
    let synced = checked.map_or(base, |view| view.synced);
    let needs = Needs { applied, after: newest.min(synced) };
    let marks: Vec<_> = checkpoints.iter().filter_map(|it| Some(it.of?.1)).collect();
    let (log, other_history) = log::read(dir, &needs, of_view, &marks, &mut problems)?;
    checkpoints::problems(&mut checkpoints, log.id, &other_history, &mut problems);
    snapshot_problems(&snapshots, newest, &log, &mut problems);
    let deep = match (deep, &view) {
        (false, _) => None,
        (true, None) => Some(Deep::NotPossible("the view cannot be read".into())),
        (true, Some(view)) if problems.is_empty() => {
            Some(deep::compare(dir, view, &log, &mut checkpoints, &mut problems)?)
        }
        (true, Some(_)) => Some(Deep::NotPossible("there are problems already".into())),
    };
    Ok(DirectoryCheck { log, view: checked, checkpoints, snapshots, deep, problems })
}

/// Adds the problems of snapshots. A damaged one costs time; if none is whole, it may cost more.
fn snapshot_problems(
    snapshots: &[GenerationCheck],
    newest: Position,
    log: &CheckedLog,
    problems: &mut Vec<Problem>,
) {
    for generation in snapshots {
        let Some(what) = &generation.problem else { continue };
        let cost = "nothing is lost: a start takes the one before it, and more of the log";
        let file = format!("snapshots/{}", generation.name);
        let problem = Problem::of(ProblemKind::Damaged, &file, what.clone(), cost);
        problems.push(Problem { position: Some(generation.position), ..problem });
    }
    let begins_after = log.first.previous();
    if newest < begins_after {
        let what = format!(
            "no whole snapshot or checkpoint, and the log begins at {}: positions {} to \
             {begins_after} are missing",
            log.first,
            newest.next()
        );
        let cost = "the server does not start; restore a backup";
        let problem = Problem::of(ProblemKind::Lost, "snapshots", what, cost);
        problems.push(Problem { position: Some(newest.next()), ..problem });
    }
}

/// Returns the options to open a database of a directory without preparing for writes.
const fn options() -> FjallOptions {
    FjallOptions { cache_bytes: 16 << 20, memtable_bytes: 32 << 20, log_bytes: 128 << 20 }
}
