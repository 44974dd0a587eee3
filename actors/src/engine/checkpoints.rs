//! Makes checkpoints on a thread of its own, beside the writer and outside of all actors.

use std::io::{self, Write};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use postrider_domain::Timestamp;
use postrider_runtime::clock::Clock;
use postrider_runtime::task::lower_priority;
use postrider_store::checkpoints::Made;
use postrider_store::{
    CheckpointDir, CheckpointError, FreeSpace, LoadedSnapshot, Log as _, Position, StoreError,
};

use super::replica::CheckpointKeeper;
use super::{Durability, EngineOptions, StartError};
use crate::copies::DataSource;
use crate::metrics::{CheckpointFigures, NewestCheckpoint};

/// The interval between checks whether a checkpoint is due.
const BEAT: Duration = Duration::from_secs(1);
/// The maximum number of beats that are skipped after failures: about a quarter of an hour.
const PASSED_OVER_MAX: u32 = 1024;
/// The number of bytes after which the writer checks whether to go on.
const CHECKED_EVERY: u64 = 4 << 20;

/// The result of a check whether a checkpoint is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CheckpointAttempt {
    NotDue,
    Made,
    Failed,
}

/// Makes checkpoints while it lives.
pub(super) struct Checkpoints {
    maker: Arc<Maker>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Maker {
    data: DataSource,
    dir: CheckpointDir,
    /// Stores the checkpoints elsewhere, for other nodes.
    keeper: Option<Arc<dyn CheckpointKeeper>>,
    log_bytes_min: u64,
    clock: Clock,
    space: Option<Arc<dyn FreeSpace>>,
    free_bytes_min: u64,
    figures: CheckpointFigures,
    /// Locked while a checkpoint is made.
    making: Mutex<()>,
    stopping: (Mutex<bool>, Condvar),
}

impl Checkpoints {
    /// Starts to make checkpoints, if the options require them and the data is in a directory.
    pub(super) fn start(
        options: &EngineOptions,
        data: Option<&DataSource>,
    ) -> Result<Option<Arc<Self>>, StartError> {
        let (Some(log_bytes_min), Some(data)) = (options.checkpoint_log_bytes, data) else {
            return Ok(None);
        };
        let dir = data.checkpoints().clone();
        dir.prepare().map_err(failed)?;
        let keeper = match &options.durability {
            Durability::Replica(replica) => Some(Arc::clone(&replica.keeper)),
            _ => None,
        };
        let maker = Arc::new(Maker {
            data: data.clone(),
            log_bytes_min,
            clock: options.clock.clone(),
            space: options.measure(),
            free_bytes_min: options.free_bytes_min,
            figures: CheckpointFigures::default(),
            dir,
            keeper,
            making: Mutex::default(),
            stopping: Default::default(),
        });
        let (newest, needed_after) = maker.stored_checkpoints()?;
        maker.figures.set(newest);
        data.store().keep_for_checkpoints(needed_after)?;
        let of_thread = Arc::clone(&maker);
        let thread = std::thread::Builder::new().name("checkpoints".to_owned());
        let thread = thread.spawn(move || {
            lower_priority();
            of_thread.run();
        });
        let thread = thread.map_err(|error| StartError::Directory(error.to_string()))?;
        Ok(Some(Arc::new(Self { maker, thread: Mutex::new(Some(thread)) })))
    }

    pub(super) fn figures(&self) -> CheckpointFigures {
        self.maker.figures.clone()
    }

    /// Ends the thread, and abandons its unfinished checkpoint.
    pub(super) fn end(&self) {
        *self.maker.stopping.0.lock() = true;
        self.maker.stopping.1.notify_all();
    }

    /// Waits for the end of the thread. Blocks.
    pub(super) fn join(&self) {
        let thread = self.thread.lock().take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that made checkpoints panicked");
        }
    }

    /// Makes a checkpoint if it is due. Blocks.
    #[cfg(test)]
    pub(super) fn consider(&self) -> CheckpointAttempt {
        self.maker.consider()
    }
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        self.end();
    }
}

