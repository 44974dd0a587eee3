//! A backup of a cluster: for each shard a checkpoint, the log behind it and the contents of files.
//!
//! Each shard has a directory in the form that `postrider backup` writes. `postrider restore` turns
//! all of them, or one, into the data of a single node.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use postrider_actors::copies::{
    BackupDir, CopiedContents, CopyError, ShardList, copy_contents, write_file,
};
use postrider_actors::store::directory::MEDIA;
use postrider_actors::store::postrider_log::{Log as _, LogId, Mark, Position, write_piece};
use postrider_actors::store::{ArchiveHeader, ArchiveWriter};
use postrider_cluster::checkpoints::{CheckpointRecord, CheckpointsError};
use postrider_cluster::copies::{ShardCopy, shard_copies};
use postrider_cluster::nats::{FilesOf, NatsFiles};
use postrider_cluster::open_files;

use super::contents::ShardContents;
use super::error::ClusterError;
use super::made::{access, master_keys, token};
use super::peers::Peers;
use crate::settings::Settings;

#[cfg(test)]
mod tests;

/// The temporary file for an object that is fetched from NATS.
const FETCHED: &str = "fetched.part";

/// The result of copying one shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardBackup {
    /// The shard.
    pub shard: u16,
    /// The last position that the backup has.
    pub position: u64,
    /// The bytes that were added to it.
    pub bytes: u64,
    /// The contents of files.
    pub contents: CopiedContents,
}

/// Backs up all shards of the cluster of the settings below a directory.
///
/// An earlier backup there is extended. Nodes may run.
///
/// # Errors
/// [`ClusterError`]: the cluster cannot be read, or a directory cannot be written. The shards
/// before the named one have their backups.
pub async fn backup_cluster(
    settings: &Settings,
    to: &Path,
) -> Result<Vec<ShardBackup>, ClusterError> {
    let keys = master_keys(settings).ok_or(ClusterError::NoServers)?;
    let access = access(settings, &keys)?;
    let (peers, to) = (Peers::new(token(&keys), &settings.cluster)?, to.to_owned());
    let copied = tokio::task::spawn_blocking(move || {
        let (shards, files) = (shard_copies(&access, &peers)?, Arc::new(open_files(&access)?));
        let mut copied = Vec::new();
        for shard in shards {
            let error = |error| ClusterError::Copy { shard: shard.shard, error };
            let dir = ShardList::directory(&to, shard.shard);
            let mut backup = copy(&shard, &dir).map_err(error)?;
            backup.contents = contents(&files, shard.shard, &dir).map_err(error)?;
            copied.push(backup);
        }
        // Shards are never more than a u16 counts.
        ShardList::of(u16::try_from(copied.len()).unwrap_or(u16::MAX)).write(&to)?;
        Ok(copied)
    });
    copied.await?
}

/// Copies the missing contents of files.
///
/// It runs after the records were copied, because a content is stored before a record names it.
fn contents(files: &Arc<NatsFiles>, shard: u16, dir: &Path) -> Result<CopiedContents, CopyError> {
    // Reads need no epoch of an owner.
    let of = FilesOf { shard, epoch: 0 };
    let from = ShardContents { stored: files.clone(), of, through: dir.join(FETCHED) };
    copy_contents(&from, &dir.join(MEDIA))
}

/// Copies a shard whose log may be trimmed, and whose checkpoints may be replaced, meanwhile.
fn copy(shard: &ShardCopy, dir: &Path) -> Result<ShardBackup, CopyError> {
    let mut backup = BackupDir::open(dir)?;
    let mut newest = None;
    loop {
        match copy_once(&mut backup, shard, dir) {
            Ok(()) => break,
            Err(error @ (CopyError::Trimmed(_) | CopyError::Lost(_))) => {
                // A newer checkpoint may have replaced the missing one. If not, it is lost.
                let before = std::mem::replace(&mut newest, newest_of(shard)?);
                if newest.is_none() || newest == before {
                    return Err(error);
                }
            }
            Err(error) => return Err(error),
        }
    }
    let position = backup.end().map_or(0, |(_, end)| end.position.0);
    let (bytes, contents) = (backup.copied_bytes(), CopiedContents::default());
    Ok(ShardBackup { shard: shard.shard, position, bytes, contents })
}

/// Returns the newest checkpoint.
fn newest_of(shard: &ShardCopy) -> Result<Option<CheckpointRecord>, CopyError> {
    let listed = shard.checkpoints.list().map_err(|error| CopyError::Io(error.to_string()))?;
    Ok(listed.into_iter().next())
}

fn copy_once(backup: &mut BackupDir, shard: &ShardCopy, dir: &Path) -> Result<(), CopyError> {
    let has_followed = match follow(backup, shard) {
        Ok(has_followed) => has_followed,
        // The log lacks the entries that would follow: the backup starts again, with a gap.
        Err(CopyError::Trimmed(_)) => false,
        Err(error) => return Err(error),
    };
    if !has_followed {
        backup.add_archive(|out| base(shard, dir, out))?;
        follow(backup, shard)?;
    }
    Ok(())
}

/// Adds what follows the end of the backup. Returns whether it has one.
fn follow(backup: &mut BackupDir, shard: &ShardCopy) -> Result<bool, CopyError> {
    let Some((log, end)) = backup.end() else { return Ok(false) };
    if log != shard.log.id() {
        let what =
            "the directory has the backup of another cluster or shard; give it its own place";
        return Err(CopyError::NotEmpty(what.to_owned()));
    }
    backup.add_piece(|out| Ok(write_piece(&shard.log, end.position, out).map(drop)?))?;
    Ok(true)
}

/// Writes the newest complete checkpoint, or an empty archive if the log starts at 1.
fn base(shard: &ShardCopy, dir: &Path, out: &mut dyn Write) -> Result<(), CopyError> {
    let failed = |error: &dyn std::fmt::Display| CopyError::Io(error.to_string());
    let fetched = dir.join(FETCHED);
    for record in shard.checkpoints.list().map_err(|error| failed(&error))? {
        match shard.checkpoints.fetch(&record, &fetched, &|| false) {
            Ok(()) => {
                let copied = File::open(&fetched).and_then(|mut file| io::copy(&mut file, out));
                let removed = std::fs::remove_file(&fetched);
                copied.and(removed.map(|()| 0)).map_err(|error| failed(&error))?;
                return Ok(());
            }
            Err(error @ (CheckpointsError::Failed(_) | CheckpointsError::Slow(_))) => {
                return Err(failed(&error));
            }
            Err(error) => tracing::warn!(shard = shard.shard, %error, "passed over"),
        }
    }
    let tail = shard.log.tail().map_err(|error| failed(&error))?;
    if tail.first > Position::START.next() {
        let what = format!("no whole checkpoint leads to the log, which begins at {}", tail.first);
        return Err(CopyError::Lost(what));
    }
    write_nothing(shard.log.id(), shard.shard, out)
}

/// Writes an empty archive, which is continued by a log that starts at 1.
fn write_nothing(log: LogId, shard: u16, out: &mut dyn Write) -> Result<(), CopyError> {
    let header = ArchiveHeader {
        log,
        shard,
        at: Mark::default(),
        time_ms: 0,
        keys: Vec::new(),
        program: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let written = ArchiveWriter::new(out, &header).and_then(ArchiveWriter::finish);
    written.map(drop).map_err(|error| CopyError::Io(error.to_string()))
}

/// Writes an empty archive to a file.
pub(super) fn nothing(log: LogId, shard: u16, to: &Path) -> Result<(), CopyError> {
    write_file(to, |out| write_nothing(log, shard, out), |_| Ok(())).map(drop)
}
