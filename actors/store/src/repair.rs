//! Repairs a directory whose log is damaged or ends too early, so that a server can start.
//!
//! The state at the last reachable position becomes a snapshot and a view. It comes from the view,
//! from a checkpoint or from a log that starts at 1. A new log starts behind it, with an identity
//! of its own: nothing of the old history matches it. The repair gives up later positions. It keeps
//! the old files beside the new ones, under names that end in `.damaged`.

mod plan;

use std::cell::Cell;
use std::fs::{self, File};
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use postrider_log::{
    Commit, Entry, EntryHash, FileLog, FileOptions, Joiner, LogId, Mark, Start, StoppedLog,
};

use crate::directory::{self, CHECKPOINTS, DirectoryError, LOG, REPAIR, SNAPSHOTS, VIEW, failed};
use crate::fjall::FjallView;
use crate::log_store::encoding;
use crate::snapshot::SnapshotDir;
use crate::{
    Direction, FjallOptions, Frame, Group, Log, MarkedView, Position, Store, StoreError, Table,
    View, Visit,
};
use plan::StateSource;

pub use plan::{Plan, plan};

/// The suffix of the new files.
const NEW: &str = "repair";
/// The suffix of the old files.
const OLD: &str = "damaged";

/// Writes a snapshot of the state at the last salvaged position.
pub type Fold<'a> = &'a dyn Fn(&SnapshotDir, &dyn Store) -> Result<(), DirectoryError>;

/// The reason why a directory was not repaired.
#[derive(Debug, thiserror::Error)]
pub enum RepairError {
    /// It cannot be read or written.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// It has no damage.
    #[error("nothing is damaged: a server can be started on it")]
    NotNeeded,
    /// No state can be reached from the whole parts.
    #[error("it cannot be repaired: {0}; restore a backup")]
    NotPossible(String),
}

impl From<StoreError> for RepairError {
    fn from(error: StoreError) -> Self {
        Self::Directory(error.into())
    }
}

/// The result of a repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repaired {
    /// The last position of the state; the new log starts behind it.
    pub last: Position,
    /// The identity of the new log.
    pub log: LogId,
}

/// The start of the new log.
///
/// A file holds it while names are exchanged, so that the next run continues an interrupted repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct NewLogStart {
    after: Position,
    epoch: u64,
    log: LogId,
}

impl NewLogStart {
    const fn mark(&self) -> Mark {
        Mark { position: self.after, epoch: self.epoch, hash: EntryHash::NONE }
    }

    fn line(&self) -> String {
        let id: String = self.log.0.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{} {} {id}", self.after.0, self.epoch)
    }

    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let (after, epoch) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let id = u128::from_str_radix(words.next()?, 16).ok()?;
        Some(Self { after: Position(after), epoch, log: LogId(id.to_be_bytes()) })
    }

    fn read(dir: &Path) -> Result<Option<Self>, DirectoryError> {
        match fs::read_to_string(dir.join(REPAIR)) {
            Ok(line) => {
                let unclear = || DirectoryError::Unclear("the file `repair` is not whole".into());
                Self::parse(&line).map(Some).ok_or_else(unclear)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(failed("the file `repair` cannot be read", source)),
        }
    }
}

/// Continues a repair that was interrupted while names were exchanged; `None` if there is none.
pub fn go_on(dir: &Path) -> Result<Option<Repaired>, RepairError> {
    NewLogStart::read(dir)?.map(|begins| finish(dir, begins)).transpose()
}

