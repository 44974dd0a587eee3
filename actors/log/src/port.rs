//! Pure: the port to an append-only log of one shard with one writer.

use std::fmt::Debug;
use std::ops::ControlFlow;

use bytes::Bytes;

use crate::body::Claim;
use crate::chain::{Chain, ChainFault};
use crate::commit_parts::{Commit, EncodeError, Joiner, Next, encode_commit};
use crate::entry::{Entry, EntryFault, EntryHash, Header, Kind, LogId, Position};

/// An append-only log of one shard.
///
/// Every method blocks; one that calls over a network must have an internal deadline.
///
/// After a start and after a failed append, the first entry must be a claim, which raises the
/// epoch: [`claim`] appends it. So entries of an earlier writer are refused.
pub trait Log: Debug + Send + Sync + 'static {
    /// Returns the identity of the log.
    fn id(&self) -> LogId;

    /// Returns the maximum bytes of one entry. A larger commit must be cut into parts.
    fn entry_bytes_max(&self) -> usize;

    /// Returns the end of the log.
    ///
    /// It is authoritative: it includes all appends of every writer before the call.
    ///
    /// # Errors
    /// [`LogError::Failed`] if the end is unknown, as after [`AppendError::Unknown`].
    fn tail(&self) -> Result<Tail, LogError>;

    /// Appends the entries of one commit: one entry, or all parts.
    ///
    /// All of them are durable when it returns `Ok`. The first one must have the position `at`.
    ///
    /// # Errors
    /// See [`AppendError`]. After [`AppendError::Unknown`] every append is refused until
    /// [`reopen`](Self::reopen) has succeeded.
    fn append(&self, at: Position, entries: &[Bytes]) -> Result<(), AppendError>;

    /// Visits the entries from `from` on, oldest first, up to the end at the time of the call.
    ///
    /// It checks every entry and its link to the one before it. Parts of a commit whose last part
    /// is missing are visited too; [`read_commits`] leaves them out.
    ///
    /// # Errors
    /// [`LogError::Trimmed`] if `from` is before the first entry, [`LogError::Damaged`] and
    /// [`LogError::Newer`] if an entry cannot be read. The entries visited before are valid.
    fn read(
        &self,
        from: Position,
        visit: &mut dyn FnMut(Entry) -> ControlFlow<()>,
    ) -> Result<(), LogError>;

    /// Returns the entry at a position; `None` if the log ends before it.
    ///
    /// It is authoritative, as the tail is.
    ///
    /// # Errors
    /// Those of [`read`](Self::read); [`LogError::Failed`] behind the end if that is unknown.
    fn entry(&self, at: Position) -> Result<Option<Bytes>, LogError>;

    /// Returns the approximate bytes of the entries after `after`; 0 at the end.
    ///
    /// # Errors
    /// [`LogError::Failed`] if the log cannot be reached.
    fn bytes_after(&self, after: Position) -> Result<u64, LogError>;

    /// Deletes entries up to and including `through`: as many of the oldest as it can.
    ///
    /// The last commit always stays. Trimmed entries may return after a crash.
    ///
    /// # Errors
    /// [`LogError::Failed`]; some of the entries may have been deleted.
    fn trim(&self, through: Position) -> Result<(), LogError>;

    /// Opens the log again after a failure.
    ///
    /// The entries that it shows from then on are durable. It does nothing to a log that works.
    ///
    /// # Errors
    /// Those of opening the log the first time. The caller may try again.
    fn reopen(&self) -> Result<Tail, LogError>;

    /// Returns the reason why appends will fail soon, as long as it holds. A call may try to remove
    /// it.
    fn problem(&self) -> Option<String> {
        None
    }

    /// Fails if a commit of so many bytes would be refused, because the log is full.
    ///
    /// The rest of the space is for claims, handoffs and checkpoints.
    ///
    /// # Errors
    /// The reason.
    fn has_room(&self, _bytes: usize) -> Result<(), String> {
        Ok(())
    }

    /// Returns the number of its files, if it is in files.
    fn segments(&self) -> usize {
        0
    }

    /// Marks a clean stop, after which every append is refused.
    ///
    /// The next start then trusts the end of the log without a repair.
    ///
    /// # Errors
    /// [`LogError::Failed`]: the next start repairs the end, as after a crash.
    fn close(&self) -> Result<(), LogError>;
}

