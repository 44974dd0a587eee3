//! Splits an archive of a single node into archives of the shards of a cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use hashbrown::HashMap;
use postrider_domain::{MasterKeys, Timestamp, WorkspaceId};
use postrider_store::archive::{ArchiveError, Row};
use postrider_store::blobs::BlobHash;
use postrider_store::copies::{
    ArchiveFile, CopyError, archive_bytes, create_archive, read_archive,
};
use postrider_store::{ArchiveCounts, ArchiveHeader, Change, LogId, Mark, Table};
use postrider_workspace::media::named_content;

use super::restore::check_space;
use super::sharding::{Home, ShardPlace, ShardPlaces, home};
use crate::access::{KeyMark, home_of, key_parts};
use crate::engine::{master_keys, restore_hold};

/// An archive of a single node for a cluster. It was read and is whole.
pub struct ClusterArchive {
    path: PathBuf,
    header: ArchiveHeader,
    counts: ArchiveCounts,
    places: ShardPlaces,
    homes: Vec<(KeyMark, u16)>,
    /// The contents of files of workspaces, by the workspaces' homes.
    contents: BTreeSet<(u16, BlobHash)>,
}

/// A shard's part of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardPart {
    /// The shard.
    pub shard: u16,
    /// The shard's log.
    pub log: LogId,
    /// The entry of that log at which the part is.
    pub at: Mark,
    /// The file to make.
    pub path: PathBuf,
}

impl ClusterArchive {
    /// The maximum number of shards that are split off at a time: each needs a block of 4 MiB.
    pub const SHARDS_AT_ONCE: usize = 32;

    /// Reads an archive.
    ///
    /// # Errors
    /// [`CopyError::KeyMismatch`] if it was written under other master keys; other errors of
    /// [`CopyError`] if it cannot be read, or cannot be split.
    pub fn open(path: &Path, keys: &MasterKeys) -> Result<Self, CopyError> {
        let mut places = ShardPlaces { shards: 1, keys: HashMap::new() };
        let (mut homes, mut contents) = (Vec::new(), BTreeSet::new());
        let (header, counts, _) = read_archive(path, |_, rows| {
            for row in rows {
                let Row::Record(table, key, value) = row else { continue };
                if table == Table::Meta && key[..] == *restore_hold::HOLD_KEY {
                    return Err(held_error(path));
                }
                // A record whose place is unknown is refused before anything is written.
                match (table, home(table, &key, &value)?) {
                    (Table::Media, Home::Workspace(of)) => {
                        contents.extend(named_content(&key).map(|hash| (home_of(&of), hash)));
                    }
                    (Table::Keys, _) => {
                        let Some(parts) = key_parts(&value) else { continue };
                        homes.push((parts.mark, home_of(&parts.workspace)));
                        places.keys.insert(parts.id, parts.workspace);
                    }
                    _ => {}
                }
            }
            Ok(())
        })?;
        master_keys::check_known(header.keys.iter().copied().collect(), keys)
            .map_err(|error| CopyError::KeyMismatch(error.to_string()))?;
        Ok(Self { path: path.to_owned(), header, counts, places, homes, contents })
    }

    /// Returns the archive for a cluster with so many shards, a power of two.
    #[must_use]
    pub fn for_shards(mut self, shards: u16) -> Self {
        self.places.shards = shards;
        self
    }

    /// Returns the number of records.
    #[must_use]
    pub const fn counts(&self) -> ArchiveCounts {
        self.counts
    }

    /// Returns the engine time of its creation.
    #[must_use]
    pub const fn time(&self) -> Timestamp {
        Timestamp::from_millis(self.header.time_ms)
    }

    /// Returns the homes of all keys by their marks: a key of a single node does not carry its own.
    #[must_use]
    pub fn homes(&self) -> &[(KeyMark, u16)] {
        &self.homes
    }

    /// Returns the contents of files of the workspaces of a shard.
    #[must_use]
    pub fn contents(&self, shard: u16) -> BTreeSet<BlobHash> {
        let is_there = |home: u16| self.places.shard_at(home) == shard;
        self.contents.iter().filter(|(home, _)| is_there(*home)).map(|(_, hash)| *hash).collect()
    }

