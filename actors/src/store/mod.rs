//! The port to durability, and the group commit on top of it.
//!
//! A [`Store`] keeps two things. **Records** are keyed values in [`Table`]s, read when needed. The
//! **journal** is a sequence of numbered [`Frame`]s, each holding the events of one group commit;
//! it rebuilds the state that actors keep in memory. One call of [`Store::commit`] makes a frame
//! and its changes of records durable together, or not at all.
//!
//! Nothing but this module touches the disk. Nothing but the [`writer`]'s thread calls `commit`.

pub mod crashing;
pub mod events;
pub mod fjall;
pub mod frame;
pub mod memory;
pub mod snapshot;
pub mod writer;

#[cfg(test)]
mod conformance;
#[cfg(test)]
pub(crate) mod hooked;

use std::ops::ControlFlow;

pub use crashing::{CrashingStore, Keep, Outcome};
pub use events::{LogChunk, event_log_key, event_log_prefix, scan_event_log};
pub use fjall::{FjallOptions, FjallStore};
pub use frame::{Frame, Section};
pub use memory::MemoryStore;
pub use snapshot::{Loaded, SnapshotDir, SnapshotError};
pub use writer::{
    Batch, ChangeRef, CommitError, Group, Notify, Subscriber, Writer, WriterOptions, WriterStats,
};

/// A frame's number. The first frame is 1; [`Position::START`] stands before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Position(pub u64);

impl Position {
    /// Before the first frame.
    pub const START: Self = Self(0);

    /// The position right after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// The kinds of records, each with an ordered key space of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Table {
    /// Facts about the engine as a whole: epoch, clock offset.
    Meta,
    /// Workspaces, their settings, credits and numbers.
    Workspaces,
    /// API keys, by id.
    Keys,
    /// Token buckets that are not full.
    Buckets,
    /// The workspaces' event logs, in chunks.
    Events,
    /// Answers that are given again under an idempotency key.
    Idempotency,
    /// Contacts, and who has a phone.
    Contacts,
    /// What contacts are listed and searched by.
    ContactIndex,
    /// Saved filters of contacts.
    Segments,
    /// Conversations, and what was written in them.
    Conversations,
    /// Webhook endpoints, and what follows their deliveries.
    Webhooks,
    /// Single messages: where each stands, and what it says.
    Messages,
    /// When a contact last wrote to a number.
    Windows,
    /// What the provider calls those whose phone it knows by another number.
    Aliases,
    /// What was received lately, to know repeated callbacks by.
    Received,
    /// Templates.
    Templates,
    /// Broadcasts: what each is, and how far it is.
    Broadcasts,
    /// The recipients of broadcasts, in segments.
    BroadcastAudience,
    /// The places of a broadcast's recipients, by phone.
    BroadcastPhones,
    /// What became of a broadcast's messages, in windows.
    BroadcastOutcomes,
    /// What the provider reported of a broadcast's messages later, in windows.
    BroadcastReports,
    /// Who has opted out.
    Suppressions,
    /// What is counted by day: of broadcasts and of advertisements.
    Analytics,
    /// Mails of the workspaces', and the secret that signs those that come in.
    Mails,
    /// Mails that have not left yet.
    MailQueue,
}

impl Table {
    /// Every table.
    pub const ALL: &'static [Self] = &[
        Self::Meta,
        Self::Workspaces,
        Self::Keys,
        Self::Buckets,
        Self::Events,
        Self::Idempotency,
        Self::Contacts,
        Self::ContactIndex,
        Self::Segments,
        Self::Conversations,
        Self::Webhooks,
        Self::Messages,
        Self::Windows,
        Self::Aliases,
        Self::Received,
        Self::Templates,
        Self::Broadcasts,
        Self::BroadcastAudience,
        Self::BroadcastPhones,
        Self::BroadcastOutcomes,
        Self::BroadcastReports,
        Self::Suppressions,
        Self::Analytics,
        Self::Mails,
        Self::MailQueue,
    ];

    /// The table's name on disk.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Meta => "meta",
            Self::Workspaces => "workspaces",
            Self::Keys => "keys",
            Self::Buckets => "buckets",
            Self::Events => "events",
            Self::Idempotency => "idempotency",
            Self::Contacts => "contacts",
            Self::ContactIndex => "contact_index",
            Self::Segments => "segments",
            Self::Conversations => "conversations",
            Self::Webhooks => "webhooks",
            Self::Messages => "messages",
            Self::Windows => "windows",
            Self::Aliases => "aliases",
            Self::Received => "received",
            Self::Templates => "templates",
            Self::Broadcasts => "broadcasts",
            Self::BroadcastAudience => "broadcast_audience",
            Self::BroadcastReports => "broadcast_reports",
            Self::BroadcastPhones => "broadcast_phones",
            Self::BroadcastOutcomes => "broadcast_outcomes",
            Self::Suppressions => "suppressions",
            Self::Analytics => "analytics",
            Self::Mails => "mails",
            Self::MailQueue => "mail_queue",
        }
    }
}

/// One change of one record. In a commit, no two changes name the same record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Where the record is.
    pub table: Table,
    /// Its key, 1 to 1,024 bytes.
    pub key: Vec<u8>,
    /// Its new value, or `None` to delete it.
    pub value: Option<Vec<u8>>,
}

