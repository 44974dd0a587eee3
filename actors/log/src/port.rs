//! Pure: the port to an append-only log of one shard with one writer.

use std::fmt::Debug;
use std::ops::ControlFlow;

use bytes::Bytes;

use crate::body::Claim;
use crate::chain::{Chain, ChainFault};
use crate::entry::{Entry, EntryFault, EntryHash, Header, Kind, LogId, Position};
use crate::parts::{Commit, EncodeError, Joiner, Next, encode_commit};

/// An append-only log of one shard. Every method blocks; one that calls over a network must have a
/// deadline inside.
///
/// After a start and after a failed append, the first entry must be a claim, which raises the
/// epoch: [`claim`] appends it. So entries of an earlier writer can no longer fit.
pub trait Log: Debug + Send + Sync + 'static {
    /// The identity of the log.
    fn id(&self) -> LogId;

    /// Most bytes of one entry. A larger commit must be cut into parts.
    fn entry_bytes_max(&self) -> usize;

    /// The end of the log. It is authoritative: it shows what every writer appended before the
    /// call.
    ///
    /// # Errors
    /// [`LogError::Failed`] when the end is not known, as after [`AppendError::Unknown`].
    fn tail(&self) -> Result<Tail, LogError>;

    /// Appends the entries of one commit: one entry, or all parts. All of them are durable when it
    /// returns `Ok`. The first one must have the position `at`.
    ///
    /// # Errors
    /// See [`AppendError`]. After [`AppendError::Unknown`] every append is refused until
    /// [`reopen`](Self::reopen) has succeeded.
    fn append(&self, at: Position, entries: &[Bytes]) -> Result<(), AppendError>;

    /// Visits the entries from `from` on, oldest first, up to the end at the time of the call. It
    /// checks every entry and how it follows the one before it. Parts of a commit whose last part
    /// is missing are visited too; [`read_commits`] leaves them out.
    ///
    /// # Errors
    /// [`LogError::Trimmed`] when `from` is before the first entry, [`LogError::Damaged`] and
    /// [`LogError::Newer`] when an entry cannot be read. What was visited before is right.
    fn read(
        &self,
        from: Position,
        visit: &mut dyn FnMut(Entry) -> ControlFlow<()>,
    ) -> Result<(), LogError>;

    /// The entry at a position, `None` when the log ends before it. It is authoritative, as the
    /// tail is.
    ///
    /// # Errors
    /// Those of [`read`](Self::read); [`LogError::Failed`] behind the end when that is not known.
    fn entry(&self, at: Position) -> Result<Option<Bytes>, LogError>;

    /// The approximate bytes of the entries after `after`; 0 at the end.
    ///
    /// # Errors
    /// [`LogError::Failed`] when the log cannot be asked.
    fn bytes_after(&self, after: Position) -> Result<u64, LogError>;

    /// Deletes entries up to and including `through`: as many of the oldest as it can. The last
    /// commit always stays. Trimmed entries may come back after a crash.
    ///
    /// # Errors
    /// [`LogError::Failed`]; some of the entries may have been deleted.
    fn trim(&self, through: Position) -> Result<(), LogError>;

    /// Opens the log again after a failure. What it shows from then on is durable. It does nothing
    /// to a log that works.
    ///
    /// # Errors
    /// Those of opening the log the first time. The caller may try again.
    fn reopen(&self) -> Result<Tail, LogError>;

    /// Why appends will fail soon, for as long as that is so. Each call may see to it.
    fn problem(&self) -> Option<String> {
        None
    }

    /// Fails when a commit of so many bytes would not be taken, because the log is full but for
    /// what claims, handoffs and checkpoints need.
    ///
    /// # Errors
    /// Why not.
    fn has_room(&self, _bytes: usize) -> Result<(), String> {
        Ok(())
    }

    /// How many files it has, if it is in files.
    fn segments(&self) -> usize {
        0
    }

    /// Marks a clean stop, after which every append is refused. The next start then trusts the end
    /// of the log without a repair.
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
    /// The position of the oldest entry that is kept, or of the first one to come.
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
    /// Where the next commit of a writer of this epoch goes.
    #[must_use]
    pub const fn next(&self, epoch: u64) -> Next {
        let Self { log, shard, last, hash, .. } = self;
        Next { log: *log, shard: *shard, position: last.next(), epoch, prev: *hash }
    }

    /// The tail of a log whose entries are this chain.
    #[must_use]
    pub(crate) const fn of(chain: &Chain, first: Position, header: Option<Header>) -> Self {
        let (log, shard) = (chain.log(), chain.shard());
        let (last, epoch, hash) = (chain.last(), chain.epoch(), chain.hash());
        Self { log, shard, first, last, epoch, hash, header }
    }
}

