//! Contents that were fetched to the node to be read: readers of a shard's content share one file.
//!
//! The fetches at once, the waiting ones and the bytes on the disk are bounded. A reader of a
//! content that is being fetched waits for that fetch, and takes no place of its own. Shards share
//! nothing: one shard may have a content that another lacks or cannot fetch.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use postrider_actors::store::blobs::BlobHash;
use postrider_cluster::checkpoints::Digest;
use tempfile::NamedTempFile;

use super::places::Places;

/// The maximum number of fetches at once.
const FETCHES_MAX: usize = 8;
/// The maximum number that wait for that; more are refused.
const WAITING_MAX: usize = 64;
/// The maximum number of bytes of contents on the disk for readers; more are refused.
const BYTES_MAX: u64 = 2 << 30;
/// The maximum number that wait for fetches of others; more are refused. Each blocks a thread.
const JOINED_MAX: usize = 128;
/// The timeout of a wait for another's fetch, which may wait for a place itself.
const JOINED_WITHIN: Duration = Duration::from_secs(120);

/// The contents that are being read.
#[derive(Debug)]
pub(super) struct Fetched {
    dir: PathBuf,
    places: Places,
    contents: Mutex<HashMap<Key, Known>>,
    joined: AtomicUsize,
    bytes: Arc<AtomicU64>,
}

/// A shard, and the hash of one of its contents.
type Key = (u16, BlobHash);

/// A content that is being read or fetched.
#[derive(Debug)]
enum Known {
    Read(Weak<Content>),
    Coming(Arc<Coming>),
}

/// A fetch that others may wait for, and its outcome.
#[derive(Debug, Default)]
struct Coming {
    outcome: Mutex<Option<Outcome>>,
    ended: Condvar,
}

/// The outcome of a fetch; `None`: the content was not found.
type Outcome = Result<Option<Arc<Content>>, String>;

/// A content on the disk. Its file has no name any more, and is freed after the last reader.
#[derive(Debug)]
pub(super) struct Content {
    file: File,
    room: Room,
}

impl Content {
    pub(super) fn length(&self) -> u64 {
        self.room.length
    }

    pub(super) fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(bytes, offset)
    }
}

/// The bytes that a content occupies on the disk.
#[derive(Debug)]
struct Room {
    length: u64,
    of: Arc<AtomicU64>,
}

impl Room {
    fn take(of: &Arc<AtomicU64>, length: u64) -> io::Result<Self> {
        let more = |bytes: u64| bytes.checked_add(length).filter(|it| *it <= BYTES_MAX);
        let taken = of.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        taken.map_err(|_| io::Error::other("too many bytes of files are read at once"))?;
        Ok(Self { length, of: of.clone() })
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.of.fetch_sub(self.length, Ordering::AcqRel);
    }
}

/// Locks a mutex. No holder of it panics.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Fetched {
    /// Makes an empty set of contents with files in this directory.
    pub(super) fn new(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            places: Places::new(FETCHES_MAX, WAITING_MAX),
            contents: Mutex::default(),
            joined: AtomicUsize::new(0),
            bytes: Arc::default(),
        }
    }

    /// Returns a content of a shard, from its readers or by fetching it. Blocks.
    ///
    /// `find` returns its name and length, and `fetch` writes it to a file. `None`: it was not
    /// found.
    pub(super) fn get(
        &self,
        shard: u16,
        hash: &BlobHash,
        find: impl FnOnce() -> io::Result<Option<(String, u64)>>,
        fetch: impl FnOnce(&str, &Path) -> io::Result<Digest>,
    ) -> io::Result<Option<Arc<Content>>> {
        let (key, mut was_missing) = ((shard, *hash), false);
        let coming = loop {
            let mut contents = locked(&self.contents);
            let joined = match contents.get(&key) {
                Some(Known::Read(content)) => match content.upgrade() {
                    Some(content) => return Ok(Some(content)),
                    None => None,
                },
                Some(Known::Coming(coming)) => Some(Arc::clone(coming)),
                None => None,
            };
            let Some(joined) = joined else {
                let coming = Arc::<Coming>::default();
                contents.insert(key, Known::Coming(Arc::clone(&coming)));
                break coming;
            };
            drop(contents);
            let found = self.join(&joined)?;
            // The first fetch may have looked before this request; the second has looked since.
            if found.is_some() || std::mem::replace(&mut was_missing, true) {
                return Ok(found);
            }
        };
        let mut fetching = Fetching { of: self, key, coming, outcome: None };
        let fetched = self.find_and_fetch(hash, find, fetch);
        fetching.outcome = Some(fetched.as_ref().map(Clone::clone).map_err(ToString::to_string));
        fetched
    }

    fn find_and_fetch(
        &self,
        hash: &BlobHash,
        find: impl FnOnce() -> io::Result<Option<(String, u64)>>,
        fetch: impl FnOnce(&str, &Path) -> io::Result<Digest>,
    ) -> io::Result<Option<Arc<Content>>> {
        let _place = self.places.take()?;
        let Some((name, length)) = find()? else { return Ok(None) };
        let room = Room::take(&self.bytes, length)?;
        let file = NamedTempFile::new_in(&self.dir)?;
        let digest = fetch(&name, file.path())?;
        if digest != (Digest { sha256: hash.0, bytes: length }) {
            return Err(io::Error::other(format!("the content {name} is not what was stored")));
        }
        Ok(Some(Arc::new(Content { file: File::open(file.path())?, room })))
    }

    /// Waits for another's fetch.
    fn join(&self, coming: &Coming) -> io::Result<Option<Arc<Content>>> {
        let more = |joined: usize| (joined < JOINED_MAX).then_some(joined + 1);
        let joined = self.joined.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        joined.map_err(|_| io::Error::other("too many wait for files"))?;
        let outcome = locked(&coming.outcome);
        let within = coming.ended.wait_timeout_while(outcome, JOINED_WITHIN, |it| it.is_none());
        let outcome = within.unwrap_or_else(PoisonError::into_inner).0.clone();
        self.joined.fetch_sub(1, Ordering::AcqRel);
        let outcome = outcome.unwrap_or_else(|| Err("a file is long on its way".to_owned()));
        outcome.map_err(io::Error::other)
    }
}