impl Change {
    /// Writes a record.
    #[must_use]
    pub fn put(table: Table, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Self {
        Self { table, key: key.into(), value: Some(value.into()) }
    }

    /// Deletes a record; deleting one that is not there is no error.
    #[must_use]
    pub fn delete(table: Table, key: impl Into<Vec<u8>>) -> Self {
        Self { table, key: key.into(), value: None }
    }
}

/// What went wrong below the port.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The disk or the database refused. What was being committed may or may not be durable; what
    /// was acknowledged before is. The store answers this until [`Store::reopen`] succeeds.
    #[error("the store failed: {0}")]
    Failed(String),
    /// What is on disk cannot be read as what was written there.
    #[error("the store is damaged: {0}")]
    Damaged(String),
    /// Another process has the data directory open.
    #[error("the data directory is in use by another process")]
    Locked,
}

/// Which way a [`Store::scan`] goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the smallest key up.
    Forward,
    /// From the largest key down.
    Backward,
}

/// Called with each key and value; says whether to go on.
pub type Visit<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>;

/// The port. Every method blocks; call them from the writer's thread or a blocking task, except
/// [`get`](Store::get), which is quick enough for anywhere.
pub trait Store: Send + Sync + 'static {
    /// Makes the frame and the changes durable, all or none, in this order of calls. When it
    /// returns `Ok` they survive a power cut.
    ///
    /// The frame's number is one above the last one's. After an error every call fails until
    /// [`reopen`](Store::reopen).
    ///
    /// # Errors
    /// [`StoreError::Failed`]: the outcome is unknown, all or nothing of it.
    fn commit(&self, frame: Option<&Frame>, changes: &[Change]) -> Result<(), StoreError>;

    /// The value of a committed record.
    ///
    /// # Errors
    /// [`StoreError::Failed`] when the disk cannot be read.
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// Visits the committed records whose key starts with `prefix` and, if `from` is given, is
    /// at or after it (at or before it when going [`Direction::Backward`]).
    ///
    /// # Errors
    /// [`StoreError::Failed`] when the disk cannot be read.
    fn scan(
        &self,
        table: Table,
        prefix: &[u8],
        from: Option<&[u8]>,
        direction: Direction,
        visit: Visit<'_>,
    ) -> Result<(), StoreError>;

    /// Visits the frames after `after`, oldest first. Trimmed ones are passed over in silence: who
    /// needs all of them checks that the first one is `after.next()`.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] when a frame's checksum or number is not what it must be.
    fn journal(
        &self,
        after: Position,
        visit: &mut dyn FnMut(Frame) -> ControlFlow<()>,
    ) -> Result<(), StoreError>;

    /// The number of the newest frame ever committed, trimmed or not.
    ///
    /// # Errors
    /// [`StoreError::Failed`] when the disk cannot be read.
    fn last_position(&self) -> Result<Position, StoreError>;

    /// Forgets the frames up to and including `through`, and gives their space back in time. It
    /// need not be durable: a crash may bring trimmed frames back.
    ///
    /// # Errors
    /// [`StoreError::Failed`] as for a commit.
    fn trim(&self, through: Position) -> Result<(), StoreError>;

    /// After a failed commit: opens the store again from what is durable, such that whatever it
    /// now shows is durable. Does nothing to a store that works.
    ///
    /// # Errors
    /// The same as opening it the first time; it may be called again.
    fn reopen(&self) -> Result<(), StoreError>;

    /// Bytes of journal frames after `after`, roughly.
    ///
    /// # Errors
    /// [`StoreError::Failed`] when the disk cannot be read.
    fn journal_bytes(&self, after: Position) -> Result<u64, StoreError>;
}

/// Visits every frame after `after`, oldest first, as [`Store::journal`] does, and fails where one
/// of them is gone: what is rebuilt without it would look whole and not be.
pub(crate) fn replay(
    store: &dyn Store,
    after: Position,
    visit: &mut dyn FnMut(Frame) -> ControlFlow<()>,
) -> Result<(), StoreError> {
    let last = store.last_position()?;
    if after > last {
        let (after, last) = (after.0, last.0);
        return Err(StoreError::Damaged(format!(
            "a snapshot stands at frame {after}, and the journal ends with {last}"
        )));
    }
    let mut next = after.next();
    let mut stopped = false;
    store.journal(after, &mut |frame| {
        if frame.number != next {
            return ControlFlow::Break(());
        }
        next = next.next();
        let flow = visit(frame);
        stopped = flow.is_break();
        flow
    })?;
    if !stopped && next <= last {
        return Err(StoreError::Damaged(format!(
            "frame {} of the journal is gone, and no whole snapshot has it",
            next.0
        )));
    }
    Ok(())
}

/// The least key that is greater than every one with the prefix; `None` when there is no such key.
fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

/// A scan's `from`, unless it lies outside of the prefix on the side where the scan begins anyway.
fn bounding<'a>(prefix: &[u8], from: Option<&'a [u8]>, direction: Direction) -> Option<&'a [u8]> {
    from.filter(|from| match direction {
        Direction::Forward => *from > prefix,
        Direction::Backward => *from < prefix || from.starts_with(prefix),
    })
}

/// Frames are numbered without gaps.
fn check_number(last: Position, frame: &Frame) -> Result<(), StoreError> {
    if frame.number == last.next() {
        return Ok(());
    }
    let Frame { number, .. } = frame;
    Err(StoreError::Failed(format!("frame {} does not follow frame {}", number.0, last.0)))
}
