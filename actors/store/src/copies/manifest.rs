//! The lists of a backup: of its files, with a SHA-256 of each, and of a cluster's shards.

use std::fs;
use std::path::{Path, PathBuf};

use postrider_log::{EntryHash, LogId, Mark};
use serde::{Deserialize, Serialize};

use super::{CopyError, Written, write_file};
use crate::Position;

/// The name of the list of files.
pub(super) const MANIFEST: &str = "manifest.json";
/// The format of the list and of the files that it names. The reader refuses every other format.
const FORMAT: u32 = 1;
/// The name of the list of a cluster's shards.
const CLUSTER_LIST: &str = "cluster.json";
/// The format of the list that is written, and the highest one that is read.
const CLUSTER_FORMAT: u32 = 1;

/// The list of files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    format: u32,
    /// The identity of the log, in hexadecimal digits.
    log_id: String,
    /// The archives, each with everything at one position.
    pub(super) archives: Vec<BackupFile>,
    /// The pieces of the log, each with the commits after a position, up to another.
    pub(super) log: Vec<BackupFile>,
}

/// A file of the backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BackupFile {
    pub(super) file: String,
    /// The position that it follows; an archive has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) after: Option<u64>,
    /// The position that it ends with.
    pub(super) position: u64,
    epoch: u64,
    hash: String,
    pub(super) bytes: u64,
    pub(super) sha256: String,
}

impl BackupFile {
    pub(super) fn new(file: String, after: Option<Position>, end: &Mark, written: Written) -> Self {
        Self {
            file,
            after: after.map(|after| after.0),
            position: end.position.0,
            epoch: end.epoch,
            hash: hex(&end.hash.0),
            bytes: written.bytes,
            sha256: written.sha256,
        }
    }

    /// Returns whether it names a file beside the list, and its positions ascend.
    fn is_sound(&self) -> bool {
        let goes_on = self.after.is_none_or(|after| after < self.position);
        goes_on && self.end().is_some() && !self.file.contains('/')
    }

    /// Returns the mark that it ends with.
    pub(super) fn end(&self) -> Option<Mark> {
        let hash = EntryHash(unhex(&self.hash)?);
        Some(Mark { position: Position(self.position), epoch: self.epoch, hash })
    }
}

impl Manifest {
    pub(super) fn new(log: LogId) -> Self {
        Self { format: FORMAT, log_id: hex(&log.0), archives: Vec::new(), log: Vec::new() }
    }

    /// Reads the list of a backup; `None` if there is none.
    pub(super) fn read(dir: &Path) -> Result<Option<Self>, CopyError> {
        let path = dir.join(MANIFEST);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(CopyError::io(&path, &error)),
        };
        #[derive(Deserialize)]
        struct Version {
            format: u32,
        }
        let path = path.display();
        if let Ok(Version { format }) = serde_json::from_slice(&text)
            && format > FORMAT
        {
            let what = format!("{path} has format {format}; this version knows up to {FORMAT}");
            return Err(CopyError::NewerFormat(what));
        }
        let damaged = |what: String| CopyError::Damaged(format!("{path} is damaged: {what}"));
        let read: Self =
            serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
        let mut parts = read.archives.iter().chain(&read.log);
        let is_sound = read.format == FORMAT
            && unhex::<16>(&read.log_id).is_some()
            && parts.all(BackupFile::is_sound);
        if !is_sound {
            return Err(damaged("a value is not what was written".into()));
        }
        Ok(Some(read))
    }

    /// Writes the list in place of the previous one.
    pub(super) fn write(&self, dir: &Path) -> Result<(), CopyError> {
        let path = dir.join(MANIFEST);
        let text = serde_json::to_vec_pretty(self);
        let text = text.map_err(|error| CopyError::Io(error.to_string()))?;
        let put = |out: &mut dyn std::io::Write| {
            out.write_all(&text).map_err(|error| CopyError::io(&path, &error))
        };
        write_file(&path, put, |_| Ok(())).map(drop)
    }

    /// Returns its log.
    pub(super) fn log_id(&self) -> LogId {
        // It was checked when it was read.
        LogId(unhex(&self.log_id).unwrap_or_default())
    }

    /// Returns the mark that it reaches.
    pub(super) fn end(&self) -> Option<Mark> {
        let parts = self.archives.iter().chain(&self.log);
        parts.filter_map(BackupFile::end).max_by_key(|mark| mark.position)
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut out = [0; N];
    if text.len() != 2 * N || !text.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
    {
        return None;
    }
    for (byte, digits) in out.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(out)
}

