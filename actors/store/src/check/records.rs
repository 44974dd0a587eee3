//! Reads every record.

use std::ops::ControlFlow;
use std::path::Path;

use super::{CheckedView, DirectoryCheck, Problem, ProblemKind, options};
use crate::directory::{DirectoryError, STORE, VIEW};
use crate::fjall::{FjallStore, FjallView};
use crate::{Direction, Log, MarkedView, Position, StoreError, Table, View, snapshot};

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
    let records = count(view, VIEW, problems)?;
    Ok(CheckedView { applied: view.applied()?.position, synced: view.synced()?, records })
}

fn count(view: &dyn View, file: &str, problems: &mut Vec<Problem>) -> Result<u64, StoreError> {
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
                problems.push(Problem::of(ProblemKind::Damaged, file, what, COST));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(records)
}

/// Checks a directory of format 1, whose frames and records are in one database.
pub(super) fn of_format_1(dir: &Path) -> Result<DirectoryCheck, DirectoryError> {
    let mut problems = Vec::new();
    let mut view = None;
    match FjallStore::open_existing(&dir.join(STORE), options()) {
        Ok(store) => {
            let records = count(&store, STORE, &mut problems)?;
            let last = store.last_position()?;
            let read = store.read(store.begins_after()?, &mut |_| ControlFlow::Continue(()));
            match read {
                Ok(_) => {}
                Err(StoreError::Damaged(what)) => {
                    problems.push(Problem::of(ProblemKind::Damaged, STORE, what, COST));
                }
                Err(error) => return Err(error.into()),
            }
            view = Some(CheckedView { applied: last, synced: last, records });
        }
        Err(StoreError::Damaged(what)) => {
            problems.push(Problem::of(ProblemKind::Damaged, STORE, what, COST));
        }
        Err(error) => return Err(error.into()),
    }
    let snapshots = snapshot::check(&dir.join("snapshots"))?;
    for generation in &snapshots {
        let Some(what) = &generation.problem else { continue };
        let file = format!("snapshots/{}", generation.name);
        let cost = "nothing is lost: a start takes the one before it";
        let problem = Problem::of(ProblemKind::Damaged, &file, what.clone(), cost);
        let position: Position = generation.position;
        problems.push(Problem { position: Some(position), ..problem });
    }
    let checkpoints = Vec::new();
    Ok(DirectoryCheck { format: 1, log: None, view, checkpoints, snapshots, deep: None, problems })
}