/// The end of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tail {
    /// The log.
    pub log: LogId,
    /// The shard of the log.
    pub shard: u16,
    /// The position of the oldest kept entry, or of the first one to come.
    pub first: Position,
    /// The position of the last entry, or the one before the first entry to come.
    pub last: Position,
    /// The last epoch; a writer's must be higher.
    pub epoch: u64,
    /// The hash of the last entry, which the next one names.
    pub hash: EntryHash,
    /// The header of the last entry; `None` while there is no entry.
    pub header: Option<Header>,
}

impl Tail {
    /// Returns the place of the next commit of a writer of this epoch.
    #[must_use]
    pub const fn next(&self, epoch: u64) -> Next {
        let Self { log, shard, last, hash, .. } = self;
        Next { log: *log, shard: *shard, position: last.next(), epoch, prev: *hash }
    }

    /// Returns the tail of a log whose entries are this chain.
    #[must_use]
    pub(crate) const fn of(chain: &Chain, first: Position, header: Option<Header>) -> Self {
        let (log, shard) = (chain.log(), chain.shard());
        let (last, epoch, hash) = (chain.last(), chain.epoch(), chain.hash());
        Self { log, shard, first, last, epoch, hash, header }
    }
}

/// The start of a new log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// The identity of the log: random bytes.
    pub id: LogId,
    /// The shard; 0 on one node.
    pub shard: u16,
    /// The position before the first entry.
    pub after: Position,
    /// The epoch before the epoch of the first claim.
    ///
    /// A log that replaces another continues its epoch.
    pub epoch: u64,
}

impl Start {
    /// Returns the start of a log of shard 0 at position 1.
    #[must_use]
    pub const fn new(id: LogId) -> Self {
        Self { id, shard: 0, after: Position::START, epoch: 0 }
    }

    pub(crate) const fn chain(&self) -> Chain {
        Chain::new(self.id, self.shard, self.after, self.epoch, EntryHash::NONE)
    }
}

/// The reason why a commit was not appended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// There is an entry at the position. It may be the caller's own, from an earlier try.
    #[error("position {} is taken by an entry of epoch {}", .0.position, .0.epoch)]
    Taken(Header),
    /// The commit is certainly not in the log: it is too large, does not follow, or lacks space.
    #[error("the log refused the commit: {0}")]
    Refused(String),
    /// All of the commit is in the log, or nothing, or its first parts.
    ///
    /// [`Log::entry`] shows it after [`Log::reopen`].
    #[error("it is unknown whether the commit is in the log: {0}")]
    Unknown(String),
}

/// The reason why the log could not carry out a call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// The disk or the network failed.
    #[error("the log failed: {0}")]
    Failed(String),
    /// The bytes differ from those that were acknowledged as durable.
    #[error("the log is damaged in {file} at byte {offset}: {what}")]
    Damaged {
        /// The expected position, if it is known.
        position: Option<Position>,
        /// The file.
        file: String,
        /// The offset in the file.
        offset: u64,
        /// The problem.
        what: String,
    },
    /// It was written by a newer version of the program.
    #[error("the log cannot be read from {file} at byte {offset} on: {what}")]
    Newer {
        /// The file.
        file: String,
        /// The offset in the file.
        offset: u64,
        /// The unknown element.
        what: String,
    },
    /// Another process has the log open.
    #[error("the log is in use by another process")]
    Locked,
    /// The log ends before an acknowledged position.
    #[error("the log ends at {last}, but {applied} was acknowledged")]
    Lost {
        /// The last position of the log.
        last: Position,
        /// The position that was acknowledged.
        applied: Position,
    },
    /// The requested entries are trimmed.
    #[error("entry {asked} is trimmed; the log begins at {first}")]
    Trimmed {
        /// The requested position.
        asked: Position,
        /// The oldest kept position.
        first: Position,
    },
}

