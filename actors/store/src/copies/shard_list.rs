//! The list of a cluster's backup: the number of shards. It is written after all their backups.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::CopyError;
use super::hashing::write_file;

/// The name of the list.
const LIST: &str = "cluster.json";
/// The format of the list that is written, and the highest one that is read.
const FORMAT: u32 = 1;

/// The list.
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
        Self { format: FORMAT, shards }
    }

    /// Returns the directory of a shard's backup.
    #[must_use]
    pub fn directory(dir: &Path, shard: u16) -> PathBuf {
        dir.join(format!("shard-{shard:03}"))
    }

    /// Returns whether this is the directory of a cluster's backup, whole or not.
    #[must_use]
    pub fn is_of_cluster(dir: &Path) -> bool {
        dir.join(LIST).exists() || Self::directory(dir, 0).exists()
    }

    /// Reads the list of a backup.
    ///
    /// # Errors
    /// [`CopyError::Damaged`] if it is missing: the first backup was not completed.
    pub fn read(dir: &Path) -> Result<Self, CopyError> {
        let path = dir.join(LIST);
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
            FORMAT if list.shards > 0 => Ok(list),
            format if format > FORMAT => {
                let what = format!("{path} has format {format}; this version knows up to {FORMAT}");
                Err(CopyError::NewerFormat(what))
            }
            _ => Err(damaged("a value is not what was written".into())),
        }
    }

    /// Writes the list in place of the previous one.
    ///
    /// # Errors
    /// [`CopyError`].
    pub fn write(&self, dir: &Path) -> Result<(), CopyError> {
        let path = dir.join(LIST);
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
            fs::write(dir.join(LIST), text).unwrap();
            assert_eq!(ShardList::read(dir).unwrap_err().code(), code, "{text}");
        }
    }
}
