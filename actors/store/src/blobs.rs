//! The port to contents that are too large for records, each kept once under its hash.
//!
//! A content is written beside its place while its hash is computed, and gets its name once it is
//! durable. From then on it is pinned until its owner has committed a record that names it. So no
//! other task takes it for an unnamed content.

mod file;

#[cfg(test)]
mod conformance;

use std::fmt;
use std::io;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use parking_lot::{Condvar, Mutex};
use sha2::{Digest, Sha256};

pub use file::FileBlobs;

/// The SHA-256 of a content.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlobHash(pub [u8; 32]);

impl fmt::Display for BlobHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for BlobHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl BlobHash {
    /// Parses 64 hexadecimal digits of lower case.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut hash = [0; 32];
        if text.len() != 64 || !text.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f')) {
            return None;
        }
        for (byte, pair) in hash.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(Self(hash))
    }
}

/// The store of contents: the file system, memory or another one. All calls block.
pub trait Blobs: Send + Sync + 'static {
    /// Starts a content, which exists nowhere until it is kept.
    ///
    /// # Errors
    /// It cannot be written.
    fn begin(&self) -> io::Result<Box<dyn BlobWriter>>;

    /// Opens a content; `None`: it does not exist.
    ///
    /// # Errors
    /// It cannot be read.
    fn open(&self, hash: &BlobHash) -> io::Result<Option<Box<dyn BlobReader>>>;

    /// Removes a content, if it exists.
    ///
    /// # Errors
    /// It cannot be removed.
    fn remove(&self, hash: &BlobHash) -> io::Result<()>;

    /// Returns the contents whose hash starts with this byte, in any order.
    ///
    /// # Errors
    /// They cannot be listed.
    fn list(&self, first: u8) -> io::Result<Vec<BlobHash>>;

    /// Returns the length of a content that further records may name.
    ///
    /// `None`: it does not exist, or may still be being removed.
    ///
    /// # Errors
    /// It cannot be read.
    fn kept(&self, hash: &BlobHash) -> io::Result<Option<u64>> {
        Ok(self.open(hash)?.map(|content| content.length()))
    }

    /// Returns whether a content takes space on the disk while it is read.
    fn stages_reads(&self) -> bool {
        false
    }
}

/// A content that is being written. A dropped one leaves nothing.
pub trait BlobWriter: Send + Sync {
    /// Adds bytes.
    ///
    /// # Errors
    /// They cannot be written.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Makes the content durable under its hash. An existing one stays.
    ///
    /// # Errors
    /// It is not durable.
    fn keep(self: Box<Self>, hash: &BlobHash) -> io::Result<()>;
}

/// A content that is being read.
pub trait BlobReader: Send {
    /// Returns its length in bytes.
    fn length(&self) -> u64;

    /// Returns up to `max` bytes from `offset` on; none at the end.
    ///
    /// # Errors
    /// They cannot be read.
    fn read_at(&mut self, offset: u64, max: usize) -> io::Result<Vec<u8>>;
}

/// All contents of an engine, including the pinned ones.
#[derive(Clone)]
pub struct BlobStore {
    blobs: Arc<dyn Blobs>,
    in_use: Arc<Mutex<ContentsInUse>>,
    /// Notified after each removal, whether or not it succeeded.
    removed: Arc<Condvar>,
}

/// Contents that are in use now.
#[derive(Default)]
struct ContentsInUse {
    /// The pinned contents, which must not be removed, with the number of their pins.
    pinned: HashMap<BlobHash, usize>,
    /// The contents for which a task checks whether they are needed.
    checks: HashMap<BlobHash, NeedCheck>,
    /// The contents that are being removed, which may take long. A task that pins one waits.
    removing: HashSet<BlobHash>,
}

/// The events of a content while a task checks whether it is needed.
#[derive(Default)]
struct NeedCheck {
    /// It was pinned: a record that names it may exist now.
    pinned: bool,
    /// Another task wanted it removed: a record that named it may be removed now.
    wanted: bool,
}

impl ContentsInUse {
    fn pin(&mut self, hash: BlobHash) {
        *self.pinned.entry(hash).or_default() += 1;
        if let Some(check) = self.checks.get_mut(&hash) {
            check.pinned = true;
        }
    }
}

impl fmt::Debug for BlobStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlobStore").finish_non_exhaustive()
    }
}

/// A content that is being written, and its hash so far.
pub struct Staged {
    writer: Box<dyn BlobWriter>,
    hash: Sha256,
    length: u64,
}

impl Staged {
    /// Adds bytes.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.writer.write(bytes)?;
        self.hash.update(bytes);
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Returns the hash of its bytes so far.
    #[must_use]
    pub fn hash(&self) -> BlobHash {
        BlobHash(self.hash.clone().finalize().into())
    }

    /// Returns the number of its bytes so far.
    #[must_use]
    pub const fn length(&self) -> u64 {
        self.length
    }
}

/// A content that is durable and pinned until this is dropped.
pub struct Pinned {
    store: BlobStore,
    /// Its hash.
    pub hash: BlobHash,
    /// Its length in bytes.
    pub length: u64,
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let mut in_use = self.store.in_use.lock();
        if let Some(count) = in_use.pinned.get_mut(&self.hash) {
            *count -= 1;
            if *count == 0 {
                in_use.pinned.remove(&self.hash);
            }
        }
    }
}

/// The removal of a content. It ends when this is dropped, whatever the outcome.
struct Removing<'a> {
    store: &'a BlobStore,
    hash: &'a BlobHash,
}

