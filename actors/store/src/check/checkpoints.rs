//! Every checkpoint is read.

use std::path::Path;

use postrider_log::LogId;

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
    /// What is wrong with it.
    pub problem: Option<String>,
    /// The log that it is of, if it can be read.
    pub(super) log: Option<LogId>,
}

/// Reads all checkpoints, the newest one first.
pub(super) fn read(dir: &Path) -> Result<Vec<CheckedCheckpoint>, DirectoryError> {
    let mut checked = Vec::new();
    for checkpoint in directory::checkpoints(dir).all()? {
        let (position, bytes) = (checkpoint.position, checkpoint.bytes);
        let (log, problem) = match checkpoint.verify() {
            Ok(header) => (Some(header.log), None),
            Err(error @ CheckpointError::Io { .. }) => return Err(error.into()),
            Err(CheckpointError::Archive { source, .. }) => (None, Some(source.to_string())),
            Err(error) => (None, Some(error.to_string())),
        };
        checked.push(CheckedCheckpoint { position, bytes, problem, log });
    }
    Ok(checked)
}

/// A damaged checkpoint costs time, or nothing.
pub(super) fn problems(
    checkpoints: &mut [CheckedCheckpoint],
    of: Option<LogId>,
    problems: &mut Vec<Problem>,
) {
    for checkpoint in checkpoints {
        if of.is_some() && checkpoint.log.is_some_and(|log| Some(log) != of) {
            checkpoint.problem = Some("it is of another log".to_owned());
        }
        let Some(what) = &checkpoint.problem else { continue };
        let cost = "nothing is lost while the view can be read; without it a start takes the \
                    checkpoint before this one, and more of the log";
        let file = format!("{}/{:020}.ckpt", directory::CHECKPOINTS, checkpoint.position.0);
        let problem = Problem::of(ProblemKind::Damaged, &file, what.clone(), cost);
        problems.push(Problem { position: Some(checkpoint.position), ..problem });
    }
}
