//! Copies the contents of files beside the records: the missing ones, each checked by its hash.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use super::CopyError;
use crate::blobs::{BlobHash, BlobStore, Blobs, FileBlobs, Staged};

/// Bytes that are read at once.
const PART_BYTES: usize = 256 << 10;

/// The source of copied contents.
pub trait Contents {
    /// Returns all existing contents, in any order.
    ///
    /// # Errors
    /// [`CopyError`]: they cannot be listed.
    fn all(&self) -> Result<Vec<BlobHash>, CopyError>;

    /// Writes a content. Returns whether it exists.
    ///
    /// # Errors
    /// [`CopyError::Damaged`] when this one cannot be read, and others.
    fn copy(&self, hash: &BlobHash, out: &mut dyn Write) -> Result<bool, CopyError>;
}

/// The result of a copy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CopiedContents {
    /// The number of listed contents that the copy has.
    pub files: u64,
    /// The number of them that it did not have before.
    pub copied: u64,
    /// The bytes of these.
    pub bytes: u64,
    /// The contents that cannot be read or do not match their names; they are left out.
    pub damaged: Vec<BlobHash>,
}

impl CopiedContents {
    /// Adds another result.
    pub fn add(&mut self, other: Self) {
        self.files += other.files;
        self.copied += other.copied;
        self.bytes += other.bytes;
        self.damaged.extend(other.damaged);
    }
}

impl Contents for FileBlobs {
    fn all(&self) -> Result<Vec<BlobHash>, CopyError> {
        let lists: io::Result<Vec<_>> = (0..=u8::MAX).map(|first| self.list(first)).collect();
        Ok(lists.map_err(unreadable)?.concat())
    }

    fn copy(&self, hash: &BlobHash, out: &mut dyn Write) -> Result<bool, CopyError> {
        let damaged = |error| CopyError::Damaged(format!("{hash}: {error}"));
        let Some(mut reader) = self.open(hash).map_err(damaged)? else { return Ok(false) };
        let mut from = 0;
        loop {
            let part = reader.read_at(from, PART_BYTES).map_err(damaged)?;
            if part.is_empty() {
                return Ok(true);
            }
            from += part.len() as u64;
            out.write_all(&part)?;
        }
    }
}

fn unreadable(error: io::Error) -> CopyError {
    CopyError::Io(format!("the contents of files cannot be listed: {error}"))
}

/// Returns the bytes of the contents in a directory.
///
/// # Errors
/// [`CopyError`]: they cannot be listed.
pub fn contents_bytes(dir: &Path) -> Result<u64, CopyError> {
    let blobs = FileBlobs::at(dir);
    let lengths = blobs.all()?.into_iter().map(|hash| Ok(blobs.open(&hash)?.map(|it| it.length())));
    let lengths = lengths.collect::<io::Result<Vec<_>>>().map_err(unreadable)?;
    Ok(lengths.into_iter().flatten().sum())
}

/// Copies the contents that a directory does not have yet.
///
/// It creates the directory if there are any. An interrupted copy continues the next time.
///
/// # Errors
/// [`CopyError`]: they cannot be listed or written.
pub fn copy_contents(from: &dyn Contents, to: &Path) -> Result<CopiedContents, CopyError> {
    let (all, mut copied) = (from.all()?, CopiedContents::default());
    let io = |error: io::Error| CopyError::io(to, &error);
    if all.is_empty() {
        return Ok(copied);
    }
    let kept = BlobStore::new(Arc::new(FileBlobs::open(to).map_err(io)?));
    for hash in all {
        if kept.open(&hash).map_err(io)?.is_some() {
            copied.files += 1;
            continue;
        }
        let mut writing = StagedWriter { staged: kept.begin().map_err(io)?, failed: None };
        let read = from.copy(&hash, &mut writing);
        let StagedWriter { staged, failed } = writing;
        if let Some(error) = failed {
            return Err(io(error));
        }
        match read {
            // It was removed since it was listed.
            Ok(false) => {}
            Ok(true) if staged.hash() == hash => {
                copied.bytes += staged.length();
                (copied.copied, copied.files) = (copied.copied + 1, copied.files + 1);
                kept.keep(staged).map_err(io)?;
            }
            Ok(true) | Err(CopyError::Damaged(_)) => copied.damaged.push(hash),
            Err(error) => return Err(error),
        }
    }
    Ok(copied)
}

/// Writes a content, and records whether the writing failed.
struct StagedWriter {
    staged: Staged,
    failed: Option<io::Error>,
}

impl Write for StagedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.staged.write(bytes).map_err(|error| {
            let again = io::Error::new(error.kind(), error.to_string());
            self.failed = Some(error);
            again
        })?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::fs;

    #[test]
    fn what_is_missing_is_copied_and_what_is_damaged_is_reported() {
        let parent = tempfile::tempdir().unwrap();
        let (from, to) = (parent.path().join("from"), parent.path().join("to"));
        let store = BlobStore::new(Arc::new(FileBlobs::open(&from).unwrap()));
        let keep = |bytes: &[u8]| {
            let mut staged = store.begin().unwrap();
            staged.write(bytes).unwrap();
            store.keep(staged).unwrap().hash
        };
        let (one, large) = (keep(b"one"), keep(&vec![7; PART_BYTES + 1]));
        let source = FileBlobs::at(&from);
        let first = copy_contents(&source, &to).unwrap();
        let bytes = PART_BYTES as u64 + 4;
        let expected = CopiedContents { files: 2, copied: 2, bytes, damaged: Vec::new() };
        assert_eq!(first, expected);
        assert_eq!(contents_bytes(&to).unwrap(), bytes);
        let other = keep(b"other");
        let path = from.join(&other.to_string()[..2]).join(other.to_string());
        fs::write(path, b"0ther").unwrap();
        let second = copy_contents(&source, &to).unwrap();
        let expected = CopiedContents { files: 2, damaged: vec![other], ..Default::default() };
        assert_eq!(second, expected);
        let copy = FileBlobs::at(&to);
        let mut all = copy.all().unwrap();
        all.sort_unstable();
        let mut sound = [one, large];
        sound.sort_unstable();
        assert_eq!(all, sound, "a damaged content was kept");
        let mut read = Vec::new();
        assert!(copy.copy(&one, &mut read).unwrap());
        assert_eq!(read, b"one");
        assert!(!copy.copy(&other, &mut read).unwrap());
        let (none, empty) = (parent.path().join("none"), parent.path().join("empty"));
        assert_eq!(copy_contents(&FileBlobs::at(&none), &empty).unwrap(), Default::default());
        assert!(!empty.exists(), "nothing is made of nothing");
    }
}