impl Maker {
    /// Returns the newest checkpoint, and the position after which the checkpoints need the log.
    fn stored_checkpoints(&self) -> Result<(Option<NewestCheckpoint>, Position), StartError> {
        let Some(keeper) = &self.keeper else {
            return Ok((newest(&self.dir)?, self.dir.log_needed_after().map_err(failed)?));
        };
        // An owner may have ended before it trimmed the log.
        let (newest, needed_after) = keeper.kept().map_err(failed)?;
        let newest = newest.map(|kept| NewestCheckpoint {
            position: kept.position,
            bytes: kept.bytes,
            made: kept.made,
        });
        Ok((newest, needed_after))
    }

    fn run(&self) {
        let (mut patience, mut passed_over) = (0, 0);
        while self.wait() {
            if passed_over > 0 {
                passed_over -= 1;
                continue;
            }
            let ended = self.consider();
            // If a checkpoint made no room, as a snapshot is late, the next beats do not repeat it.
            let no_room = ended == CheckpointAttempt::Made && self.is_crowded().unwrap_or(true);
            if ended == CheckpointAttempt::Failed || no_room {
                patience = (patience * 2).clamp(1, PASSED_OVER_MAX);
                passed_over = patience;
            } else {
                patience = 0;
            }
        }
    }

    /// Waits for the next beat. Returns `false` at the end.
    fn wait(&self) -> bool {
        let mut stopping = self.stopping.0.lock();
        if !*stopping {
            self.stopping.1.wait_for(&mut stopping, BEAT);
        }
        !*stopping
    }

    fn consider(&self) -> CheckpointAttempt {
        let _making = self.making.lock();
        let made = self.is_due().and_then(|due| if due { self.make().map(Some) } else { Ok(None) });
        match made {
            Ok(None) => CheckpointAttempt::NotDue,
            Ok(Some(newest)) => {
                self.figures.set(Some(newest));
                let NewestCheckpoint { position, bytes, .. } = newest;
                tracing::info!(position = position.0, bytes, "a checkpoint was made");
                CheckpointAttempt::Made
            }
            Err(CheckpointError::GivenUp(why)) if *self.stopping.0.lock() => {
                tracing::debug!(why, "a checkpoint was given up");
                CheckpointAttempt::Failed
            }
            Err(error) => {
                tracing::warn!(%error, "a checkpoint was not made; the log grows");
                CheckpointAttempt::Failed
            }
        }
    }

    /// Returns whether the log has outgrown the last checkpoint. If there is none and the log was
    /// trimmed, the view is the only copy of the earlier data.
    fn is_due(&self) -> Result<bool, CheckpointError> {
        let (newest, store) = (self.figures.newest(), self.data.store());
        let after = newest.map_or(Position::START, |newest| newest.position);
        let bytes = store.bytes_after(after).map_err(source)?;
        let bytes_min = self.log_bytes_min.max(newest.map_or(0, |newest| newest.bytes / 2));
        let bytes_max = self.keeper.as_ref().map_or(u64::MAX, |keeper| keeper.log_bytes_max());
        let bytes_min = bytes_min.min(bytes_max);
        let begins_after = store.begins_after().map_err(source)?;
        let is_only_copy = newest.is_none() && begins_after > Position::START;
        Ok(bytes > bytes_min || is_only_copy || self.is_crowded()?)
    }

    /// Returns whether the log is so large that only newer checkpoints keep it from being full.
    ///
    /// The bytes since the newest checkpoint do not show it. The bytes before it may be most of the
    /// log, and nothing more is written to a full one.
    fn is_crowded(&self) -> Result<bool, CheckpointError> {
        let Some(keeper) = &self.keeper else { return Ok(false) };
        let store = self.data.store();
        let is_large = || {
            // All bytes are counted, and none estimated.
            let bytes = store.bytes_after(store.begins_after()?)?;
            Ok(bytes > keeper.whole_log_bytes_max())
        };
        if !is_large().map_err(source)? {
            return Ok(false);
        }
        // This repeats a trim that failed, and requests nothing new.
        store.trim(Position::START).map_err(source)?;
        let after = self.figures.newest().map_or(Position::START, |newest| newest.position);
        let has_news = store.last_position().map_err(source)? > after;
        Ok(has_news && is_large().map_err(source)?)
    }

