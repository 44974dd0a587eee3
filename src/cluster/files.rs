//! The contents of a shard's files: in NATS beside its log, so that the next owner has them.
//!
//! The node holds only contents in transit, in `DATA/files`, which is empty after a start. Their
//! size and the number of threads that wait for NATS are bounded for all shards together. They
//! share the disk and the threads with everything else.

mod fetched;
mod places;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use postrider_actors::store::blobs::{BlobHash, BlobReader, BlobWriter, Blobs};
use postrider_actors::{Tenure, random};
use postrider_cluster::checkpoints::CheckpointsError;
use postrider_cluster::nats::{FilesOf, NatsFiles, OwnedFiles};
use tempfile::NamedTempFile;

use self::fetched::{Content, Fetched};
use self::places::Places;

/// The directory of contents in transit.
const FILES: &str = "files";
/// The maximum number of contents stored in NATS at once, beside the appends of the logs.
const STORES_MAX: usize = 4;
/// The maximum number that wait for that; more are refused.
const WAITING_MAX: usize = 64;
/// The number of bytes of a content copied at once.
const COPIED_AT_ONCE: usize = 1 << 20;

/// The contents of all shards, for a node.
#[derive(Debug)]
pub(super) struct NodeFiles {
    /// Empty while NATS has no room for contents.
    stored: OnceLock<Arc<NatsFiles>>,
    /// The reason why contents cannot be stored.
    why: String,
    dir: PathBuf,
    stores: Places,
    fetched: Fetched,
}

impl NodeFiles {
    /// Empties the directory for contents in transit below this one.
    ///
    /// If NATS has no room for contents, `stored` has the reason.
    pub(super) fn new(stored: Result<NatsFiles, String>, data: &Path) -> io::Result<Self> {
        let dir = data.join(FILES);
        match std::fs::remove_dir_all(&dir) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => std::fs::create_dir(&dir)?,
        }
        let (stores, fetched) = (Places::new(STORES_MAX, WAITING_MAX), Fetched::new(&dir));
        let (stored, why) = match stored {
            Ok(stored) => (OnceLock::from(Arc::new(stored)), String::new()),
            Err(why) => (OnceLock::new(), why),
        };
        Ok(Self { stored, why, dir, stores, fetched })
    }

    /// Starts storing contents.
    pub(super) fn begin(&self, stored: NatsFiles) {
        drop(self.stored.set(Arc::new(stored)));
    }

    /// Returns the reason why no contents are stored, if none are.
    pub(super) fn problem(&self) -> Option<&str> {
        self.stored.get().is_none().then_some(self.why.as_str())
    }

    fn stored(&self) -> io::Result<&Arc<NatsFiles>> {
        self.stored.get().ok_or_else(|| io::Error::other(self.why.clone()))
    }

    /// Fetches a content, unless somebody reads it already; `None` if it is missing.
    fn fetch(&self, of: &Inner, hash: &BlobHash) -> io::Result<Option<Arc<Content>>> {
        let (owned, stored) = (of.owned()?, self.stored()?);
        let find = || owned.find(&hash.to_string()).map_err(failed);
        let get = |name: &str, to: &Path| stored.get(name, to).map_err(failed);
        self.fetched.get(of.of.shard, hash, find, get)
    }
}

/// The contents of one shard, for an owner of it.
#[derive(Clone)]
pub(super) struct ShardFiles(Arc<Inner>);

struct Inner {
    of: FilesOf,
    node: Arc<NodeFiles>,
    /// The contents that this owner has stored, once any can be stored.
    owned: OnceLock<OwnedFiles>,
    tenure: Arc<dyn Tenure>,
}

impl Inner {
    fn owned(&self) -> io::Result<&OwnedFiles> {
        let stored = self.node.stored()?;
        Ok(self.owned.get_or_init(|| OwnedFiles::new(stored.clone(), self.of)))
    }
}

impl ShardFiles {
    pub(super) fn new(node: Arc<NodeFiles>, of: FilesOf, tenure: Arc<dyn Tenure>) -> Self {
        Self(Arc::new(Inner { of, node, owned: OnceLock::new(), tenure }))
    }