/// A fetch under way. However it ends, that is the outcome for all who wait for it.
struct Fetching<'a> {
    of: &'a Fetched,
    key: Key,
    coming: Arc<Coming>,
    outcome: Option<Outcome>,
}

impl Drop for Fetching<'_> {
    fn drop(&mut self) {
        let given_up = || Err("the fetch of a content was given up".to_owned());
        let outcome = self.outcome.take().unwrap_or_else(given_up);
        let mut contents = locked(&self.of.contents);
        contents.remove(&self.key);
        contents.retain(|_, known| match known {
            Known::Read(content) => content.strong_count() > 0,
            Known::Coming(_) => true,
        });
        if let Ok(Some(content)) = &outcome {
            contents.insert(self.key, Known::Read(Arc::downgrade(content)));
        }
        drop(contents);
        *locked(&self.coming.outcome) = Some(outcome);
        self.coming.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use postrider_actors::clock::Stopwatch;

    use super::*;

    const BYTES: &[u8] = b"a content";

    fn hash() -> BlobHash {
        let dir = tempfile::tempdir().unwrap();
        BlobHash(write(&dir.path().join("content")).unwrap().sha256)
    }

    fn write(to: &Path) -> io::Result<Digest> {
        std::fs::write(to, BYTES)?;
        Digest::of_file(to).map_err(io::Error::other)
    }

    fn found(length: u64) -> io::Result<Option<(String, u64)>> {
        Ok(Some(("name".to_owned(), length)))
    }

    #[test]
    fn who_reads_the_same_shares_one_file_without_a_name() {
        let dir = tempfile::tempdir().unwrap();
        let (fetched, hash, fetches) = (Fetched::new(dir.path()), hash(), AtomicU64::new(0));
        let get = || {
            let fetch = |_: &str, to: &Path| {
                fetches.fetch_add(1, Ordering::Relaxed);
                write(to)
            };
            fetched.get(1, &hash, || found(9), fetch).unwrap().unwrap()
        };
        let all: Vec<_> = std::thread::scope(|scope| {
            let reading: Vec<_> = (0..40).map(|_| scope.spawn(get)).collect();
            reading.into_iter().map(|it| it.join().unwrap()).collect()
        });
        assert_eq!(fetches.load(Ordering::Relaxed), 1);
        assert_eq!(fetched.bytes.load(Ordering::Relaxed), 9);
        assert_eq!(dir.path().read_dir().unwrap().count(), 0, "it has a name");
        let mut read = [0; 7];
        all[39].read_exact_at(&mut read, 2).unwrap();
        assert_eq!((&read[..], all[0].length()), (&BYTES[2..], 9));
        drop(all);
        assert_eq!(fetched.bytes.load(Ordering::Relaxed), 0);
        drop(get());
        assert_eq!(fetches.load(Ordering::Relaxed), 2);
    }

    /// Starts a fetch, and other reads of the same content before it ends; returns each outcome.
    ///
    /// Counts the looks for the content.
    fn read_by(
        fetched: &Fetched,
        readers: usize,
        looks: &AtomicUsize,
        found: fn() -> io::Result<Option<(String, u64)>>,
        ending: fn(&Path) -> io::Result<Digest>,
    ) -> Vec<Option<bool>> {
        let hash = hash();
        // The first one ends when the maximum number of readers wait.
        let find = || {
            let waiting = (readers - 1).min(JOINED_MAX);
            let begun = Stopwatch::start();
            while looks.load(Ordering::Acquire) == 0
                && fetched.joined.load(Ordering::Acquire) < waiting
                && begun.elapsed() < Duration::from_secs(20)
            {
                std::thread::yield_now();
            }
            looks.fetch_add(1, Ordering::AcqRel);
            // Another content does not wait for this one, and neither does another shard.
            for (shard, hash) in [(1, BlobHash([hash.0[0]; 32])), (2, hash)] {
                let read = fetched.get(shard, &hash, || Ok(None), |_, _| unreachable!());
                assert!(read.unwrap().is_none());
            }
            found()
        };
        let get = || {
            let read = fetched.get(1, &hash, find, |_, to| ending(to));
            read.ok().map(|content| content.is_some())
        };
        let read = std::thread::scope(|scope| {
            let reading: Vec<_> = (0..readers).map(|_| scope.spawn(get)).collect();
            reading.into_iter().map(|it| it.join().unwrap_or(None)).collect()
        });
        assert_eq!(fetched.joined.load(Ordering::Acquire), 0);
        read
    }

    #[test]
    fn who_waits_for_a_fetch_takes_no_place_of_another() {
        let dir = tempfile::tempdir().unwrap();
        let (fetched, looks) = (Fetched::new(dir.path()), AtomicUsize::new(0));
        let readers = FETCHES_MAX + WAITING_MAX + 28;
        let read = read_by(&fetched, readers, &looks, || found(9), write);
        assert!(read.iter().all(|read| *read == Some(true)), "{read:?}");
        // A reader who comes after all others have finished starts another fetch.
        assert!(looks.load(Ordering::Acquire) < readers / 2, "{looks:?}");
    }

    #[test]
    fn a_fetch_that_fails_or_panics_fails_for_all_who_wait_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let endings: [fn(&Path) -> io::Result<Digest>; 2] =
            [|_| Err(io::Error::other("NATS is away")), |_| panic!("a fault")];
        for ending in endings {
            let (fetched, looks) = (Fetched::new(dir.path()), AtomicUsize::new(0));
            let read = read_by(&fetched, 20, &looks, || found(9), ending);
            assert!(read.iter().all(|read| read.is_none()), "{read:?}");
            assert!(fetched.contents.lock().unwrap().is_empty());
            assert!(fetched.get(1, &hash(), || found(9), |_, to| write(to)).unwrap().is_some());
        }
    }

    #[test]
    fn what_is_missing_is_so_for_all_who_wait() {
        let dir = tempfile::tempdir().unwrap();
        let (fetched, looks) = (Fetched::new(dir.path()), AtomicUsize::new(0));
        let read = read_by(&fetched, 60, &looks, || Ok(None), write);
        assert!(read.iter().all(|read| *read == Some(false)), "{read:?}");
        assert!(fetched.contents.lock().unwrap().is_empty());
    }

    #[test]
    fn what_one_shard_lacks_another_may_have() {
        let dir = tempfile::tempdir().unwrap();
        let (fetched, hash) = (Fetched::new(dir.path()), hash());
        let write = |_: &str, to: &Path| write(to);
        let failed = |_: &str, _: &Path| Err(io::Error::other("NATS is away"));
        let never = |_: &str, _: &Path| -> io::Result<Digest> { panic!("it is fetched") };
        let find = || {
            // While one shard looks, another has the content, and a third one fails.
            assert!(fetched.get(2, &hash, || found(9), write).unwrap().is_some());
            assert!(fetched.get(3, &hash, || found(9), failed).is_err());
            Ok(None)
        };
        assert!(fetched.get(1, &hash, find, never).unwrap().is_none());
        let _read = fetched.get(2, &hash, || found(9), write).unwrap().unwrap();
        assert!(fetched.get(1, &hash, || Ok(None), never).unwrap().is_none(), "it has none");
    }

    #[test]
    fn what_is_too_much_or_not_the_same_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (fetched, hash) = (Fetched::new(dir.path()), hash());
        let never = |_: &str, _: &Path| -> io::Result<Digest> { panic!("it is fetched") };
        assert!(fetched.get(1, &hash, || Ok(None), never).unwrap().is_none());
        let full = Room::take(&fetched.bytes, BYTES_MAX - 8).unwrap();
        assert!(fetched.get(1, &hash, || found(9), never).is_err());
        drop(full);
        assert!(fetched.get(1, &hash, || found(10), |_, to| write(to)).is_err());
        let other = BlobHash([0; 32]);
        assert!(fetched.get(1, &other, || found(9), |_, to| write(to)).is_err());
        assert_eq!(fetched.bytes.load(Ordering::Relaxed), 0);
        assert!(fetched.get(1, &hash, || found(9), |_, to| write(to)).unwrap().is_some());
    }
}