    /// Writes the archives of at most [`Self::SHARDS_AT_ONCE`] shards. Blocks.
    ///
    /// # Errors
    /// [`CopyError`]; files may be left.
    pub fn split(&self, parts: &[ShardPart]) -> Result<(), CopyError> {
        if let Some(dir) = parts.first().and_then(|part| part.path.parent()) {
            check_space(dir, archive_bytes(&self.path)?)?;
        }
        let made = parts.iter().map(|part| Ok((part.shard, ShardOutput::new(self, part)?)));
        let mut outputs: BTreeMap<_, _> = made.collect::<Result<_, CopyError>>()?;
        read_archive(&self.path, |_, rows| {
            rows.into_iter().try_for_each(|row| self.put(row, &mut outputs))
        })?;
        outputs.into_values().try_for_each(ShardOutput::finish)
    }

    fn put(&self, row: Row, outputs: &mut BTreeMap<u16, ShardOutput>) -> Result<(), CopyError> {
        match row {
            Row::Record(table, key, value) => {
                match self.places.of(Change::put(table, key, value))? {
                    ShardPlace::One(shard, change) => match outputs.get_mut(&shard) {
                        Some(output) => output.record(change),
                        None => Ok(()),
                    },
                    ShardPlace::Every(change) => {
                        outputs.values_mut().try_for_each(|output| output.record(change.clone()))
                    }
                }
            }
            Row::State(workspace, state) => {
                let id = std::str::from_utf8(&workspace).ok().and_then(|id| id.parse().ok());
                let what = || format!("{} names no workspace", self.path.display());
                let id: WorkspaceId = id.ok_or_else(|| CopyError::Damaged(what()))?;
                match outputs.get_mut(&self.places.shard_of(&id)) {
                    Some(output) => output.state(id.as_str(), &state),
                    None => Ok(()),
                }
            }
        }
    }
}

fn held_error(path: &Path) -> CopyError {
    let path = path.display();
    let what = "is of a server that is held, and nothing would release it in a cluster: release it \
                first (`postrider release`), and make the archive then";
    CopyError::Io(format!("{path} {what}"))
}

/// The archive of one shard, while it is being written.
struct ShardOutput {
    path: PathBuf,
    writer: ArchiveFile,
    /// The first table's records, whose keys may have changed, until they are in order.
    first: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl ShardOutput {
    fn new(of: &ClusterArchive, part: &ShardPart) -> Result<Self, CopyError> {
        let ShardPart { shard, log, at, path } = part.clone();
        let header = ArchiveHeader { log, shard, at, ..of.header.clone() };
        let writer = create_archive(&path, &header)?;
        Ok(Self { path, writer, first: BTreeMap::new() })
    }

    fn explained<T>(&self, done: Result<T, ArchiveError>) -> Result<T, CopyError> {
        done.map_err(|error| CopyError::archive(&self.path, &error))
    }

    fn record(&mut self, change: Change) -> Result<(), CopyError> {
        let Change { table, key, value } = change;
        let value = value.unwrap_or_default();
        if table == Table::Meta {
            self.first.insert(key, value);
            return Ok(());
        }
        self.end_first()?;
        let written = self.writer.record(table, &key, &value);
        self.explained(written)
    }

    fn end_first(&mut self) -> Result<(), CopyError> {
        for (key, value) in std::mem::take(&mut self.first) {
            let written = self.writer.record(Table::Meta, &key, &value);
            self.explained(written)?;
        }
        Ok(())
    }

    fn state(&mut self, workspace: &str, state: &[u8]) -> Result<(), CopyError> {
        self.end_first()?;
        let written = self.writer.state(workspace, state);
        self.explained(written)
    }

    fn finish(mut self) -> Result<(), CopyError> {
        self.end_first()?;
        let Self { path, writer, .. } = self;
        writer.finish().map(drop).map_err(|error| CopyError::archive(&path, &error))
    }
}
