//! What every place for contents must do, run on each of them.

use std::cell::Cell;
use std::io;
use std::sync::Arc;

use super::{BlobHash, BlobStore, Blobs, FileBlobs, MemoryBlobs, Pinned};

fn keep(store: &BlobStore, parts: &[&[u8]]) -> Pinned {
    let mut staged = store.begin().unwrap();
    parts.iter().for_each(|part| staged.write(part).unwrap());
    assert_eq!(staged.length(), parts.concat().len() as u64);
    store.keep(staged).unwrap()
}

fn read(store: &BlobStore, hash: &BlobHash) -> Option<Vec<u8>> {
    let mut reader = store.open(hash).unwrap()?;
    let length = usize::try_from(reader.length()).unwrap();
    assert_eq!(reader.read_at(length as u64, 10).unwrap(), b"");
    let whole = reader.read_at(0, length + 10).unwrap();
    if length > 2 {
        assert_eq!(reader.read_at(1, 1).unwrap(), whole[1..2]);
    }
    Some(whole)
}

fn all(store: &BlobStore) -> Vec<BlobHash> {
    let mut all: Vec<_> = (0..=u8::MAX).flat_map(|first| store.list(first).unwrap()).collect();
    all.sort_unstable();
    all
}

fn suite(blobs: impl Blobs) {
    let store = BlobStore::new(Arc::new(blobs));
    let unneeded = || Ok::<_, io::Error>(false);
    let one = keep(&store, &[b"one ", b"content"]);
    // The same in other parts is the same.
    let again = keep(&store, &[b"one content"]);
    assert_eq!((one.hash, one.length), (again.hash, 11));
    let two = keep(&store, &[&[7; 100_000]]);
    let (hash, other) = (one.hash, two.hash);
    let mut expected = [hash, other];
    expected.sort_unstable();
    assert_eq!(all(&store), expected);
    assert_eq!(read(&store, &hash).unwrap(), b"one content");
    assert_eq!(read(&store, &other).unwrap(), [7; 100_000]);
    // What is given up leaves nothing.
    let mut given_up = store.begin().unwrap();
    given_up.write(b"never").unwrap();
    drop(given_up);
    assert_eq!(all(&store), expected);
    // It stays while anybody pins it, and while it is needed.
    assert!(!store.remove_unless(&hash, unneeded).unwrap());
    drop(one);
    assert!(!store.remove_unless(&hash, unneeded).unwrap());
    drop(again);
    assert!(!store.remove_unless(&hash, || Ok::<_, io::Error>(true)).unwrap());
    let unknown = || Err::<bool, _>(io::Error::other("cannot be told"));
    assert!(store.remove_unless(&hash, unknown).is_err());
    assert_eq!(all(&store), expected);
    // A reader that is under way goes on.
    let mut reader = store.open(&hash).unwrap().unwrap();
    assert!(store.remove_unless(&hash, unneeded).unwrap());
    assert_eq!(reader.read_at(4, 100).unwrap(), b"content");
    assert_eq!((read(&store, &hash), all(&store)), (None, vec![other]));
    assert!(store.remove_unless(&hash, unneeded).unwrap(), "there is nothing, which is as well");
    assert!(store.pin(&hash).unwrap().is_none(), "what is not there cannot be pinned");
    drop(two);
    let pinned = store.pin(&other).unwrap().unwrap();
    assert_eq!((pinned.hash, pinned.length), (other, 100_000));
    assert!(!store.remove_unless(&other, unneeded).unwrap());
    drop(pinned);
    looks_hold_nobody_up(&store, other);
}

/// While somebody looks whether a content is needed, others pin it and want it removed.
fn looks_hold_nobody_up(store: &BlobStore, other: BlobHash) {
    // Whoever pinned it may have committed a record that names it.
    let pins = || Ok::<_, io::Error>(store.pin(&other)?.is_none());
    assert!(!store.remove_unless(&other, pins).unwrap(), "a content went under a new record");
    assert_eq!(all(store), [other]);
    // Whoever wants it removed may have removed the record that was found.
    let looks = Cell::new(0);
    let needed = || {
        looks.set(looks.get() + 1);
        if looks.get() == 1 {
            let asked = store.remove_unless(&other, || Ok::<_, io::Error>(false));
            assert!(!asked.unwrap(), "two look at once");
        }
        Ok::<_, io::Error>(looks.get() == 1)
    };
    assert!(store.remove_unless(&other, needed).unwrap(), "nobody removes it");
    assert_eq!((looks.get(), all(store)), (2, Vec::new()));
}

#[test]
fn files_conform() {
    let dir = tempfile::tempdir().unwrap();
    suite(FileBlobs::open(&dir.path().join("media")).unwrap());
}

#[test]
fn memory_conforms() {
    suite(MemoryBlobs::default());
}

#[test]
fn a_hash_is_64_digits() {
    let hash = BlobHash([0xa7; 32]);
    assert_eq!(BlobHash::parse(&hash.to_string()), Some(hash));
    for bad in ["", "a7", &"A7".repeat(32), &"g7".repeat(32), &"a7".repeat(33)] {
        assert_eq!(BlobHash::parse(bad), None, "{bad}");
    }
}
