//! Watches whether this node's disk takes writes; while it does not, other nodes own the shards.
//!
//! An engine that cannot write may lack its log, and an engine on another node would lack it too.
//! So the disk itself is tried when there is a doubt, and now and then without one. A disk that
//! hangs or is almost full need not show in the node's work.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use postrider_actors::store::{DirectorySpace, FreeSpace};
use postrider_cluster::clock::{BootClock, SteadyClock};

/// The file that a try writes in the data directory.
const NAME: &str = "disk.try";
const BYTES: usize = 1 << 20;
/// The intervals between two tries, with a doubt and without one, in milliseconds.
const AGAIN_AFTER_MS: u64 = 1_000;
const EVERY_MS: u64 = 10_000;
/// The interval between checks whether a try is due.
const LOOK_EVERY_MS: u64 = 100;
/// A disk that takes longer for a try counts as failing, in milliseconds.
const WITHIN_MS: u64 = 5_000;
/// No try is under way.
const NONE: u64 = u64::MAX;
/// The results of the last try.
const WELL: u8 = 0;
const FULL: u8 = 1;
const FAILING: u8 = 2;

/// The reason why a try failed.
#[derive(Debug, thiserror::Error)]
enum TryError {
    #[error("{free} bytes are free, of at least {min}")]
    Low { free: u64, min: u64 },
    #[error(transparent)]
    Full(io::Error),
    #[error(transparent)]
    Failed(io::Error),
    #[error("it took too long")]
    Slow,
}

impl From<io::Error> for TryError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full(error),
            _ => Self::Failed(error),
        }
    }
}

/// The disk. Clones are of the same one.
#[derive(Clone)]
pub(super) struct Disk(Arc<Inner>);

struct Inner {
    directory: PathBuf,
    /// Below this number of free bytes engines refuse writes that grow the data.
    free_bytes_min: u64,
    space: Box<dyn FreeSpace>,
    clock: Arc<dyn SteadyClock>,
    /// One of [`WELL`], [`FULL`] and [`FAILING`].
    state: AtomicU8,
    /// Set if the disk was full since it was last well.
    was_full: AtomicBool,
    is_doubted: AtomicBool,
    /// The start of the try under way, and the end of the last one.
    began: AtomicU64,
    ended: AtomicU64,
}

impl Disk {
    /// Returns the disk of a data directory, which is watched until all clones are dropped.
    pub(super) fn watched(directory: &Path, free_bytes_min: u64) -> Self {
        let space = Box::new(DirectorySpace(directory.to_owned()));
        let disk = Self::new(directory, free_bytes_min, space, Arc::new(BootClock));
        disk.watch();
        disk
    }

    fn new(
        directory: &Path,
        free_bytes_min: u64,
        space: Box<dyn FreeSpace>,
        clock: Arc<dyn SteadyClock>,
    ) -> Self {
        let (state, was_full, is_doubted) = <(AtomicU8, AtomicBool, AtomicBool)>::default();
        let (began, ended) = (AtomicU64::new(NONE), AtomicU64::new(0));
        let directory = directory.to_owned();
        Self(Arc::new(Inner {
            directory,
            free_bytes_min,
            space,
            clock,
            state,
            was_full,
            is_doubted,
            began,
            ended,
        }))
    }

    fn watch(&self) {
        let (disk, clock) = (Arc::downgrade(&self.0), self.0.clock.clone());
        let tries = move || {
            while let Some(disk) = disk.upgrade() {
                if disk.is_due() {
                    disk.look();
                }
                drop(disk);
                clock.wait_ms(LOOK_EVERY_MS);
            }
        };
        if let Err(error) = std::thread::Builder::new().name("disk".to_owned()).spawn(tries) {
            tracing::warn!(%error, "the disk is not watched");
        }
    }

    /// Returns whether the last try failed, or the one under way takes too long.
    pub(super) fn is_failing(&self) -> bool {
        self.0.state() != WELL || self.0.hangs()
    }

    /// Returns whether it fails only for lack of free space: existing data can be read.
    pub(super) fn lacks_space(&self) -> bool {
        self.0.state() == FULL && !self.0.hangs()
    }

