//! What copies are made of: the log and the view of an engine that runs, or of one that does not.

use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use postrider_domain::Timestamp;
use postrider_store::archive::{ArchiveError, ArchiveHeader, ArchiveWriter};
use postrider_store::copies::CopyError;
use postrider_store::{
    ArchiveCounts, LogId, LogStore, Mark, Position, SnapshotDir, StoreError, Table, ViewSnapshot,
    directory, log, rebase, writer,
};
use postrider_workspace::snapshots::Rebases;

use crate::engine::hot_states::{self, States};
use crate::engine::key_check;

/// How often reading is begun anew when the log was trimmed meanwhile.
const ATTEMPTS: usize = 3;

/// The data of an engine, to copy from. Its methods block, and hold up no commit.
#[derive(Clone)]
pub struct DataSource {
    store: Arc<LogStore>,
    snapshots: Arc<SnapshotDir>,
}

impl DataSource {
    pub(crate) const fn new(store: Arc<LogStore>, snapshots: Arc<SnapshotDir>) -> Self {
        Self { store, snapshots }
    }

    /// The data in a directory that no engine uses.
    ///
    /// # Errors
    /// [`CopyError`]: the directory is in use, has no data, or cannot be read.
    pub fn stopped(dir: &Path) -> Result<Self, CopyError> {
        let store = directory::open_stopped_log(dir)?;
        let snapshots = directory::snapshots(dir)?;
        Ok(Self::new(Arc::new(store), Arc::new(snapshots)))
    }

    /// The identity of the log.
    #[must_use]
    pub fn log_id(&self) -> LogId {
        self.store.log_id()
    }

    /// Writes everything at the present position as an archive.
    ///
    /// # Errors
    /// [`CopyError`]: the data cannot be read, or `out` failed.
    pub fn write_archive(
        &self,
        time: Option<Timestamp>,
        out: &mut dyn Write,
    ) -> Result<ArchiveCounts, CopyError> {
        let rebases = Rebases::from(rebase::all(&*self.store)?);
        let time = time.map_or_else(|| writer::last_moment(&*self.store), |at| Ok(Some(at)))?;
        let keys = key_check::fingerprints(&*self.store)?;
        let mut attempt = 1;
        let (view, states) = loop {
            match self.at_one_position(rebases.clone()) {
                Ok(found) => break found,
                // Two snapshots may have been taken meanwhile, and the log trimmed to them.
                Err(StoreError::Damaged(_)) if attempt < ATTEMPTS => attempt += 1,
                Err(error) => return Err(error.into()),
            }
        };
        let header = ArchiveHeader {
            log: self.log_id(),
            shard: 0,
            at: view.mark(),
            time_ms: time.unwrap_or_default().as_millis(),
            keys,
            program: env!("CARGO_PKG_VERSION").to_owned(),
        };
        write(&*view, &states, &header, out).map_err(|error| match error {
            WriteError::Archive(ArchiveError::Io(error)) => error.into(),
            WriteError::Archive(error) => CopyError::Io(error.to_string()),
            WriteError::Store(error) => error.into(),
        })
    }

    /// The records, and what actors keep in memory, at the same position.
    fn at_one_position(
        &self,
        rebases: Rebases,
    ) -> Result<(Box<dyn ViewSnapshot>, States), StoreError> {
        let base = self.snapshots.load();
        let base = base.map_err(|error| StoreError::Failed(error.to_string()))?;
        // Afterwards, so that it is not behind the snapshot.
        let view = self.store.snapshot()?;
        let at = view.mark().position;
        let (_, states) = hot_states::fold::<StoreError>(&base, rebases, &|visit| {
            log::replay(&*self.store, base.position, &mut |frame| {
                if frame.number > at {
                    return ControlFlow::Break(());
                }
                visit(&frame);
                ControlFlow::Continue(())
            })?;
            Ok(at)
        })?;
        Ok((view, states))
    }

    /// Writes what was committed after a position as a piece of the log. Returns where it ends.
    ///
    /// # Errors
    /// [`CopyError::Trimmed`] when the log begins later; [`CopyError::Lost`] when it ends before;
    /// others of [`CopyError`].
    pub fn write_log(&self, after: Position, out: &mut dyn Write) -> Result<Mark, CopyError> {
        Ok(self.store.write_piece(after, out)?)
    }
}

enum WriteError {
    Archive(ArchiveError),
    Store(StoreError),
}

impl From<ArchiveError> for WriteError {
    fn from(error: ArchiveError) -> Self {
        Self::Archive(error)
    }
}

impl From<StoreError> for WriteError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

fn write(
    view: &dyn ViewSnapshot,
    states: &States,
    header: &ArchiveHeader,
    out: &mut dyn Write,
) -> Result<ArchiveCounts, WriteError> {
    let mut writer = ArchiveWriter::new(out, header)?;
    let mut tables = Table::ALL.to_vec();
    tables.sort_unstable_by_key(|table| table.number());
    for table in tables {
        let mut after: Option<Vec<u8>> = None;
        loop {
            let page = view.page(table, after.as_deref())?;
            for (key, value) in &page {
                writer.record(table, key, value)?;
            }
            match page.into_iter().next_back() {
                Some((key, _)) => after = Some(key),
                None => break,
            }
        }
    }
    for (workspace, state) in states {
        writer.state(workspace.as_str(), state)?;
    }
    Ok(writer.finish()?)
}