    fn make(&self) -> Result<NewestCheckpoint, CheckpointError> {
        let expected = self.figures.newest().map_or(0, |newest| newest.bytes);
        self.has_space(self.free_bytes_min.saturating_add(expected))?;
        let made = self.dir.write(|out| {
            let mut out =
                InterruptibleWriter { maker: self, out, written: 0, next_check: 0, why: None };
            let written = self.data.write_archive(Some(self.clock.now()), &mut out);
            match (written, out.why) {
                (Ok(_), _) => Ok(()),
                (Err(_), Some(why)) => Err(why),
                (Err(error), None) => Err(CheckpointError::Source(error.to_string())),
            }
        })?;
        let needed_after = match &self.keeper {
            Some(keeper) => self.keep_elsewhere(&**keeper, &made)?,
            None => made.log_needed_after,
        };
        // A failed trim does not matter here: the next one repeats it.
        if let Err(error) = self.data.store().keep_for_checkpoints(needed_after) {
            tracing::warn!(%error, "the log was not trimmed");
        }
        let made_at = Timestamp::from_millis(made.header.time_ms);
        let (position, bytes) = (made.checkpoint.position, made.checkpoint.bytes);
        Ok(NewestCheckpoint { position, bytes, made: made_at })
    }

    /// Stores a checkpoint where other nodes find it. The local copy is of no more use in any case.
    fn keep_elsewhere(
        &self,
        keeper: &dyn CheckpointKeeper,
        made: &Made,
    ) -> Result<Position, CheckpointError> {
        let kept = keeper.keep(made, self.data.store(), &|| *self.stopping.0.lock());
        if let Err(error) = made.checkpoint.remove() {
            tracing::warn!(%error, "a checkpoint that is kept elsewhere was not removed here");
        }
        kept
    }

    fn has_space(&self, needed: u64) -> Result<(), CheckpointError> {
        let Some(space) = &self.space else { return Ok(()) };
        let free = space.free_bytes().map_err(source)?;
        if free >= needed {
            return Ok(());
        }
        let what = format!("{needed} bytes must be free on the disk, and {free} are");
        Err(CheckpointError::GivenUp(what))
    }

    /// Checks whether to go on with a checkpoint.
    fn check_may_go_on(&self) -> Result<(), CheckpointError> {
        if *self.stopping.0.lock() {
            return Err(CheckpointError::GivenUp("the engine stops".to_owned()));
        }
        self.has_space(self.free_bytes_min / 2)
    }
}

/// Writes, and checks from time to time whether to go on.
struct InterruptibleWriter<'a> {
    maker: &'a Maker,
    out: &'a mut dyn Write,
    written: u64,
    next_check: u64,
    why: Option<CheckpointError>,
}

impl Write for InterruptibleWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.written >= self.next_check {
            self.next_check = self.written + CHECKED_EVERY;
            if let Err(why) = self.maker.check_may_go_on() {
                self.why = Some(why);
                return Err(io::Error::other("it was given up"));
            }
        }
        let written = self.out.write(bytes)?;
        self.written += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn newest(dir: &CheckpointDir) -> Result<Option<NewestCheckpoint>, StartError> {
    for checkpoint in dir.all().map_err(failed)? {
        match checkpoint.header() {
            Ok(header) => {
                let made = Timestamp::from_millis(header.time_ms);
                let (position, bytes) = (checkpoint.position, checkpoint.bytes);
                return Ok(Some(NewestCheckpoint { position, bytes, made }));
            }
            Err(error) => tracing::warn!(%error, "a checkpoint is damaged"),
        }
    }
    Ok(None)
}

/// Returns the hot states of the newest whole checkpoint from which the log continues.
pub(super) fn hot_states(data: &DataSource) -> Result<Option<LoadedSnapshot>, StartError> {
    for checkpoint in data.checkpoints().all().map_err(failed)? {
        let at = data.store().leads_on_from(&checkpoint);
        match at.and_then(|at| Ok((at.position, checkpoint.states(&|| false)?))) {
            Ok((position, entries)) => {
                return Ok(Some(LoadedSnapshot { position, entries, warnings: Vec::new() }));
            }
            Err(error) => tracing::warn!(%error, "a checkpoint is passed over"),
        }
    }
    Ok(None)
}

fn source(error: StoreError) -> CheckpointError {
    CheckpointError::Source(error.to_string())
}

fn failed(error: CheckpointError) -> StartError {
    StartError::Directory(error.to_string())
}
