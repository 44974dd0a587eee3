//! The port to contents that are too large for records, each kept once under its hash.
//!
//! A content is written beside its place while its hash is worked out, and gets its name once it is
//! durable. It is pinned from then on until whoever keeps it has committed a record that names it,
//! so that nobody takes it for one that nothing names.

mod file;
mod memory;

#[cfg(test)]
mod conformance;

use std::fmt;
use std::io;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet};
use parking_lot::{Condvar, Mutex};
use sha2::{Digest, Sha256};

pub use file::FileBlobs;
pub use memory::MemoryBlobs;

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

/// Where contents are kept: the file system, memory, or what else may come. All calls block.
pub trait Blobs: Send + Sync + 'static {
    /// Begins a content, which is nowhere until it is kept.
    ///
    /// # Errors
    /// It cannot be written.
    fn begin(&self) -> io::Result<Box<dyn BlobWriter>>;

    /// Opens a content; `None`: it is not there.
    ///
    /// # Errors
    /// It cannot be read.
    fn open(&self, hash: &BlobHash) -> io::Result<Option<Box<dyn BlobReader>>>;

    /// Removes a content, if it is there.
    ///
    /// # Errors
    /// It cannot be removed.
    fn remove(&self, hash: &BlobHash) -> io::Result<()>;

    /// The contents whose hash begins with this byte, in any order.
    ///
    /// # Errors
    /// They cannot be listed.
    fn list(&self, first: u8) -> io::Result<Vec<BlobHash>>;

    /// The length of a content that further records may name; `None`: it is not there, or somebody
    /// may be removing it still.
    ///
    /// # Errors
    /// It cannot be read.
    fn kept(&self, hash: &BlobHash) -> io::Result<Option<u64>> {
        Ok(self.open(hash)?.map(|content| content.length()))
    }

    /// Whether a content takes room on the disk while it is read.
    fn stages_reads(&self) -> bool {
        false
    }
}

/// A content that is being written. Dropped, it leaves nothing.
pub trait BlobWriter: Send + Sync {
    /// Adds bytes.
    ///
    /// # Errors
    /// They cannot be written.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Makes the content durable under its hash. One that is there already stays.
    ///
    /// # Errors
    /// It is not durable.
    fn keep(self: Box<Self>, hash: &BlobHash) -> io::Result<()>;
}

/// A content that is read.
pub trait BlobReader: Send {
    /// Its length in bytes.
    fn length(&self) -> u64;

    /// Up to `max` bytes from `offset` on; none at the end.
    ///
    /// # Errors
    /// They cannot be read.
    fn read_at(&mut self, offset: u64, max: usize) -> io::Result<Vec<u8>>;
}

/// All contents of an engine, with those that are pinned.
#[derive(Clone)]
pub struct BlobStore {
    blobs: Arc<dyn Blobs>,
    held: Arc<Mutex<Held>>,
    /// Notified when a content was removed, or could not be.
    removed: Arc<Condvar>,
}

/// Contents that somebody has to do with now.
#[derive(Default)]
struct Held {
    /// Those that nobody may remove, and by how many they are pinned.
    pinned: HashMap<BlobHash, usize>,
    /// Those of which somebody looks whether they are needed.
    looks: HashMap<BlobHash, Look>,
    /// Those that are being removed, which may take long. Whoever pins one waits for its end.
    removing: HashSet<BlobHash>,
}

/// What happened to a content while somebody looked whether it is needed.
#[derive(Default)]
struct Look {
    /// It was pinned: a record that names it may be there now.
    pinned: bool,
    /// Somebody else wanted it removed: a record that named it may be removed now.
    wanted: bool,
}

impl Held {
    fn pin(&mut self, hash: BlobHash) {
        *self.pinned.entry(hash).or_default() += 1;
        if let Some(look) = self.looks.get_mut(&hash) {
            look.pinned = true;
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

    /// The hash of what it has so far.
    #[must_use]
    pub fn hash(&self) -> BlobHash {
        BlobHash(self.hash.clone().finalize().into())
    }

    /// How many bytes it has so far.
    #[must_use]
    pub const fn length(&self) -> u64 {
        self.length
    }
}

/// A content that is durable and pinned. Dropped, it is pinned no more.
pub struct Pinned {
    store: BlobStore,
    /// Its hash.
    pub hash: BlobHash,
    /// Its length in bytes.
    pub length: u64,
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let mut held = self.store.held.lock();
        if let Some(count) = held.pinned.get_mut(&self.hash) {
            *count -= 1;
            if *count == 0 {
                held.pinned.remove(&self.hash);
            }
        }
    }
}

/// The removal of a content. Dropped, it has ended, whatever came of it.
struct Removing<'a> {
    store: &'a BlobStore,
    hash: &'a BlobHash,
}