impl LogError {
    /// Returns the error for bytes of a file that are not the expected entry.
    pub(crate) fn of_entry(fault: &EntryFault, at: Position, file: &str, offset: u64) -> Self {
        let (file, what) = (file.to_owned(), fault.to_string());
        if matches!(fault, EntryFault::Newer { .. }) {
            return Self::Newer { file, offset, what };
        }
        Self::Damaged { position: Some(at), file, offset, what }
    }

    /// Returns the error for an entry of a file that does not follow the one before it.
    pub(crate) fn of_chain(fault: &ChainFault, at: Position, file: &str, offset: u64) -> Self {
        let (file, what) = (file.to_owned(), fault.to_string());
        Self::Damaged { position: Some(at), file, offset, what }
    }
}

/// The reason why a claim could not be appended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClaimError {
    /// The end of the log could not be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The claim was not appended.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// The claim cannot be encoded.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

/// Appends a claim with the next epoch, and returns the tail behind it.
///
/// Each writer must call it once after each start and each [`Log::reopen`].
///
/// # Errors
/// See [`ClaimError`]. [`AppendError::Taken`] means that another writer was faster.
pub fn claim(log: &dyn Log, claim: &Claim, time_ms: u64) -> Result<Tail, ClaimError> {
    let tail = log.tail()?;
    let next = tail.next(tail.epoch + 1);
    let body = claim.encode()?;
    let entries = encode_commit(&next, Kind::Claim, time_ms, &body, log.entry_bytes_max())?;
    log.append(next.position, &entries)?;
    Ok(log.tail()?)
}

/// Visits the whole commits that start at `from` or later, with their parts joined.
///
/// # Errors
/// Those of [`Log::read`]; [`LogError::Failed`] when `from` is within a commit.
pub fn read_commits(
    log: &dyn Log,
    from: Position,
    visit: &mut dyn FnMut(Commit) -> ControlFlow<()>,
) -> Result<(), LogError> {
    let mut joiner = Joiner::default();
    let mut failed = None;
    log.read(from, &mut |entry| match joiner.push(&entry) {
        Ok(Some(commit)) => visit(commit),
        Ok(None) => ControlFlow::Continue(()),
        Err(error) => {
            failed = Some(LogError::Failed(error.to_string()));
            ControlFlow::Break(())
        }
    })?;
    failed.map_or(Ok(()), Err)
}

/// A view's position in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mark {
    /// The last position that was applied.
    pub position: Position,
    /// The epoch of that entry.
    pub epoch: u64,
    /// The hash of that entry.
    pub hash: EntryHash,
}

impl Mark {
    /// Returns the mark of a view whose last applied commit is this one. It computes the hash.
    #[must_use]
    pub fn of(commit: &Commit) -> Self {
        Self { position: commit.position, epoch: commit.epoch, hash: commit.hash() }
    }
}

/// The relation of a mark to a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Witness {
    /// The log has the entry that the mark names.
    Fits,
    /// The log has another entry there: the view must be rebuilt.
    OtherHistory,
}

/// Compares a log with the mark of a view.
///
/// Entries are applied only after they are durable, so a mark behind the end means that
/// acknowledged entries are lost.
///
/// # Errors
/// [`LogError::Lost`] in that case; [`LogError::Trimmed`] if the entry behind the mark is trimmed;
/// those of [`Log::entry`].
pub fn check_witness(log: &dyn Log, mark: &Mark) -> Result<Witness, LogError> {
    let tail = log.tail()?;
    if mark.position > tail.last {
        return Err(LogError::Lost { last: tail.last, applied: mark.position });
    }
    let hash = if mark.position == tail.last {
        tail.hash
    } else {
        // The entry behind the mark names it, also when the marked one is trimmed.
        let lost = LogError::Lost { last: tail.last, applied: mark.position };
        let bytes = log.entry(mark.position.next())?.ok_or(lost)?;
        let failed = |fault: EntryFault| LogError::Failed(fault.to_string());
        Header::decode(&bytes).map_err(failed)?.prev
    };
    Ok(if hash == mark.hash { Witness::Fits } else { Witness::OtherHistory })
}
