//! Reads everything in a data directory that no engine uses, and reports the problems.
//!
//! Each problem has its place and its cost: whether a start needs the unreadable part, and the loss
//! without it.

mod deep;

use std::ops::ControlFlow;
use std::path::Path;

use postrider_log::{
    Commit, Entry, GroupBody, Inspection, Joiner, Kind, LogError, LogGap, LogId, Mark, StoppedLog,
};

use crate::checkpoints::CheckpointError;
use crate::directory::{self, DirectoryError, LOG, VIEW};
use crate::fjall::FjallView;
use crate::log_store::encoding;
use crate::snapshot::{self, GenerationCheck};
use crate::{Direction, FjallOptions, MarkedView, Position, StoreError, Table, View};

pub use deep::Deep;

/// The cost of a gap in a part that a start reads.
const START_REFUSED: &str = "the server does not start";
/// The cost of a view that cannot be read.
const VIEW_COST: &str = "what needs it fails; a start builds the view anew where a whole \
                         checkpoint and the log lead to it, or a log that begins at 1; otherwise \
                         restore a backup";

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

/// A checkpoint of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedCheckpoint {
    /// Its position.
    pub position: Position,
    /// The bytes of its file.
    pub bytes: u64,
    /// Its problem, if there is one.
    pub problem: Option<String>,
    /// Its log and its mark, if they can be read.
    pub(crate) of: Option<(LogId, Mark)>,
}

impl CheckedCheckpoint {
    /// Returns its file, relative to the data directory.
    fn file(&self) -> String {
        format!("{}/{:020}.ckpt", directory::CHECKPOINTS, self.position.0)
    }