impl Drop for Removing<'_> {
    fn drop(&mut self) {
        self.store.held.lock().removing.remove(self.hash);
        self.store.removed.notify_all();
    }
}

impl BlobStore {
    /// One that keeps contents there.
    #[must_use]
    pub fn new(blobs: Arc<dyn Blobs>) -> Self {
        Self { blobs, held: Arc::default(), removed: Arc::default() }
    }

    /// Begins a content.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn begin(&self) -> io::Result<Staged> {
        Ok(Staged { writer: self.blobs.begin()?, hash: Sha256::new(), length: 0 })
    }

    /// Whether a content takes room on the disk while it is read.
    #[must_use]
    pub fn stages_reads(&self) -> bool {
        self.blobs.stages_reads()
    }

    /// Pins a content, as soon as nobody is removing it.
    fn pinned(&self, hash: BlobHash, length: u64) -> Pinned {
        let mut held = self.held.lock();
        while held.removing.contains(&hash) {
            self.removed.wait(&mut held);
        }
        held.pin(hash);
        Pinned { store: self.clone(), hash, length }
    }

    /// Makes a content durable. Blocks, also while the same content is being removed.
    ///
    /// # Errors
    /// It is not durable.
    pub fn keep(&self, staged: Staged) -> io::Result<Pinned> {
        let hash = staged.hash();
        // Before it is there, so that nobody removes it who finds no record of it.
        let pinned = self.pinned(hash, staged.length);
        staged.writer.keep(&hash)?;
        Ok(pinned)
    }

    /// Opens a content; `None`: it is not there.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn open(&self, hash: &BlobHash) -> io::Result<Option<Box<dyn BlobReader>>> {
        self.blobs.open(hash)
    }

    /// The contents whose hash begins with this byte.
    ///
    /// # Errors
    /// They cannot be listed.
    pub fn list(&self, first: u8) -> io::Result<Vec<BlobHash>> {
        self.blobs.list(first)
    }

    /// Pins a content that is there; `None`: it is not. Blocks as [`keep`](Self::keep) does.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn pin(&self, hash: &BlobHash) -> io::Result<Option<Pinned>> {
        let mut pinned = self.pinned(*hash, 0);
        let Some(length) = self.blobs.kept(hash)? else { return Ok(None) };
        pinned.length = length;
        Ok(Some(pinned))
    }

    /// Removes a content that is not pinned, unless it is `needed`. Both may take long: others pin
    /// and remove contents meanwhile, and only who pins the one that is being removed waits.
    /// Returns whether it did. Where two want the same content removed, the first looks once more
    /// for the second.
    ///
    /// # Errors
    /// It cannot be removed, or it is not known whether it is needed.
    pub fn remove_unless<E: From<io::Error>>(
        &self,
        hash: &BlobHash,
        needed: impl Fn() -> Result<bool, E>,
    ) -> Result<bool, E> {
        {
            let mut held = self.held.lock();
            if let Some(look) = held.looks.get_mut(hash) {
                look.wanted = true;
                return Ok(false);
            }
            if held.pinned.contains_key(hash) || held.removing.contains(hash) {
                return Ok(false);
            }
            held.looks.insert(*hash, Look::default());
        }
        loop {
            let needed = needed();
            let mut held = self.held.lock();
            let look = held.looks.remove(hash).unwrap_or_default();
            if look.pinned || held.pinned.contains_key(hash) {
                return Ok(false);
            }
            if !needed? {
                // Nobody pins it from here on until it is removed.
                held.removing.insert(*hash);
                drop(held);
                let _ends = Removing { store: self, hash };
                self.blobs.remove(hash)?;
                return Ok(true);
            }
            if !look.wanted {
                return Ok(false);
            }
            held.looks.insert(*hash, Look::default());
        }
    }
}