/// Carries a plan out. `log` is random bytes; `fold` writes the snapshot.
///
/// # Errors
/// See [`RepairError`]. The old files are unchanged until the last step.
pub fn carry_out(
    dir: &Path,
    plan: &Plan,
    log: [u8; 16],
    fold: Fold<'_>,
) -> Result<Repaired, RepairError> {
    // These are the files of an unfinished repair.
    for name in [LOG, VIEW, SNAPSHOTS] {
        remove_dir(&dir.join(format!("{name}.{NEW}")))?;
    }
    let begins = NewLogStart { after: plan.last, epoch: plan.epoch, log: LogId(log) };
    let view_dir = if plan.rebuilds_view { format!("{VIEW}.{NEW}") } else { VIEW.to_owned() };
    let view = FjallView::open(&dir.join(&view_dir), FjallOptions::default())?;
    if let Some(checkpoint) = &plan.records {
        checkpoint.load_into::<DirectoryError>(&view, &mut |_| Ok(()))?;
    }
    apply_between(dir, &view, plan.view_after, plan.last)?;
    view.sync()?;
    let salvaged =
        Salvaged { dir: dir.to_owned(), view, last: plan.last, begins_after: plan.begins_after };
    write_snapshot(dir, plan, &salvaged, fold)?;
    if plan.rebuilds_view {
        salvaged.view.begin(begins.log, &begins.mark())?;
    }
    drop(salvaged);
    FjallView::wait_until_closed(&dir.join(&view_dir))?;
    let start = Start { id: begins.log, shard: 0, after: begins.after, epoch: begins.epoch };
    let made = FileLog::open(&dir.join(format!("{LOG}.{NEW}")), FileOptions::default(), start);
    drop(made.map_err(StoreError::from)?);
    directory::put(dir, REPAIR, &begins.line())?;
    finish(dir, begins)
}

/// Writes the snapshot of the kept state, from a snapshot or a checkpoint that is whole.
fn write_snapshot(
    dir: &Path,
    plan: &Plan,
    salvaged: &dyn Store,
    fold: Fold<'_>,
) -> Result<(), RepairError> {
    let new = dir.join(format!("{SNAPSHOTS}.{NEW}"));
    let snapshots = SnapshotDir::open(&new).map_err(DirectoryError::from)?;
    match &plan.states {
        StateSource::None => {}
        StateSource::Snapshot(name) => {
            let copied = copy_dir(&dir.join(SNAPSHOTS).join(name), &new.join(name));
            copied.map_err(|source| failed("a snapshot cannot be copied", source))?;
        }
        StateSource::Checkpoint(checkpoint) => {
            let states = checkpoint.states(&|| false).map_err(DirectoryError::from)?;
            let written = snapshots.write(checkpoint.position, states.into_iter());
            written.map_err(DirectoryError::from)?;
        }
    }
    if plan.last > Position::START {
        fold(&snapshots, salvaged)?;
    }
    Ok(())
}

/// Gives the new files their names, and marks the view. Each step may be repeated.
fn finish(dir: &Path, begins: NewLogStart) -> Result<Repaired, RepairError> {
    exchange(dir, SNAPSHOTS)?;
    exchange(dir, VIEW)?;
    let view = FjallView::open_again(&dir.join(VIEW), FjallOptions::default())?;
    if view.log()? != Some(begins.log) {
        view.begin(begins.log, &begins.mark())?;
    }
    drop(view);
    FjallView::wait_until_closed(&dir.join(VIEW))?;
    // They belong to the old log.
    put_aside(dir, CHECKPOINTS)?;
    exchange(dir, LOG)?;
    let removed = fs::remove_file(dir.join(REPAIR)).and_then(|()| sync_names(dir));
    removed.map_err(|source| failed("the file `repair` cannot be removed", source))?;
    Ok(Repaired { last: begins.after, log: begins.log })
}

/// Replaces the old files by the new ones, if there are any.
fn exchange(dir: &Path, name: &str) -> Result<(), DirectoryError> {
    let (now, new) = (dir.join(name), dir.join(format!("{name}.{NEW}")));
    if !new.exists() {
        return Ok(());
    }
    put_aside(dir, name)?;
    let renamed = fs::rename(&new, &now).and_then(|()| sync_names(dir));
    renamed.map_err(|source| failed(&format!("`{name}.{NEW}` cannot be renamed"), source))
}

/// Renames the old files to keep them, if there are any.
fn put_aside(dir: &Path, name: &str) -> Result<(), DirectoryError> {
    let (now, old) = (dir.join(name), dir.join(format!("{name}.{OLD}")));
    if !now.exists() {
        return Ok(());
    }
    remove_dir(&old)?;
    let renamed = fs::rename(&now, &old).and_then(|()| sync_names(dir));
    renamed.map_err(|source| failed(&format!("`{name}` cannot be put aside"), source))
}