    /// Requests a try within a second. Does not block.
    pub(super) fn doubt(&self) {
        self.0.is_doubted.store(true, Ordering::Release);
    }
}

impl Inner {
    fn state(&self) -> u8 {
        self.state.load(Ordering::Acquire)
    }

    fn hangs(&self) -> bool {
        let began = self.began.load(Ordering::Acquire);
        began != NONE && self.clock.now_ms() > began.saturating_add(WITHIN_MS)
    }

    fn is_due(&self) -> bool {
        let is_doubted = self.is_doubted.load(Ordering::Acquire) || self.state() != WELL;
        let rest = if is_doubted { AGAIN_AFTER_MS } else { EVERY_MS };
        self.clock.now_ms() >= self.ended.load(Ordering::Acquire).saturating_add(rest)
    }

    /// Tries the disk once, and returns whether it takes writes.
    fn look(&self) -> bool {
        // Reset before the try: a doubt that comes during it causes one more try.
        self.is_doubted.store(false, Ordering::Release);
        let before = self.state();
        self.began.store(self.clock.now_ms(), Ordering::Release);
        let mut tried = self.tried(self.was_full.load(Ordering::Acquire));
        if self.hangs() {
            tried = tried.and(Err(TryError::Slow));
        }
        let state = match &tried {
            Ok(()) => WELL,
            Err(TryError::Low { .. } | TryError::Full(_)) => FULL,
            Err(TryError::Failed(_) | TryError::Slow) => FAILING,
        };
        self.state.store(state, Ordering::Release);
        match state {
            WELL => self.was_full.store(false, Ordering::Release),
            FULL => self.was_full.store(true, Ordering::Release),
            _ => {}
        }
        self.began.store(NONE, Ordering::Release);
        self.ended.store(self.clock.now_ms(), Ordering::Release);
        match &tried {
            Ok(()) if before != WELL => tracing::info!("the disk takes what is written again"),
            Err(error) if before != state => {
                tracing::warn!(%error, "the disk takes nothing: other nodes shall own the shards");
            }
            Ok(()) | Err(_) => {}
        }
        tried.is_ok()
    }