/// The list of a cluster's backup: the number of shards.
///
/// It is written after all their backups.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardList {
    format: u32,
    /// The number of shards.
    pub shards: u16,
}

impl ShardList {
    /// Returns the list of all shards of a cluster.
    #[must_use]
    pub const fn of(shards: u16) -> Self {
        Self { format: CLUSTER_FORMAT, shards }
    }

    /// Returns the directory of a shard's backup.
    #[must_use]
    pub fn directory(dir: &Path, shard: u16) -> PathBuf {
        dir.join(format!("shard-{shard:03}"))
    }

    /// Returns whether this is the directory of a cluster's backup, whole or not.
    #[must_use]
    pub fn is_of_cluster(dir: &Path) -> bool {
        dir.join(CLUSTER_LIST).exists() || Self::directory(dir, 0).exists()
    }

    /// Reads the list of a backup.
    ///
    /// # Errors
    /// [`CopyError::Damaged`] if it is missing: the first backup was not completed.
    pub fn read(dir: &Path) -> Result<Self, CopyError> {
        let path = dir.join(CLUSTER_LIST);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let what = "the backup of the cluster did not come to its end; back it up again, \
                            or restore the shards that are there, each for itself";
                return Err(CopyError::Damaged(format!("{} is not there: {what}", path.display())));
            }
            Err(error) => return Err(CopyError::io(&path, &error)),
        };
        let path = path.display();
        let damaged = |what: String| CopyError::Damaged(format!("{path} is damaged: {what}"));
        let list: Self =
            serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
        match list.format {
            CLUSTER_FORMAT if list.shards > 0 => Ok(list),
            format if format > CLUSTER_FORMAT => {
                let what = format!(
                    "{path} has format {format}; this version knows up to {CLUSTER_FORMAT}"
                );
                Err(CopyError::NewerFormat(what))
            }
            _ => Err(damaged("a value is not what was written".into())),
        }
    }

    /// Writes the list in place of the previous one.
    pub fn write(&self, dir: &Path) -> Result<(), CopyError> {
        let path = dir.join(CLUSTER_LIST);
        let text = serde_json::to_vec(self).map_err(|error| CopyError::Io(error.to_string()))?;
        let put = |out: &mut dyn std::io::Write| {
            out.write_all(&text).map_err(|error| CopyError::io(&path, &error))
        };
        write_file(&path, put, |_| Ok(())).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_without_its_list_is_not_whole() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path();
        assert!(!ShardList::is_of_cluster(dir));
        fs::create_dir(ShardList::directory(dir, 0)).unwrap();
        assert!(ShardList::is_of_cluster(dir));
        let error = ShardList::read(dir).unwrap_err();
        assert!(error.to_string().contains("did not come to its end"), "{error}");
        ShardList::of(4).write(dir).unwrap();
        assert_eq!(ShardList::read(dir).unwrap(), ShardList::of(4));
        for (text, code) in [
            ("{", "DAMAGED"),
            (r#"{"format":1,"shards":0}"#, "DAMAGED"),
            (r#"{"format":2,"shards":4}"#, "NEWER_FORMAT"),
        ] {
            fs::write(dir.join(CLUSTER_LIST), text).unwrap();
            assert_eq!(ShardList::read(dir).unwrap_err().code(), code, "{text}");
        }
    }
}
