//! Reads every record.

use std::ops::ControlFlow;
use std::path::Path;

use super::{CheckedView, Problem, ProblemKind, options};
use crate::directory::{DirectoryError, VIEW};
use crate::fjall::FjallView;
use crate::{Direction, MarkedView, StoreError, Table, View};

const COST: &str = "what needs it fails; a start builds the view anew where a whole checkpoint and \
                    the log lead to it, or a log that begins at 1; otherwise restore a backup";

/// Opens the view, if it can be opened.
pub(super) fn open(
    dir: &Path,
    problems: &mut Vec<Problem>,
) -> Result<Option<FjallView>, DirectoryError> {
    let path = dir.join(VIEW);
    if !path.is_dir() {
        problems.push(Problem::of(ProblemKind::Lost, VIEW, "it is missing", COST));
        return Ok(None);
    }
    match FjallView::open_existing(&path, options()) {
        Ok(view) => Ok(Some(view)),
        Err(StoreError::Damaged(what)) => {
            problems.push(Problem::of(ProblemKind::Damaged, VIEW, what, COST));
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// Reads all records of the view.
pub(super) fn read(
    view: &FjallView,
    problems: &mut Vec<Problem>,
) -> Result<CheckedView, DirectoryError> {
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
                problems.push(Problem::of(ProblemKind::Damaged, VIEW, what, COST));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(CheckedView { applied: view.applied()?.position, synced: view.synced()?, records })
}