    fn store(&self, hash: &BlobHash, file: &Path) -> io::Result<()> {
        let (node, owned) = (&self.0.node, self.0.owned()?);
        let _place = node.stores.take()?;
        owned.put(&hash.to_string(), random::unique(), file).map_err(failed)
    }
}

fn failed(error: CheckpointsError) -> io::Error {
    io::Error::other(error)
}

impl Blobs for ShardFiles {
    fn begin(&self) -> io::Result<Box<dyn BlobWriter>> {
        let file = NamedTempFile::new_in(&self.0.node.dir)?;
        Ok(Box::new(Unfinished { of: self.clone(), file }))
    }

    fn open(&self, hash: &BlobHash) -> io::Result<Option<Box<dyn BlobReader>>> {
        let content = self.0.node.fetch(&self.0, hash)?;
        Ok(content.map(|content| -> Box<dyn BlobReader> { Box::new(Reader(content)) }))
    }

    fn remove(&self, hash: &BlobHash) -> io::Result<()> {
        let (owned, tenure) = (self.0.owned()?, &self.0.tenure);
        owned.remove(&hash.to_string(), &|| tenure.holds()).map_err(failed)
    }

    fn list(&self, first: u8) -> io::Result<Vec<BlobHash>> {
        // A node that can store nothing has nothing to remove.
        let Ok(owned) = self.0.owned() else { return Ok(Vec::new()) };
        let hashes = owned.list(first).map_err(failed)?;
        Ok(hashes.iter().filter_map(|hash| BlobHash::parse(hash)).collect())
    }

    /// Stores the content again if another owner stored it, because it may be about to be removed.
    fn kept(&self, hash: &BlobHash) -> io::Result<Option<u64>> {
        let (node, owned) = (&self.0.node, self.0.owned()?);
        if let Some(length) = owned.kept(&hash.to_string()).map_err(failed)? {
            return Ok(Some(length));
        }
        let Some(content) = node.fetch(&self.0, hash)? else { return Ok(None) };
        let mut file = NamedTempFile::new_in(&node.dir)?;
        let (mut reader, mut at) = (Reader(content), 0);
        while at < reader.length() {
            let part = reader.read_at(at, COPIED_AT_ONCE)?;
            file.write_all(&part)?;
            at += part.len() as u64;
        }
        self.store(hash, file.path())?;
        Ok(Some(at))
    }

    fn stages_reads(&self) -> bool {
        true
    }
}

/// A content that is first written on the node, because its hash is its name.
struct Unfinished {
    of: ShardFiles,
    file: NamedTempFile,
}

impl BlobWriter for Unfinished {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    fn keep(self: Box<Self>, hash: &BlobHash) -> io::Result<()> {
        self.of.store(hash, self.file.path())
    }
}

/// A content that has come to the node.
struct Reader(Arc<Content>);

impl BlobReader for Reader {
    fn length(&self) -> u64 {
        self.0.length()
    }

    fn read_at(&mut self, offset: u64, max: usize) -> io::Result<Vec<u8>> {
        let left = self.length().saturating_sub(offset);
        let mut bytes = vec![0; max.min(usize::try_from(left).unwrap_or(usize::MAX))];
        self.0.read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Holds;

    impl Tenure for Holds {
        fn holds(&self) -> bool {
            true
        }
    }

    #[test]
    fn without_room_for_them_no_content_is_kept_and_it_is_said_why() {
        let data = tempfile::tempdir().unwrap();
        let node = NodeFiles::new(Err("no room".to_owned()), data.path()).unwrap();
        assert_eq!(node.problem(), Some("no room"));
        let of = FilesOf { shard: 1, epoch: 1 };
        let files = ShardFiles::new(Arc::new(node), of, Arc::new(Holds));
        let hash = BlobHash([7; 32]);
        let mut writer = files.begin().unwrap();
        writer.write(b"content").unwrap();
        let refused = [
            writer.keep(&hash).err(),
            files.open(&hash).err(),
            files.kept(&hash).err(),
            files.remove(&hash).err(),
        ];
        for error in refused {
            assert_eq!(error.map(|it| it.to_string()).as_deref(), Some("no room"));
        }
        assert_eq!(files.list(0).unwrap(), []);
        assert_eq!(data.path().join(FILES).read_dir().unwrap().count(), 0, "nothing is left");
    }
}