fn sync_names(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

fn remove_dir(path: &Path) -> Result<(), DirectoryError> {
    match fs::remove_dir_all(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(failed(&format!("{} cannot be removed", path.display()), source))
        }
        _ => Ok(()),
    }
}

/// Copies a directory with all its contents.
fn copy_dir(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_dir(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), &to)?;
            File::open(&to)?.sync_all()?;
        }
    }
    sync_names(to)
}

/// The readable part of a damaged directory, as a store without a writer.
///
/// It has the view, and the log up to the last position that is kept.
struct Salvaged {
    dir: PathBuf,
    view: FjallView,
    last: Position,
    /// The position before the first existing frame.
    begins_after: Position,
}

/// Visits the whole commits behind `after`, up to `last`.
fn visit_commits(
    dir: &Path,
    (after, last): (Position, Position),
    visit: &mut dyn FnMut(&Commit) -> Result<ControlFlow<()>, StoreError>,
) -> Result<(), StoreError> {
    let log = StoppedLog::open(&dir.join(LOG))?;
    let (mut joiner, mut outcome) = (Joiner::default(), Ok(()));
    let is_done = Cell::new(false);
    let mut one = |entry: &Entry, _: &str, _| {
        if is_done.get() {
            return;
        }
        is_done.set(entry.header.position >= last);
        // A part without its start belongs to a commit that is given up.
        let joined = joiner.push(entry).ok().flatten();
        let wanted = joined.filter(|it| it.position > after && it.position <= last);
        let Some(commit) = wanted else { return };
        match visit(&commit) {
            Ok(ControlFlow::Continue(())) => {}
            Ok(ControlFlow::Break(())) => is_done.set(true),
            Err(error) => {
                is_done.set(true);
                outcome = Err(error);
            }
        }
    };
    log.inspect_while(&mut one, &|| !is_done.get())?;
    outcome
}

/// Applies the commits behind `after`, up to `last`, to a view.
fn apply_between(
    dir: &Path,
    view: &FjallView,
    after: Position,
    last: Position,
) -> Result<(), StoreError> {
    visit_commits(dir, (after, last), &mut |commit| {
        let at = Mark::of(commit);
        view.apply(&at, &encoding::changes_of(commit)?)?;
        Ok(ControlFlow::Continue(()))
    })
}

fn read_only() -> StoreError {
    StoreError::Failed("it is being repaired".into())
}

impl View for Salvaged {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.view.get(table, key)
    }

    fn scan(
        &self,
        table: Table,
        prefix: &[u8],
        from: Option<&[u8]>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        self.view.scan(table, prefix, from, direction, visit)
    }
}

impl Log for Salvaged {
    fn read(
        &self,
        after: Position,
        visit: &mut dyn FnMut(Frame) -> ControlFlow<()>,
    ) -> Result<Position, StoreError> {
        let mut reached = after;
        let mut flow = ControlFlow::Continue(());
        visit_commits(&self.dir, (after, self.last), &mut |commit| {
            reached = commit.position;
            if let Some(frame) = encoding::frame_of(commit)? {
                flow = visit(frame);
            }
            Ok(flow)
        })?;
        Ok(if flow.is_break() { reached } else { self.last.max(after) })
    }

    fn begins_after(&self) -> Result<Position, StoreError> {
        Ok(self.begins_after)
    }

    fn last_position(&self) -> Result<Position, StoreError> {
        Ok(self.last)
    }

    fn bytes_after(&self, _: Position) -> Result<u64, StoreError> {
        Ok(0)
    }

    fn trim(&self, _: Position) -> Result<(), StoreError> {
        Err(read_only())
    }

    fn reopen(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

impl Store for Salvaged {
    fn commit(&self, _: Group<'_>) -> Result<Position, StoreError> {
        Err(read_only())
    }
}

#[cfg(test)]
mod tests;
