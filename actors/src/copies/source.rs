//! The source of copies: the log and the view of a running or a stopped engine.

use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use postrider_domain::Timestamp;
use postrider_store::archive::{ArchiveError, ArchiveHeader, WriteArchiveError, write_archive};
use postrider_store::copies::CopyError;
use postrider_store::{
    ArchiveCounts, CheckpointDir, Log as _, LogId, LogStore, Mark, Position, SnapshotDir,
    StoreError, Table, ViewSnapshot, directory, log, rebase, writer,
};
use postrider_workspace::snapshots::{self, Rebases, States};

use crate::engine::master_keys;

/// The bytes of a row of an archive besides its key and its value.
const ROW_BYTES: usize = 7;
/// The number of attempts to read, each after the log was trimmed meanwhile.
const ATTEMPTS: usize = 3;

/// The data of an engine, to copy from. Its methods block, but delay no commit.
#[derive(Clone)]
pub struct DataSource {
    store: Arc<LogStore>,
    snapshots: Arc<SnapshotDir>,
    checkpoints: CheckpointDir,
}

impl DataSource {
    pub(crate) const fn new(
        store: Arc<LogStore>,
        snapshots: Arc<SnapshotDir>,
        checkpoints: CheckpointDir,
    ) -> Self {
        Self { store, snapshots, checkpoints }
    }

    /// Opens the data in a directory that no engine uses.
    ///
    /// # Errors
    /// [`CopyError`]: the directory is in use, has no data, or cannot be read.
    pub fn stopped(dir: &Path) -> Result<Self, CopyError> {
        let store = directory::open_stopped(dir)?;
        let snapshots = directory::snapshots(dir)?;
        let checkpoints = directory::checkpoints(dir);
        Ok(Self::new(Arc::new(store), Arc::new(snapshots), checkpoints))
    }

    /// Returns the identity of the log.
    #[must_use]
    pub fn log_id(&self) -> LogId {
        self.store.log_id()
    }

    /// Returns the log and the records.
    pub(crate) fn store(&self) -> &LogStore {
        &self.store
    }

    /// Returns the log and the records, to share.
    pub(crate) fn shared_store(&self) -> Arc<LogStore> {
        Arc::clone(&self.store)
    }

    /// Returns the directory of the snapshots.
    pub(crate) fn snapshots(&self) -> Arc<SnapshotDir> {
        Arc::clone(&self.snapshots)
    }

    /// Returns the directory of the checkpoints.
    pub(crate) const fn checkpoints(&self) -> &CheckpointDir {
        &self.checkpoints
    }

    /// Returns the minimum number of bytes of an archive of the records. Reads all of them.
    ///
    /// # Errors
    /// [`CopyError`]: the data cannot be read.
    pub fn archive_bytes(&self) -> Result<u64, CopyError> {
        let (view, mut bytes) = (self.store.snapshot()?, 0);
        for &table in Table::ALL {
            let mut after: Option<Vec<u8>> = None;
            loop {
                let page = view.page(table, after.as_deref())?;
                let sizes = page.iter().map(|(key, value)| key.len() + value.len() + ROW_BYTES);
                bytes += sizes.sum::<usize>() as u64;
                match page.into_iter().next_back() {
                    Some((key, _)) => after = Some(key),
                    None => break,
                }
            }
        }
        Ok(bytes)
    }

    /// Returns the approximate number of bytes of the log after a position.
    ///
    /// # Errors
    /// [`CopyError`]: the log cannot be read.
    pub fn log_bytes(&self, after: Position) -> Result<u64, CopyError> {
        Ok(self.store.bytes_after(after)?)
    }

    /// Writes an archive from which the log continues. It is the newest whole checkpoint, or else
    /// everything at the present position.
    ///
    /// # Errors
    /// The errors of [`write_archive`](Self::write_archive).
    pub fn write_base(
        &self,
        time: Option<Timestamp>,
        out: &mut dyn Write,
    ) -> Result<(), CopyError> {
        for checkpoint in self.checkpoints.all()? {
            let is_whole = self.store.leads_on_from(&checkpoint).and_then(|_| checkpoint.verify());
            if let Err(error) = is_whole {
                tracing::warn!(%error, "a checkpoint is passed over");
                continue;
            }
            if checkpoint.copy_to(out)? {
                return Ok(());
            }
        }
        self.write_archive(time, out).map(drop)
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
        self.write_as(time, |header| header, out)
    }

    /// Writes the same as the archive of a shard of a cluster, at a mark of its log.
    ///
    /// # Errors
    /// The errors of [`write_archive`](Self::write_archive).
    pub fn write_shard(
        &self,
        (log, shard, at): (LogId, u16, Mark),
        out: &mut dyn Write,
    ) -> Result<ArchiveCounts, CopyError> {
        self.write_as(None, |header| ArchiveHeader { log, shard, at, ..header }, out)
    }

    fn write_as(
        &self,
        time: Option<Timestamp>,
        described: impl FnOnce(ArchiveHeader) -> ArchiveHeader,
        out: &mut dyn Write,
    ) -> Result<ArchiveCounts, CopyError> {
        let rebases = Rebases::from(rebase::all(&*self.store)?);
        let time = time.map_or_else(|| writer::last_moment(&*self.store), |at| Ok(Some(at)))?;
        let keys = master_keys::fingerprints(&*self.store)?;
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
            shard: self.store.shard()?,
            at: view.mark(),
            time_ms: time.unwrap_or_default().as_millis(),
            keys,
            program: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let header = described(header);
        write_archive(&*view, &states, &header, out).map_err(|error| match error {
            WriteArchiveError::Archive(ArchiveError::Io(error)) => error.into(),
            WriteArchiveError::Archive(error) => CopyError::Io(error.to_string()),
            WriteArchiveError::Store(error) => error.into(),
        })
    }

    /// Returns the records, and the actors' state in memory, at the same position.
    fn at_one_position(
        &self,
        rebases: Rebases,
    ) -> Result<(Box<dyn ViewSnapshot>, States), StoreError> {
        let base = self.snapshots.load();
        let base = base.map_err(|error| StoreError::Failed(error.to_string()))?;
        // Afterwards, so that the view is not behind the snapshot.
        let view = self.store.snapshot()?;
        let at = view.mark().position;
        let folded = snapshots::fold::<StoreError>(&base, rebases, &|visit| {
            log::replay(&*self.store, base.position, &mut |frame| {
                if frame.number > at {
                    return ControlFlow::Break(());
                }
                visit(&frame);
                ControlFlow::Continue(())
            })?;
            Ok(at)
        })?;
        Ok((view, folded.encode()))
    }

    /// Writes the commits after a position as a piece of the log. Returns the mark of its end.
    ///
    /// # Errors
    /// [`CopyError::Trimmed`] if the log starts later; [`CopyError::Lost`] if it ends before; other
    /// errors of [`CopyError`].
    pub fn write_log(&self, after: Position, out: &mut dyn Write) -> Result<Mark, CopyError> {
        Ok(self.store.write_piece(after, out)?)
    }
}