    /// Returns whether it may be of this log.
    fn may_be_of(&self, log: Option<LogId>) -> bool {
        log.is_none_or(|log| self.of.is_some_and(|(of, _)| of == log))
    }
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

impl Problem {
    /// Returns a problem of a directory as a whole.
    fn of(kind: ProblemKind, file: &str, what: impl Into<String>, cost: &str) -> Self {
        let (what, cost) = (what.into(), cost.to_owned());
        Self { kind, file: file.to_owned(), offset: None, position: None, what, cost }
    }
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
    let view = open_view(dir, &mut problems)?;
    let checked = view.as_ref().map(|view| read_view(view, &mut problems)).transpose()?;
    let snapshots = snapshot::check(&dir.join("snapshots"))?;
    let newest = snapshots.iter().find(|it| it.problem.is_none());
    let mut checkpoints = read_checkpoints(dir)?;
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
    let (log, other_history) = read_log(dir, &needs, of_view, &marks, &mut problems)?;
    checkpoint_problems(&mut checkpoints, log.id, &other_history, &mut problems);
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

/// Reads all checkpoints, the newest one first.
fn read_checkpoints(dir: &Path) -> Result<Vec<CheckedCheckpoint>, DirectoryError> {
    let mut checked = Vec::new();
    for checkpoint in directory::checkpoints(dir).all()? {
        let (position, bytes) = (checkpoint.position, checkpoint.bytes);
        let (of, problem) = match checkpoint.verify() {
            Ok(header) => (Some((header.log, header.at)), None),
            Err(error @ CheckpointError::Io { .. }) => return Err(error.into()),
            Err(CheckpointError::Archive { source, .. }) => (None, Some(source.to_string())),
            Err(error) => (None, Some(error.to_string())),
        };
        checked.push(CheckedCheckpoint { position, bytes, problem, of });
    }
    Ok(checked)
}

/// Adds the problems of checkpoints. A damaged checkpoint costs time, or nothing.
fn checkpoint_problems(
    checkpoints: &mut [CheckedCheckpoint],
    log: Option<LogId>,
    other_history: &[Position],
    problems: &mut Vec<Problem>,
) {
    for checkpoint in checkpoints {
        if log.is_some() && checkpoint.of.is_some_and(|(of, _)| Some(of) != log) {
            checkpoint.problem = Some("it is of another log".to_owned());
        } else if other_history.contains(&checkpoint.position) {
            checkpoint.problem = Some("the log has another entry at its position".to_owned());
        }
        let Some(what) = &checkpoint.problem else { continue };
        let cost = "nothing is lost while the view can be read; without it a start takes the \
                    checkpoint before this one, and more of the log";
        let file = checkpoint.file();
        let problem = Problem::of(ProblemKind::Damaged, &file, what.clone(), cost);
        problems.push(Problem { position: Some(checkpoint.position), ..problem });
    }
}

/// Opens the view, if it can be opened.
fn open_view(dir: &Path, problems: &mut Vec<Problem>) -> Result<Option<FjallView>, DirectoryError> {
    let path = dir.join(VIEW);
    if !path.is_dir() {
        problems.push(Problem::of(ProblemKind::Lost, VIEW, "it is missing", VIEW_COST));
        return Ok(None);
    }
    match FjallView::open_existing(&path, options()) {
        Ok(view) => Ok(Some(view)),
        Err(StoreError::Damaged(what)) => {
            problems.push(Problem::of(ProblemKind::Damaged, VIEW, what, VIEW_COST));
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// Reads all records of the view.
fn read_view(view: &FjallView, problems: &mut Vec<Problem>) -> Result<CheckedView, DirectoryError> {
    let mut records = 0;
    for &table in Table::ALL {
        let read = view.scan(table, &[], None, Direction::Forward, &mut |_, _| {
            records += 1;
            ControlFlow::Continue(())
        });
        match read {
            Ok(()) => {}
            Err(StoreError::Damaged(why)) => {
                let what = format!("the table {}: {why}", table.name());
                problems.push(Problem::of(ProblemKind::Damaged, VIEW, what, VIEW_COST));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(CheckedView { applied: view.applied()?.position, synced: view.synced()?, records })
}

/// Reads the log. `of_checkpoints` are the marks of the checkpoints.
///
/// Also returns those of them at which the log has another entry.
fn read_log(
    dir: &Path,
    needs: &Needs,
    of_view: Option<LogId>,
    of_checkpoints: &[Mark],
    problems: &mut Vec<Problem>,
) -> Result<(CheckedLog, Vec<Position>), DirectoryError> {
    let path = dir.join(LOG);
    if !path.is_dir() {
        let cost = "the server does not start; restore a backup";
        problems.push(Problem::of(ProblemKind::Lost, LOG, "it is missing", cost));
        return Ok((checked_log(&Inspection::default()), Vec::new()));
    }
    let stopped = StoppedLog::open(&path).map_err(StoreError::from)?;
    let marks = needs.applied.into_iter().chain(of_checkpoints.iter().copied());
    let mut bodies = CommitReader { marks: marks.collect(), ..CommitReader::default() };
    let mut visit = |entry: &Entry, file: &str, offset| bodies.visit(entry, file, offset);
    let found = stopped.inspect(&mut visit).map_err(StoreError::from)?;
    if let Some(newer) = found.gaps.iter().find(|gap| matches!(gap.error, LogError::Newer { .. })) {
        return Err(StoreError::from(newer.error.clone()).into());
    }
    if let Some(newer) = bodies.newer {
        return Err(newer.into());
    }
    let last = found.last.max(needs.applied.map_or(Position::START, |mark| mark.position));
    problems.extend(found.gaps.iter().map(|gap| gap_problem(gap, &found, needs, last)));
    problems.extend(bodies.problems);
    let other = |mark: &Mark| bodies.other_history.contains(mark);
    let of_view_is_other = needs.applied.filter(other).map(|mark| mark.position);
    compare_with_view(&found, needs, of_view, of_view_is_other, problems);
    let of_checkpoints = of_checkpoints.iter().filter(|mark| other(mark));
    Ok((checked_log(&found), of_checkpoints.map(|mark| mark.position).collect()))
}

const fn checked_log(found: &Inspection) -> CheckedLog {
    let Inspection { id, first, last, epoch, segments, bytes, torn_bytes, .. } = found;
    CheckedLog {
        id: *id,
        first: *first,
        last: *last,
        epoch: *epoch,
        segments: *segments,
        bytes: *bytes,
        torn_bytes: *torn_bytes,
    }
}

fn gap_problem(gap: &LogGap, found: &Inspection, needs: &Needs, last: Position) -> Problem {
    let (kind, file, offset, what) = match &gap.error {
        LogError::Damaged { file, offset, what, .. } => {
            (ProblemKind::Damaged, file.clone(), *offset, what.clone())
        }
        error => (ProblemKind::Lost, found.end.0.clone(), found.end.1, error.to_string()),
    };
    let position = gap.positions.map(|(from, _)| from);
    let is_needed = gap.is_newest || gap.segment_ends > needs.after;
    let cost = match position {
        _ if !is_needed => "nothing is lost: no start reads it again".to_owned(),
        None => START_REFUSED.to_owned(),
        Some(from) => format!(
            "{START_REFUSED}; `postrider repair` says what can be kept, at worst positions {from} \
             to {last} are given up",
        ),
    };
    let file = format!("{LOG}/{file}");
    Problem { kind, file, offset: Some(offset), position, what, cost }
}

/// Compares the log with the mark of the view.
fn compare_with_view(
    found: &Inspection,
    needs: &Needs,
    of_view: Option<LogId>,
    other_history: Option<Position>,
    problems: &mut Vec<Problem>,
) {
    let refused = format!("{START_REFUSED}; restore a backup");
    if let (Some(of_view), Some(id)) = (of_view, found.id)
        && of_view != id
    {
        let what = "the view is of another log";
        problems.push(Problem::of(ProblemKind::Damaged, "view", what, &refused));
        return;
    }
    let applied = needs.applied.unwrap_or_default().position;
    let known = problems.iter().any(|problem| problem.kind == ProblemKind::Lost);
    if applied > found.last && !known && found.gaps.is_empty() {
        let last = found.last;
        let cost = format!(
            "{START_REFUSED}; `postrider repair` says what can be kept, at worst positions {} to \
             {applied} are given up",
            last.next()
        );
        let what = LogError::Lost { last, applied }.to_string();
        let file =
            if found.segments == 0 { LOG.to_owned() } else { format!("{LOG}/{}", found.end.0) };
        problems.push(Problem {
            kind: ProblemKind::Lost,
            file,
            offset: Some(found.end.1),
            position: Some(last.next()),
            what,
            cost,
        });
    } else if let Some(position) = other_history {
        let what = format!("the log has another entry at {position} than the view was made of");
        let problem = Problem::of(ProblemKind::Damaged, "view", what, &refused);
        problems.push(Problem { position: Some(position), ..problem });
    }
}

/// Decodes the contents of the entries.
#[derive(Default)]
struct CommitReader {
    joiner: Joiner,
    /// The marks of the view and the checkpoints.
    marks: Vec<Mark>,
    /// The marks at which the log has another entry.
    other_history: Vec<Mark>,
    problems: Vec<Problem>,
    newer: Option<StoreError>,
}

impl CommitReader {
    fn visit(&mut self, entry: &Entry, file: &str, offset: u64) {
        let at = entry.header.position;
        for mark in &self.marks {
            let hash = match () {
                () if at == mark.position => Some(entry.hash()),
                () if at == mark.position.next() => Some(entry.header.prev),
                () => None,
            };
            if hash.is_some_and(|hash| hash != mark.hash) {
                self.other_history.push(*mark);
            }
        }
        let decoded = match self.joiner.push(entry) {
            Ok(None) => Ok(()),
            Ok(Some(commit)) => decode_body(&commit),
            Err(error) => Err(StoreError::Damaged(error.to_string())),
        };
        match decoded {
            Ok(()) => {}
            Err(newer @ StoreError::Newer(_)) => self.newer = Some(newer),
            Err(error) => self.problems.push(Problem {
                kind: ProblemKind::Damaged,
                file: format!("{LOG}/{file}"),
                offset: Some(offset),
                position: Some(entry.header.position),
                what: error.to_string(),
                cost: START_REFUSED.to_owned(),
            }),
        }
    }
}

fn decode_body(commit: &Commit) -> Result<(), StoreError> {
    encoding::frame_of(commit)?;
    if commit.kind == Kind::Group {
        let body = GroupBody::decode(commit.body.clone())?;
        body.changes.iter().try_for_each(|it| encoding::decode_change(it).map(drop))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