    /// Writes a file and removes it. A disk that was almost full must have some more room.
    fn tried(&self, was_full: bool) -> Result<(), TryError> {
        let path = self.directory.join(NAME);
        let written = File::create(&path).and_then(|mut file| {
            file.write_all(&[0x5a; BYTES])?;
            file.sync_all()
        });
        let removed = match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
        written.and(removed)?;
        let free = self.space.free_bytes().map_err(io::Error::other)?;
        let more = if was_full { self.free_bytes_min / 4 } else { 0 };
        let min = self.free_bytes_min.saturating_add(more);
        if free < min {
            return Err(TryError::Low { free, min });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use postrider_actors::store::StoreError;

    use super::*;

    /// A number of free bytes that the test sets.
    #[derive(Clone, Default)]
    struct Free(Arc<AtomicU64>);

    impl FreeSpace for Free {
        fn free_bytes(&self) -> Result<u64, StoreError> {
            Ok(self.0.load(Ordering::Relaxed))
        }
    }

    /// A clock that advances by this step whenever it is read.
    #[derive(Debug, Default)]
    struct Stepping {
        now: AtomicU64,
        step: AtomicU64,
    }

    impl SteadyClock for Stepping {
        fn now_ms(&self) -> u64 {
            self.now.fetch_add(self.step.load(Ordering::Relaxed), Ordering::Relaxed)
        }

        fn wait_ms(&self, for_ms: u64) {
            self.now.fetch_add(for_ms, Ordering::Relaxed);
        }
    }

    struct Rig {
        dir: tempfile::TempDir,
        free: Free,
        clock: Arc<Stepping>,
        disk: Disk,
    }

    /// Makes a disk with 100 free bytes, which fails below this minimum.
    fn rig(free_bytes_min: u64) -> Rig {
        let (dir, free) = (tempfile::tempdir().unwrap(), Free::default());
        free.0.store(100, Ordering::Relaxed);
        let clock = Arc::new(Stepping::default());
        let space = Box::new(free.clone());
        let disk = Disk::new(&dir.path().join("data"), free_bytes_min, space, clock.clone());
        Rig { dir, free, clock, disk }
    }

    #[test]
    fn a_disk_fails_without_its_directory_and_with_too_little_room() {
        let Rig { dir, free, disk, .. } = rig(80);
        assert!(!disk.0.look() && disk.is_failing(), "there is no directory");
        fs::create_dir(dir.path().join("data")).unwrap();
        assert!(disk.0.look() && !disk.is_failing());
        assert!(fs::read_dir(dir.path().join("data")).unwrap().next().is_none(), "nothing is left");
        free.0.store(79, Ordering::Relaxed);
        assert!(!disk.0.look() && disk.is_failing(), "it has less room than there must be");
        free.0.store(99, Ordering::Relaxed);
        assert!(!disk.0.look(), "more room is wanted before shards come back");
        assert!(disk.lacks_space(), "what it has can be read");
        free.0.store(100, Ordering::Relaxed);
        assert!(disk.0.look() && !disk.lacks_space());
    }

    #[test]
    fn a_disk_that_was_slow_needs_no_more_space_than_any_other() {
        let Rig { dir, free, clock, disk } = rig(80);
        fs::create_dir(dir.path().join("data")).unwrap();
        free.0.store(81, Ordering::Relaxed);
        clock.step.store(WITHIN_MS + 1, Ordering::Relaxed);
        assert!(!disk.0.look() && !disk.lacks_space());
        clock.step.store(0, Ordering::Relaxed);
        assert!(disk.0.look() && !disk.is_failing());
        // A disk that was full does, also after it was slow.
        let path = dir.path().join("data").join(NAME);
        std::os::unix::fs::symlink("/dev/full", path).unwrap();
        assert!(!disk.0.look() && disk.lacks_space(), "nothing more can be written");
        free.0.store(200, Ordering::Relaxed);
        clock.step.store(WITHIN_MS + 1, Ordering::Relaxed);
        assert!(!disk.0.look() && !disk.lacks_space());
        clock.step.store(0, Ordering::Relaxed);
        free.0.store(81, Ordering::Relaxed);
        assert!(!disk.0.look() && disk.lacks_space());
        free.0.store(100, Ordering::Relaxed);
        assert!(disk.0.look() && !disk.is_failing());
    }

    #[test]
    fn a_disk_that_hangs_fails_before_it_answers() {
        let Rig { dir, clock, disk, .. } = rig(0);
        fs::create_dir(dir.path().join("data")).unwrap();
        assert!(disk.0.look());
        clock.wait_ms(100_000);
        assert!(!disk.is_failing(), "no try is under way");
        disk.0.began.store(clock.now_ms(), Ordering::Release);
        clock.wait_ms(WITHIN_MS);
        assert!(!disk.is_failing());
        clock.wait_ms(1);
        assert!(disk.is_failing());
        clock.step.store(WITHIN_MS + 1, Ordering::Relaxed);
        assert!(!disk.0.look() && disk.is_failing(), "it took the bytes, and too long");
        clock.step.store(0, Ordering::Relaxed);
        assert!(disk.0.look() && !disk.is_failing());
    }

    #[test]
    fn a_disk_is_tried_soon_when_it_is_doubted_or_fails_and_now_and_then_otherwise() {
        let Rig { dir, clock, disk, .. } = rig(0);
        let due_after = |wait: u64| {
            clock.wait_ms(wait - 1);
            let is_early = disk.0.is_due();
            clock.wait_ms(1);
            !is_early && disk.0.is_due()
        };
        assert!(due_after(EVERY_MS), "a node that only stands by is watched too");
        assert!(!disk.0.look() && due_after(AGAIN_AFTER_MS));
        fs::create_dir(dir.path().join("data")).unwrap();
        assert!(disk.0.look() && due_after(EVERY_MS));
        disk.0.look();
        disk.doubt();
        assert!(due_after(AGAIN_AFTER_MS));
        assert!(disk.0.look() && !disk.0.is_due(), "it is doubted no more");
    }
}
