//! Contents in memory, for engines that store nothing.

use std::io;
use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::Mutex;

use super::{BlobHash, BlobReader, BlobWriter, Blobs};

type Contents = Arc<Mutex<HashMap<BlobHash, Arc<[u8]>>>>;

/// Contents in memory.
#[derive(Debug, Default)]
pub struct MemoryBlobs(Contents);

impl Blobs for MemoryBlobs {
    fn begin(&self) -> io::Result<Box<dyn BlobWriter>> {
        Ok(Box::new(Unfinished { contents: Arc::clone(&self.0), bytes: Vec::new() }))
    }

    fn open(&self, hash: &BlobHash) -> io::Result<Option<Box<dyn BlobReader>>> {
        let found = self.0.lock().get(hash).cloned();
        Ok(found.map(|bytes| Box::new(Opened(bytes)) as Box<dyn BlobReader>))
    }

    fn remove(&self, hash: &BlobHash) -> io::Result<()> {
        self.0.lock().remove(hash);
        Ok(())
    }

    fn list(&self, first: u8) -> io::Result<Vec<BlobHash>> {
        Ok(self.0.lock().keys().filter(|hash| hash.0[0] == first).copied().collect())
    }
}

struct Unfinished {
    contents: Contents,
    bytes: Vec<u8>,
}

impl BlobWriter for Unfinished {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn keep(self: Box<Self>, hash: &BlobHash) -> io::Result<()> {
        self.contents.lock().insert(*hash, self.bytes.into());
        Ok(())
    }
}

struct Opened(Arc<[u8]>);

impl BlobReader for Opened {
    fn length(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&mut self, offset: u64, max: usize) -> io::Result<Vec<u8>> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(self.0.len());
        let to = from.saturating_add(max).min(self.0.len());
        Ok(self.0[from..to].to_vec())
    }
}
