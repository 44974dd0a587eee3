//! A view is built anew from the whole log, and compared with the one that is there.

use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use hashbrown::HashSet;
use postrider_log::{Entry, Joiner, Mark, StoppedLog};

use super::{CheckedLog, Problem, ProblemKind, options};
use crate::directory::{DirectoryError, LOG, VIEW, failed};
use crate::fjall::FjallView;
use crate::log_store::decode;
use crate::{Direction, MarkedView, Position, StoreError, Table, View};

/// Where it is built.
const BUILT: &str = "view.check";
/// Most records that are named; the others are counted.
const NAMED_MAX: u64 = 10;

/// What the comparison with a view built anew came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deep {
    /// It was made.
    Compared {
        /// How many records the view that was built anew has.
        records: u64,
        /// How many records differ.
        different: u64,
    },
    /// It cannot be made.
    NotPossible(String),
}

/// What the log adds up to.
struct Built {
    view: FjallView,
    /// What was changed behind the mark that the view surely has: it may have that or not.
    open: HashSet<(Table, Vec<u8>)>,
}

/// Builds a view of the log and compares it with `view`.
pub(super) fn compare(
    dir: &Path,
    view: &FjallView,
    log: &CheckedLog,
    problems: &mut Vec<Problem>,
) -> Result<Deep, DirectoryError> {
    if log.first != Position::START.next() {
        let why =
            format!("the log begins at {}: what was before it is only in the view", log.first);
        return Ok(Deep::NotPossible(why));
    }
    let beside = dir.join(BUILT);
    remove(&beside)?;
    let compared = build(dir, &beside, view.synced()?).and_then(|built| {
        let different = differences(&built, view, problems)?;
        let mut records = 0;
        each(&built.view, &mut |_, _, _| {
            records += 1;
            Ok(())
        })?;
        Ok(Deep::Compared { records, different })
    });
    FjallView::wait_until_closed(&beside)?;
    remove(&beside)?;
    Ok(compared?)
}

fn remove(beside: &Path) -> Result<(), DirectoryError> {
    match fs::remove_dir_all(beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(failed("`view.check` cannot be removed", error))
        }
        _ => Ok(()),
    }
}

/// Applies the whole log.
fn build(dir: &Path, beside: &Path, synced: Position) -> Result<Built, StoreError> {
    let view = FjallView::open(beside, options())?;
    let stopped = StoppedLog::open(&dir.join(LOG))?;
    let (mut joiner, mut open, mut outcome) = (Joiner::default(), HashSet::new(), Ok(()));
    let mut apply = |entry: &Entry| {
        let joined = joiner.push(entry).map_err(|error| StoreError::Damaged(error.to_string()))?;
        let Some(commit) = joined else { return Ok(()) };
        let changes = decode::changes_of(&commit)?;
        if commit.position > synced {
            open.extend(changes.iter().map(|it| (it.table, it.key.clone())));
        }
        let at = Mark { position: commit.position, epoch: commit.epoch, hash: commit.hash };
        view.apply(&at, &changes)
    };
    stopped.inspect(&mut |entry, _, _| {
        if outcome.is_ok() {
            outcome = apply(entry);
        }
    })?;
    outcome?;
    Ok(Built { view, open })
}

/// Compares in both directions. Returns how many records differ.
fn differences(
    built: &Built,
    view: &FjallView,
    problems: &mut Vec<Problem>,
) -> Result<u64, StoreError> {
    let mut different = 0;
    let mut tell = |table: Table, key: &[u8], what: &str| {
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
    each(&built.view, &mut |table, key, value| {
        match view.get(table, key)? {
            Some(there) if there == value => {}
            Some(_) => tell(table, key, "is not what the log says"),
            None => tell(table, key, "is missing"),
        }
        Ok(())
    })?;
    each(view, &mut |table, key, _| {
        if built.view.value_bytes(table, key)?.is_none() {
            tell(table, key, "is not of the log");
        }
        Ok(())
    })?;
    Ok(different)
}

type Each<'a> = &'a mut dyn FnMut(Table, &[u8], &[u8]) -> Result<(), StoreError>;

fn each(view: &FjallView, visit: Each<'_>) -> Result<(), StoreError> {
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
