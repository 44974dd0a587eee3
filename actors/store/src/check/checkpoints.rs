//! Reads every checkpoint.

use std::path::Path;

use postrider_log::{LogId, Mark};

use super::{Problem, ProblemKind};
use crate::Position;
use crate::checkpoints::CheckpointError;
use crate::directory::{self, DirectoryError};

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
    pub(super) fn file(&self) -> String {
        format!("{}/{:020}.ckpt", directory::CHECKPOINTS, self.position.0)
    }

    /// Returns whether it may be of this log.
    pub(super) fn may_be_of(&self, log: Option<LogId>) -> bool {
        log.is_none_or(|log| self.of.is_some_and(|(of, _)| of == log))
    }
}

/// Reads all checkpoints, the newest one first.
pub(super) fn read(dir: &Path) -> Result<Vec<CheckedCheckpoint>, DirectoryError> {
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
pub(super) fn problems(
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
