//! The contract of every store of contents, run on each of them.

use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use parking_lot::Mutex;

use super::{BlobHash, BlobReader, BlobStore, BlobWriter, Blobs, FileBlobs, MemoryBlobs, Pinned};

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
    // The same bytes in other parts are the same content.
    let again = keep(&store, &[b"one content"]);
    assert_eq!((one.hash, one.length), (again.hash, 11));
    let two = keep(&store, &[&[7; 100_000]]);
    let (hash, other) = (one.hash, two.hash);
    let mut expected = [hash, other];
    expected.sort_unstable();
    assert_eq!(all(&store), expected);
    assert_eq!(read(&store, &hash).unwrap(), b"one content");
    assert_eq!(read(&store, &other).unwrap(), [7; 100_000]);
    // A content that is given up leaves nothing.
    let mut given_up = store.begin().unwrap();
    given_up.write(b"never").unwrap();
    drop(given_up);
    assert_eq!(all(&store), expected);
    // It stays while it is pinned, and while it is needed.
    assert!(!store.remove_unless(&hash, unneeded).unwrap());
    drop(one);
    assert!(!store.remove_unless(&hash, unneeded).unwrap());
    drop(again);
    assert!(!store.remove_unless(&hash, || Ok::<_, io::Error>(true)).unwrap());
    let unknown = || Err::<bool, _>(io::Error::other("is not known"));
    assert!(store.remove_unless(&hash, unknown).is_err());
    assert_eq!(all(&store), expected);
    // A reader in progress continues.
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

/// While one task checks whether a content is needed, others pin it and want it removed.
fn looks_hold_nobody_up(store: &BlobStore, other: BlobHash) {
    // The task that pinned it may have committed a record that names it.
    let pins = || Ok::<_, io::Error>(store.pin(&other)?.is_none());
    assert!(!store.remove_unless(&other, pins).unwrap(), "a content went under a new record");
    assert_eq!(all(store), [other]);
    // The task that wants it removed may have removed the record that was found.
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

/// Contents whose removal waits for a permission, and is reported when it starts.
struct Slow {
    contents: MemoryBlobs,
    began: Sender<()>,
    may: Mutex<Receiver<()>>,
}

impl Blobs for Slow {
    fn begin(&self) -> io::Result<Box<dyn BlobWriter>> {
        self.contents.begin()
    }

    fn open(&self, hash: &BlobHash) -> io::Result<Option<Box<dyn BlobReader>>> {
        self.contents.open(hash)
    }

    fn remove(&self, hash: &BlobHash) -> io::Result<()> {
        self.began.send(()).unwrap();
        // The wait is bounded, so that a lock that is held meanwhile is a failure and no deadlock.
        self.may
            .lock()
            .recv_timeout(std::time::Duration::from_secs(60))
            .map_err(io::Error::other)?;
        self.contents.remove(hash)
    }

    fn list(&self, first: u8) -> io::Result<Vec<BlobHash>> {
        self.contents.list(first)
    }
}

#[test]
fn a_slow_removal_holds_up_only_who_pins_the_same() {
    let ((began, begins), (may, waits)) = (channel(), channel());
    let slow = Slow { contents: MemoryBlobs::default(), began, may: Mutex::new(waits) };
    let store = BlobStore::new(Arc::new(slow));
    let (one, other) = (keep(&store, &[b"one"]), keep(&store, &[b"other"]));
    let hash = one.hash;
    drop(one);
    let unneeded = || Ok::<_, io::Error>(false);
    std::thread::scope(|scope| {
        let removal = scope.spawn(|| store.remove_unless(&hash, unneeded).unwrap());
        begins.recv().unwrap();
        assert!(!store.remove_unless(&hash, unneeded).unwrap(), "it goes already");
        assert!(!store.remove_unless(&other.hash, unneeded).unwrap(), "it is pinned");
        let third = keep(&store, &[b"third"]);
        drop((other, third));
        let again = scope.spawn(|| keep(&store, &[b"one"]));
        may.send(()).unwrap();
        assert!(removal.join().unwrap());
        drop(again.join().unwrap());
        assert_eq!(read(&store, &hash).unwrap(), b"one", "it was stored before it was removed");
    });
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
