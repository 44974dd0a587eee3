//! Reads every segment and commit of the log, and compares them with the view's mark.

use std::path::Path;

use postrider_log::{
    Commit, Entry, GroupBody, Inspection, Joiner, Kind, LogError, LogGap, LogId, Mark, StoppedLog,
};

use super::{CheckedLog, Needs, Problem, ProblemKind};
use crate::directory::{DirectoryError, LOG};
use crate::log_store::decode;
use crate::{Position, StoreError};

/// The cost of a gap in a part that a start reads.
const START_REFUSED: &str = "the server does not start";

/// Reads the log. `of_checkpoints` are the marks of the checkpoints.
///
/// Also returns those of them at which the log has another entry.
pub(super) fn read(
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
        return Ok((figures(&Inspection::default()), Vec::new()));
    }
    let stopped = StoppedLog::open(&path).map_err(StoreError::from)?;
    let marks = needs.applied.into_iter().chain(of_checkpoints.iter().copied());
    let mut bodies = Bodies { marks: marks.collect(), ..Bodies::default() };
    let mut visit = |entry: &Entry, file: &str, offset| bodies.visit(entry, file, offset);
    let found = stopped.inspect(&mut visit).map_err(StoreError::from)?;
    if let Some(newer) = found.gaps.iter().find(|gap| matches!(gap.error, LogError::Newer { .. })) {
        return Err(StoreError::from(newer.error.clone()).into());
    }
    if let Some(newer) = bodies.newer {
        return Err(newer.into());
    }
    let last = found.last.max(needs.applied.map_or(Position::START, |mark| mark.position));
    problems.extend(found.gaps.iter().map(|gap| problem(gap, &found, needs, last)));
    problems.extend(bodies.problems);
    let other = |mark: &Mark| bodies.other_history.contains(mark);
    let of_view_is_other = needs.applied.filter(other).map(|mark| mark.position);
    witness(&found, needs, of_view, of_view_is_other, problems);
    let of_checkpoints = of_checkpoints.iter().filter(|mark| other(mark));
    Ok((figures(&found), of_checkpoints.map(|mark| mark.position).collect()))
}

const fn figures(found: &Inspection) -> CheckedLog {
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

fn problem(gap: &LogGap, found: &Inspection, needs: &Needs, last: Position) -> Problem {
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
fn witness(
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
struct Bodies {
    joiner: Joiner,
    /// The marks of the view and the checkpoints.
    marks: Vec<Mark>,
    /// The marks at which the log has another entry.
    other_history: Vec<Mark>,
    problems: Vec<Problem>,
    newer: Option<StoreError>,
}

impl Bodies {
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
            Ok(Some(commit)) => decode_all(&commit),
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

fn decode_all(commit: &Commit) -> Result<(), StoreError> {
    decode::frame_of(commit)?;
    if commit.kind == Kind::Group {
        let body = GroupBody::decode(commit.body.clone())?;
        body.changes.iter().try_for_each(|it| decode::change(it).map(drop))?;
    }
    Ok(())
}
