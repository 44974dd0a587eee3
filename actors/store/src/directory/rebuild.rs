//! Rebuilds a view that is missing, damaged, or not of the log.
//!
//! It is built from the newest whole checkpoint and the log behind it, or from a log that starts at
//! 1, in a directory beside. Then the old one is put aside as `view.bad`, the new one takes its
//! name, and `view.bad` is removed. After a crash, the next start repeats the rebuild or finds it
//! done.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use postrider_log::{
    FileLog, FileOptions, Log, LogError, LogId, Mark, Start, Witness, check_witness, read_commits,
};
use tokio::sync::watch;

use super::{CHECKPOINTS, DirectoryError, DirectoryOptions, LOG, SNAPSHOTS, VIEW, failed};
use crate::checkpoints::{Checkpoint, CheckpointDir, CheckpointError};
use crate::fjall::FjallView;
use crate::log_store::LogStore;
use crate::log_store::recovery::apply;
use crate::view::MarkedView;
use crate::whole_file::sync_dir;
use crate::{Direction, FjallOptions, Position, StoreError, Table, View, snapshot};

#[cfg(test)]
use tests::step;

/// The directory in which a view is built.
const BUILT: &str = "view.rebuild";
/// The name of the unusable view, until the new one has its name.
const BAD: &str = "view.bad";
/// The bytes after which the progress is reported.
const REPORTED_EVERY: u64 = 1 << 20;

/// The steps at which tests simulate a crash.
#[cfg(test)]
pub(super) const STEPS: [&str; 4] = ["built", "aside", "named", "removed"];

/// The amount that has been read of a view's sources, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// The bytes that have been read.
    pub done: u64,
    /// The approximate total.
    pub total: u64,
}

/// Reports the rebuild of a view to the callers that wait for it. Clones report the same.
#[derive(Debug, Clone)]
pub struct Rebuilding(Arc<watch::Sender<Option<Progress>>>);

impl Default for Rebuilding {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(None)))
    }
}

impl Rebuilding {
    /// Returns the progress; `None` while no view is rebuilt.
    #[must_use]
    pub fn progress(&self) -> Option<Progress> {
        *self.0.borrow()
    }

    /// Waits until a rebuild starts.
    pub async fn begun(&self) {
        let mut progress = self.0.subscribe();
        // The sender exists, so there is no error.
        progress.wait_for(Option::is_some).await.ok();
    }

    pub(crate) fn report(&self, progress: Option<Progress>) {
        self.0.send_replace(progress);
    }
}

/// Reports the progress now and then.
struct ProgressReporter<'a> {
    rebuilding: &'a Rebuilding,
    progress: Progress,
    last: u64,
}

impl ProgressReporter<'_> {
    fn begin(&mut self, total: u64) {
        self.progress = Progress { done: 0, total };
        self.last = 0;
        self.rebuilding.report(Some(self.progress));
    }

    fn add(&mut self, bytes: u64) {
        self.reach(self.progress.done + bytes);
    }

    fn reach(&mut self, done: u64) {
        // The bytes of an entry besides its body are not counted.
        self.progress.done = done.min(self.progress.total);
        if done >= self.last + REPORTED_EVERY {
            self.last = done;
            self.rebuilding.report(Some(self.progress));
        }
    }
}

/// Opens the store with the opened view, or rebuilds the view.
pub(super) fn open_or_rebuild(
    dir: &Path,
    options: &DirectoryOptions,
    view: Result<FjallView, StoreError>,
    rebuilding: &Rebuilding,
) -> Result<LogStore, DirectoryError> {
    remove_attempt(dir)?;
    let acknowledged = match &view {
        Ok(view) => view.applied()?.position,
        Err(StoreError::Damaged(_)) => acknowledged_without_view(dir)?,
        Err(error) => return Err(error.clone().into()),
    };
    let log = open_log(dir, options, acknowledged)?;
    let why = match &view {
        Ok(view) => misfit(&log, view)?,
        Err(error) => Some(error.to_string()),
    };
    let view = match (view, why) {
        (Ok(view), None) => view,
        (view, why) => {
            if view.is_ok() {
                drop(view);
                FjallView::wait_until_closed(&dir.join(VIEW))?;
            }
            let why = why.unwrap_or_default();
            rebuild(dir, &log, options.view, rebuilding, &why)?;
            FjallView::open_again(&dir.join(VIEW), options.view)?
        }
    };
    Ok(LogStore::open(Arc::new(log), Arc::new(view), options.writes.clone())?)
}