/// How a new log begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// The identity of the log: random bytes.
    pub id: LogId,
    /// The shard; 0 on one node.
    pub shard: u16,
    /// The position before the first entry.
    pub after: Position,
    /// The epoch before that of the first claim. A log that replaces another goes on with its
    /// epoch.
    pub epoch: u64,
}

impl Start {
    /// A log of shard 0 that begins at position 1.
    #[must_use]
    pub const fn new(id: LogId) -> Self {
        Self { id, shard: 0, after: Position::START, epoch: 0 }
    }

    pub(crate) const fn chain(&self) -> Chain {
        Chain::new(self.id, self.shard, self.after, self.epoch, EntryHash::NONE)
    }
}

/// Why a commit was not appended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// There is an entry at the position. It may be the caller's own, of an earlier try.
    #[error("position {} is taken by an entry of epoch {}", .0.position, .0.epoch)]
    Taken(Header),
    /// The commit is surely not in the log: it is too large, does not fit, or there is no space.
    #[error("the log refused the commit: {0}")]
    Refused(String),
    /// All of the commit is in the log, or nothing, or its first parts. After
    /// [`Log::reopen`], [`Log::entry`] shows.
    #[error("it is unknown whether the commit is in the log: {0}")]
    Unknown(String),
}

/// Why the log could not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// The disk or the network failed.
    #[error("the log failed: {0}")]
    Failed(String),
    /// What was acknowledged as durable is not what is there.
    #[error("the log is damaged in {file} at byte {offset}: {what}")]
    Damaged {
        /// The position that should be there, if it is known.
        position: Option<Position>,
        /// The file.
        file: String,
        /// The offset in the file.
        offset: u64,
        /// What is wrong.
        what: String,
    },
    /// It was written by a newer version of the program.
    #[error("the log cannot be read from {file} at byte {offset} on: {what}")]
    Newer {
        /// The file.
        file: String,
        /// The offset in the file.
        offset: u64,
        /// What is not known.
        what: String,
    },
    /// Another process has the log open.
    #[error("the log is in use by another process")]
    Locked,
    /// The log ends before what was acknowledged.
    #[error("the log ends at {last}, but {applied} was acknowledged")]
    Lost {
        /// The last position of the log.
        last: Position,
        /// The position that was acknowledged.
        applied: Position,
    },
    /// The entries that were asked for are trimmed.
    #[error("entry {asked} is trimmed; the log begins at {first}")]
    Trimmed {
        /// The position that was asked for.
        asked: Position,
        /// The oldest position that is kept.
        first: Position,
    },
}

impl LogError {
    /// The error for bytes of a file that are not the entry that must be there.
    pub(crate) fn of_entry(fault: &EntryFault, at: Position, file: &str, offset: u64) -> Self {
        let (file, what) = (file.to_owned(), fault.to_string());
        if matches!(fault, EntryFault::Newer { .. }) {
            return Self::Newer { file, offset, what };
        }
        Self::Damaged { position: Some(at), file, offset, what }
    }

    /// The error for an entry of a file that does not follow the one before it.
    pub(crate) fn of_chain(fault: &ChainFault, at: Position, file: &str, offset: u64) -> Self {
        let (file, what) = (file.to_owned(), fault.to_string());
        Self::Damaged { position: Some(at), file, offset, what }
    }
}

/// Why a claim could not be appended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClaimError {
    /// The log could not be asked for its end.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The claim was not appended.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// The claim cannot be encoded.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

/// Appends a claim with the next epoch, and returns the tail behind it. Whoever writes must call it
/// once after each start and each [`Log::reopen`].
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

/// Visits the whole commits that begin at `from` or later, with their parts joined.
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

/// What a view says that it holds of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mark {
    /// The last position that was applied.
    pub position: Position,
    /// The epoch of that entry.
    pub epoch: u64,
    /// The hash of that entry.
    pub hash: EntryHash,
}

/// Whether a mark is of this log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Witness {
    /// The log has the entry that the mark names.
    Fits,
    /// The log has another entry there: the view must be built anew.
    OtherHistory,
}

/// Compares a log with the mark of a view. Entries are applied only after they are durable, so a
/// mark behind the end means that acknowledged entries are lost.
///
/// # Errors
/// [`LogError::Lost`] then; [`LogError::Trimmed`] when the entry behind the mark is trimmed; those
/// of [`Log::entry`].
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
