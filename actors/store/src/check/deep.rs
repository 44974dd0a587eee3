//! Rebuilds a view, and compares it with the existing one.
//!
//! It is built from a log that starts at 1, or from the oldest checkpoint and the log behind it. A
//! checkpoint that the log passes must have the records that were built by then.

use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use hashbrown::HashSet;
use postrider_log::{Entry, Joiner, Mark, StoppedLog};

use super::{CheckedCheckpoint, CheckedLog, Problem, ProblemKind, options};
use crate::archive::Row;
use crate::checkpoints::Checkpoint;
use crate::directory::{self, DirectoryError, LOG, VIEW, failed};
use crate::fjall::FjallView;
use crate::log_store::encoding;
use crate::{Direction, MarkedView, Position, StoreError, Table, View};

/// The directory in which it is built.
const BUILT: &str = "view.check";
/// The maximum number of records that are named; the others are counted.
const NAMED_MAX: u64 = 10;

/// The outcome of the comparison with a rebuilt view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deep {
    /// The views were compared.
    Compared {
        /// The number of records in the rebuilt view.
        records: u64,
        /// The number of differing records.
        different: u64,
    },
    /// The comparison is not possible.
    NotPossible(String),
}

/// The view that the log adds up to.
struct BuiltView {
    view: FjallView,
    /// The records that changed behind the mark that the view certainly has.
    ///
    /// The view may or may not have these changes.
    open: HashSet<(Table, Vec<u8>)>,
}

/// Builds a view from the log, or from a checkpoint and the log behind it, and compares it.
///
/// All checkpoints are whole and of the log.
pub(super) fn compare(
    dir: &Path,
    view: &FjallView,
    log: &CheckedLog,
    checked: &mut [CheckedCheckpoint],
    problems: &mut Vec<Problem>,
) -> Result<Deep, DirectoryError> {
    let mut checkpoints = directory::checkpoints(dir).all()?;
    let mut base = None;
    if log.first != Position::START.next() {
        // The oldest one shows most about the log.
        base = checkpoints.pop_if(|oldest| oldest.position.next() >= log.first);
        if base.is_none() {
            let why = format!(
                "the log begins at {}, and no checkpoint has what was before it: that is only in \
                 the view",
                log.first
            );
            return Ok(Deep::NotPossible(why));
        }
    }
    let beside = dir.join(BUILT);
    remove_built(&beside)?;
    let building = Building { dir, checkpoints, checked, synced: view.synced()? };
    let compared = building.build(&beside, base.as_ref()).and_then(|built| {
        problems.extend(checked.iter().filter_map(different_checkpoint));
        let different = report_differences(&built, view, problems)?;
        let mut records = 0;
        for_each_record(&built.view, &mut |_, _, _| {
            records += 1;
            Ok(())
        })?;
        Ok(Deep::Compared { records, different })
    });
    FjallView::wait_until_closed(&beside)?;
    remove_built(&beside)?;
    compared
}

fn remove_built(beside: &Path) -> Result<(), DirectoryError> {
    match fs::remove_dir_all(beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(failed("`view.check` cannot be removed", error))
        }
        _ => Ok(()),
    }
}

struct Building<'a> {
    dir: &'a Path,
    /// The checkpoints that it passes, the newest one first.
    checkpoints: Vec<Checkpoint>,
    /// The list that receives their problems.
    checked: &'a mut [CheckedCheckpoint],
    /// The mark that the view certainly has.
    synced: Position,
}

