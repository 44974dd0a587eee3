//! The group commit: one thread that takes everything that waits, commits it as one atomic batch
//! with one fsync, and then tells everyone who waited.

use std::sync::Arc;

use crate::domain::WorkspaceId;

use super::{Change, Position, Store, StoreError};

/// Bounds of the writer's queue.
#[derive(Debug, Clone, Copy)]
pub struct WriterOptions {
    /// Most bytes that may wait to be committed; beyond it a batch is refused.
    pub queued_bytes_max: usize,
}

/// Numbers the group commits of one writer, upwards from 1.
pub type Group = u64;

/// One change of one record, borrowed for the length of a call.
#[derive(Debug, Clone, Copy)]
pub struct ChangeRef<'a> {
    /// Where the record is.
    pub table: super::Table,
    /// Its key.
    pub key: &'a [u8],
    /// Its new value, or `None` to delete it.
    pub value: Option<&'a [u8]>,
}

/// What one command of one workspace wants made durable, all or none.
#[derive(Debug, Clone, Copy, Default)]
pub struct Batch<'a> {
    /// Journal events, encoded one after the other.
    pub events: &'a [u8],
    /// Entries of the workspace's event log, encoded one after the other.
    pub log: &'a [u8],
    /// The sequence of the first entry in `log`; meaningless when `log` is empty.
    pub log_first: u64,
    /// How many entries `log` holds.
    pub log_count: u32,
    /// Changes of records. Where two name the same record in one group, the later one holds.
    pub changes: &'a [ChangeRef<'a>],
}

/// Why something was not made durable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// Too much waits already; nothing was queued.
    #[error("too much is waiting to be written")]
    Full,
    /// The batch is larger than a frame; nothing was queued.
    #[error("too large to be written at once")]
    TooLarge,
    /// The commit failed, or an earlier one did and the store is not open again yet.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The writer has stopped; nothing was queued.
    #[error("the store is closed")]
    Closed,
}