impl Drop for Removing<'_> {
    fn drop(&mut self) {
        self.store.in_use.lock().removing.remove(self.hash);
        self.store.removed.notify_all();
    }
}

impl BlobStore {
    /// Returns a store over these contents.
    #[must_use]
    pub fn new(blobs: Arc<dyn Blobs>) -> Self {
        Self { blobs, in_use: Arc::default(), removed: Arc::default() }
    }

    /// Starts a content.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn begin(&self) -> io::Result<Staged> {
        Ok(Staged { writer: self.blobs.begin()?, hash: Sha256::new(), length: 0 })
    }

    /// Returns whether a content takes space on the disk while it is read.
    #[must_use]
    pub fn stages_reads(&self) -> bool {
        self.blobs.stages_reads()
    }

    /// Pins a content, as soon as no task is removing it.
    fn pinned(&self, hash: BlobHash, length: u64) -> Pinned {
        let mut in_use = self.in_use.lock();
        while in_use.removing.contains(&hash) {
            self.removed.wait(&mut in_use);
        }
        in_use.pin(hash);
        Pinned { store: self.clone(), hash, length }
    }

    /// Makes a content durable. Blocks, also while the same content is being removed.
    ///
    /// # Errors
    /// It is not durable.
    pub fn keep(&self, staged: Staged) -> io::Result<Pinned> {
        let hash = staged.hash();
        // The pin comes first, so that no task that finds no record removes the content.
        let pinned = self.pinned(hash, staged.length);
        staged.writer.keep(&hash)?;
        Ok(pinned)
    }

    /// Opens a content; `None`: it does not exist.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn open(&self, hash: &BlobHash) -> io::Result<Option<Box<dyn BlobReader>>> {
        self.blobs.open(hash)
    }

    /// Returns the contents whose hash starts with this byte.
    ///
    /// # Errors
    /// They cannot be listed.
    pub fn list(&self, first: u8) -> io::Result<Vec<BlobHash>> {
        self.blobs.list(first)
    }

    /// Pins an existing content; `None`: it does not exist. Blocks as [`keep`](Self::keep) does.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn pin(&self, hash: &BlobHash) -> io::Result<Option<Pinned>> {
        let mut pinned = self.pinned(*hash, 0);
        let Some(length) = self.blobs.kept(hash)? else { return Ok(None) };
        pinned.length = length;
        Ok(Some(pinned))
    }

    /// Removes a content that is not pinned, unless it is `needed`. Returns whether it did.
    ///
    /// Both may take long. Others pin and remove contents meanwhile, and only a task that pins the
    /// one that is being removed waits. If two want the same content removed, the first checks
    /// again for the second.
    ///
    /// # Errors
    /// It cannot be removed, or it is unknown whether it is needed.
    pub fn remove_unless<E: From<io::Error>>(
        &self,
        hash: &BlobHash,
        needed: impl Fn() -> Result<bool, E>,
    ) -> Result<bool, E> {
        {
            let mut in_use = self.in_use.lock();
            if let Some(check) = in_use.checks.get_mut(hash) {
                check.wanted = true;
                return Ok(false);
            }
            if in_use.pinned.contains_key(hash) || in_use.removing.contains(hash) {
                return Ok(false);
            }
            in_use.checks.insert(*hash, NeedCheck::default());
        }
        loop {
            let needed = needed();
            let mut in_use = self.in_use.lock();
            let check = in_use.checks.remove(hash).unwrap_or_default();
            if check.pinned || in_use.pinned.contains_key(hash) {
                return Ok(false);
            }
            if !needed? {
                // From here on it cannot be pinned until it is removed.
                in_use.removing.insert(*hash);
                drop(in_use);
                let _ends = Removing { store: self, hash };
                self.blobs.remove(hash)?;
                return Ok(true);
            }
            if !check.wanted {
                return Ok(false);
            }
            in_use.checks.insert(*hash, NeedCheck::default());
        }
    }
}

type MemoryContents = Arc<Mutex<HashMap<BlobHash, Arc<[u8]>>>>;

/// Contents in memory, for engines that store nothing.
#[derive(Debug, Default)]
pub struct MemoryBlobs(MemoryContents);

impl Blobs for MemoryBlobs {
    fn begin(&self) -> io::Result<Box<dyn BlobWriter>> {
        Ok(Box::new(UnfinishedBytes { contents: Arc::clone(&self.0), bytes: Vec::new() }))
    }

    fn open(&self, hash: &BlobHash) -> io::Result<Option<Box<dyn BlobReader>>> {
        let found = self.0.lock().get(hash).cloned();
        Ok(found.map(|bytes| Box::new(MemoryContent(bytes)) as Box<dyn BlobReader>))
    }

    fn remove(&self, hash: &BlobHash) -> io::Result<()> {
        self.0.lock().remove(hash);
        Ok(())
    }

    fn list(&self, first: u8) -> io::Result<Vec<BlobHash>> {
        Ok(self.0.lock().keys().filter(|hash| hash.0[0] == first).copied().collect())
    }
}

struct UnfinishedBytes {
    contents: MemoryContents,
    bytes: Vec<u8>,
}

impl BlobWriter for UnfinishedBytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn keep(self: Box<Self>, hash: &BlobHash) -> io::Result<()> {
        self.contents.lock().insert(*hash, self.bytes.into());
        Ok(())
    }
}

struct MemoryContent(Arc<[u8]>);

impl BlobReader for MemoryContent {
    fn length(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&mut self, offset: u64, max: usize) -> io::Result<Vec<u8>> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(self.0.len());
        let to = from.saturating_add(max).min(self.0.len());
        Ok(self.0[from..to].to_vec())
    }
}