impl Building<'_> {
    /// Loads the records of the checkpoint, if there is one, and applies the log behind it.
    fn build(
        mut self,
        beside: &Path,
        base: Option<&Checkpoint>,
    ) -> Result<BuiltView, DirectoryError> {
        let mut built =
            BuiltView { view: FjallView::open(beside, options())?, open: HashSet::new() };
        let load =
            |base: &Checkpoint| base.load_into::<DirectoryError>(&built.view, &mut |_| Ok(()));
        let from = base.map(load).transpose()?.unwrap_or_default();
        let stopped = StoppedLog::open(&self.dir.join(LOG)).map_err(StoreError::from)?;
        let (mut joiner, mut outcome) = (Joiner::default(), Ok(()));
        let read = stopped.inspect(&mut |entry, _, _| {
            // An entry that the checkpoint includes may be a part of a commit without its start.
            if outcome.is_ok() && entry.header.position > from.position {
                outcome = self.apply(&mut joiner, entry, &mut built);
            }
        });
        read.map_err(StoreError::from)?;
        outcome?;
        Ok(built)
    }

    fn apply(
        &mut self,
        joiner: &mut Joiner,
        entry: &Entry,
        built: &mut BuiltView,
    ) -> Result<(), DirectoryError> {
        let joined = joiner.push(entry).map_err(|error| StoreError::Damaged(error.to_string()))?;
        let Some(commit) = joined else { return Ok(()) };
        let changes = encoding::changes_of(&commit)?;
        if commit.position > self.synced {
            built.open.extend(changes.iter().map(|it| (it.table, it.key.clone())));
        }
        let at = Mark::of(&commit);
        built.view.apply(&at, &changes)?;
        if let Some(here) = self.checkpoints.pop_if(|next| next.position == at.position) {
            let found = compare_checkpoint(&here, &built.view)?;
            let mut checked = self.checked.iter_mut();
            if let Some(noted) = checked.find(|it| it.position == here.position) {
                noted.problem = found;
            }
        }
        Ok(())
    }
}

/// Describes the difference between a checkpoint and the view built up to its position.
fn compare_checkpoint(
    checkpoint: &Checkpoint,
    built: &FjallView,
) -> Result<Option<String>, DirectoryError> {
    let (mut records, mut different) = (0_u64, 0_u64);
    checkpoint.read::<DirectoryError>(&mut |_, rows, _| {
        for row in rows {
            let Row::Record(table, key, value) = row else { continue };
            records += 1;
            different += u64::from(built.get(table, &key)?.as_deref() != Some(&value[..]));
        }
        Ok(())
    })?;
    let mut expected = 0_u64;
    for_each_record(built, &mut |_, _, _| {
        expected += 1;
        Ok(())
    })?;
    let missing = expected.saturating_sub(records - different);
    let what = format!(
        "{different} of its {records} records are not what the log says, and {missing} that the \
         log says are not among the others"
    );
    Ok((different + missing > 0).then_some(what))
}

/// Returns the problem of a checkpoint that differs. All were whole before.
fn different_checkpoint(checkpoint: &CheckedCheckpoint) -> Option<Problem> {
    let cost = "a view that is built of it is wrong: remove it while the view can be read";
    let (file, what) = (checkpoint.file(), checkpoint.problem.clone()?);
    let problem = Problem::of(ProblemKind::Damaged, &file, what, cost);
    Some(Problem { position: Some(checkpoint.position), ..problem })
}

/// Compares in both directions. Returns the number of differing records.
fn report_differences(
    built: &BuiltView,
    view: &FjallView,
    problems: &mut Vec<Problem>,
) -> Result<u64, StoreError> {
    let mut different = 0;
    let mut report = |table: Table, key: &[u8], what: &str| {
        if built.open.contains(&(table, key.to_vec())) {
            return;
        }
        different += 1;
        if different <= NAMED_MAX {
            let key = String::from_utf8_lossy(key).escape_debug().to_string();
            let what = format!("the record `{key}` of the table {} {what}", table.name());
            let cost = "it is not what was committed; restore a backup, or `postrider repair` \
                        builds the view anew";
            problems.push(Problem::of(ProblemKind::Damaged, VIEW, what, cost));
        }
    };
    for_each_record(&built.view, &mut |table, key, value| {
        match view.get(table, key)? {
            Some(there) if there == value => {}
            Some(_) => report(table, key, "is not what the log says"),
            None => report(table, key, "is missing"),
        }
        Ok(())
    })?;
    for_each_record(view, &mut |table, key, _| {
        if built.view.value_bytes(table, key)?.is_none() {
            report(table, key, "is not of the log");
        }
        Ok(())
    })?;
    Ok(different)
}

type VisitRecord<'a> = &'a mut dyn FnMut(Table, &[u8], &[u8]) -> Result<(), StoreError>;

fn for_each_record(view: &FjallView, visit: VisitRecord<'_>) -> Result<(), StoreError> {
    for &table in Table::ALL {
        let mut outcome = Ok(());
        view.scan(table, &[], None, Direction::Forward, &mut |key, value| {
            outcome = visit(table, key, value);
            if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        outcome?;
    }
    Ok(())
}