/// Reads every record of the view, and rebuilds it if one cannot be read.
///
/// Returns whether it did. The directory must not be in use.
pub(super) fn rebuild_if_unreadable(
    dir: &Path,
    options: &DirectoryOptions,
    rebuilding: &Rebuilding,
) -> Result<bool, DirectoryError> {
    let opened = FjallView::open_again(&dir.join(VIEW), options.view);
    let (why, acknowledged) = match opened {
        Ok(view) => (unreadable(&view)?, view.applied()?.position),
        Err(error @ StoreError::Damaged(_)) => {
            (Some(error.to_string()), acknowledged_without_view(dir)?)
        }
        Err(error) => return Err(error.into()),
    };
    FjallView::wait_until_closed(&dir.join(VIEW))?;
    let Some(why) = why else { return Ok(false) };
    let log = open_log(dir, options, acknowledged)?;
    rebuild(dir, &log, options.view, rebuilding, &why)?;
    Ok(true)
}

/// Returns the reason why a record of a view cannot be read, if there is one.
fn unreadable(view: &FjallView) -> Result<Option<String>, StoreError> {
    for &table in Table::ALL {
        let read =
            view.scan(table, &[], None, Direction::Forward, &mut |_, _| ControlFlow::Continue(()));
        match read {
            Ok(()) => {}
            Err(error @ StoreError::Damaged(_)) => return Ok(Some(error.to_string())),
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Opens the log of a directory.
pub(super) fn open_log(
    dir: &Path,
    options: &DirectoryOptions,
    acknowledged: Position,
) -> Result<FileLog, StoreError> {
    let files = FileOptions {
        segment_bytes: options.segment_bytes,
        acknowledged,
        ..FileOptions::default()
    };
    let start = Start::new(LogId(options.log_id));
    Ok(FileLog::open(&dir.join(LOG), files, start)?)
}

/// Returns the last position that was certainly acknowledged, without the view.
fn acknowledged_without_view(dir: &Path) -> Result<Position, DirectoryError> {
    let checkpoints = CheckpointDir::at(&dir.join(CHECKPOINTS)).all()?;
    let checkpoint = checkpoints.first().map(|newest| newest.position);
    let snapshot = snapshot::newest_position(&dir.join(SNAPSHOTS))?;
    Ok(checkpoint.max(snapshot).unwrap_or(Position::START))
}

/// Returns the reason why a view does not belong to this log, or the log does not continue from it.
fn misfit(log: &FileLog, view: &FjallView) -> Result<Option<String>, StoreError> {
    if view.log()?.is_some_and(|of| of != log.id()) {
        return Ok(Some("the view is of another log".into()));
    }
    let at = view.applied()?;
    match check_witness(log, &at) {
        Ok(Witness::Fits) => {}
        Ok(Witness::OtherHistory) => {
            let at = at.position;
            let what = format!("the log has another entry at {at} than the view was made of");
            return Ok(Some(what));
        }
        Err(LogError::Trimmed { first, .. }) => {
            return Ok(Some(ends_too_early(at.position, first)));
        }
        Err(error) => return Err(error.into()),
    }
    let (synced, first) = (view.synced()?, log.tail()?.first);
    Ok((synced.next() < first).then(|| ends_too_early(synced, first)))
}

fn ends_too_early(at: Position, first: Position) -> String {
    format!("the view ends at {at}, and the log begins at {first}")
}

/// Builds it from the first checkpoint that is whole, the newest one first.
fn rebuild(
    dir: &Path,
    log: &FileLog,
    options: FjallOptions,
    rebuilding: &Rebuilding,
    why: &str,
) -> Result<(), DirectoryError> {
    let mut reporter = ProgressReporter { rebuilding, progress: Progress::default(), last: 0 };
    reporter.begin(log.bytes_after(Position::START).map_err(StoreError::from)?);
    let rebuilt = rebuild_from_any(dir, log, options, &mut reporter, why);
    rebuilding.report(None);
    rebuilt
}

fn rebuild_from_any(
    dir: &Path,
    log: &FileLog,
    options: FjallOptions,
    reporter: &mut ProgressReporter<'_>,
    why: &str,
) -> Result<(), DirectoryError> {
    tracing::warn!(why, "the view cannot be used and is built anew");
    let mut passed = Vec::new();
    for checkpoint in CheckpointDir::at(&dir.join(CHECKPOINTS)).all()? {
        match build(dir, log, options, Some(&checkpoint), reporter) {
            Ok(()) => return exchange(dir),
            Err(DirectoryError::Checkpoint(error @ CheckpointError::Io { .. })) => {
                return Err(error.into());
            }
            Err(DirectoryError::Checkpoint(error)) => {
                tracing::warn!(%error, "a checkpoint cannot be used and is passed over");
                passed.push(error.to_string());
            }
            Err(error) => return Err(error),
        }
    }
    let first = log.tail().map_err(StoreError::from)?.first;
    if first == Position::START.next() {
        build(dir, log, options, None, reporter)?;
        return exchange(dir);
    }
    remove_dir(&dir.join(BUILT))?;
    let passed =
        if passed.is_empty() { String::new() } else { format!(" ({})", passed.join("; ")) };
    let what = format!(
        "{why}; it cannot be built anew: there is no whole checkpoint{passed}, and the log begins \
         at {first}, so what positions 1 to {} left is lost; `postrider restore` makes a directory \
         of a backup",
        first.previous()
    );
    Err(StoreError::Damaged(what).into())
}

/// Builds a view from a checkpoint and the log behind it, and closes it.
fn build(
    dir: &Path,
    log: &FileLog,
    options: FjallOptions,
    from: Option<&Checkpoint>,
    reporter: &mut ProgressReporter<'_>,
) -> Result<(), DirectoryError> {
    let built = dir.join(BUILT);
    remove_dir(&built)?;
    let view = FjallView::open(&built, options)?;
    let loaded = fill_view(log, &view, from, reporter);
    drop(view);
    FjallView::wait_until_closed(&built)?;
    loaded?;
    step("built")
}

fn fill_view(
    log: &FileLog,
    view: &FjallView,
    from: Option<&Checkpoint>,
    reporter: &mut ProgressReporter<'_>,
) -> Result<(), DirectoryError> {
    let at = match from {
        None => Mark::default(),
        Some(checkpoint) => load(log, view, checkpoint, reporter)?,
    };
    view.begin(log.id(), &at)?;
    let mut failed = None;
    let read = read_commits(log, at.position.next(), &mut |commit| match apply(view, &commit) {
        Ok(()) => {
            reporter.add(commit.body.len() as u64);
            ControlFlow::Continue(())
        }
        Err(error) => {
            failed = Some(error);
            ControlFlow::Break(())
        }
    });
    read.map_err(StoreError::from)?;
    failed.map_or(Ok(()), Err)?;
    let synced = view.sync()?;
    tracing::info!(from = at.position.0, to = synced.0, "the view was built anew");
    Ok(())
}

/// Loads the records of a checkpoint into a view, if the log continues from it.
fn load(
    log: &FileLog,
    view: &FjallView,
    checkpoint: &Checkpoint,
    reporter: &mut ProgressReporter<'_>,
) -> Result<Mark, DirectoryError> {
    let at = checkpoint.must_lead_to(log)?;
    reporter.begin(checkpoint.bytes + log.bytes_after(at.position).map_err(StoreError::from)?);
    checkpoint.load_into(view, &mut |read| {
        reporter.reach(read);
        Ok(())
    })
}

/// Gives the built view its name.
fn exchange(dir: &Path) -> Result<(), DirectoryError> {
    let (view, bad) = (dir.join(VIEW), dir.join(BAD));
    remove_dir(&bad)?;
    if view.exists() {
        let renamed = fs::rename(&view, &bad).and_then(|()| sync_dir(dir));
        renamed.map_err(|source| failed("the damaged view cannot be put aside", source))?;
    }
    step("aside")?;
    let renamed = fs::rename(dir.join(BUILT), &view).and_then(|()| sync_dir(dir));
    renamed.map_err(|source| failed("the view that was built cannot be renamed", source))?;
    step("named")?;
    remove_dir(&bad)?;
    step("removed")
}

/// Removes the unfinished view of a crash. The old view stays until there is a new one.
fn remove_attempt(dir: &Path) -> Result<(), DirectoryError> {
    remove_dir(&dir.join(BUILT))?;
    if dir.join(VIEW).is_dir() { remove_dir(&dir.join(BAD)) } else { Ok(()) }
}

fn remove_dir(path: &Path) -> Result<(), DirectoryError> {
    match fs::remove_dir_all(path) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            Err(failed(&format!("{} cannot be removed", path.display()), source))
        }
        _ => Ok(()),
    }
}

/// Ends a step. Tests end the rebuild here.
#[cfg(not(test))]
#[expect(clippy::unnecessary_wraps, reason = "a test has it fail")]
const fn step(_name: &'static str) -> Result<(), DirectoryError> {
    Ok(())
}

#[cfg(test)]
mod tests;
