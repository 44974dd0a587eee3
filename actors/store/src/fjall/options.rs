//! Pure: limits on the resources of the database.

/// Limits on the memory and the write-ahead log of the store.
#[derive(Debug, Clone, Copy)]
pub struct FjallOptions {
    /// Bytes of the block cache.
    pub cache_bytes: u64,
    /// Bytes of a keyspace's memtable before it is flushed to a table.
    ///
    /// A burst may take four times as much.
    pub memtable_bytes: u64,
    /// Bytes of write-ahead log beyond which memtables are flushed to shorten it; at least 64 MiB.
    /// It bounds both the log that a start reads and the memory of all memtables together.
    pub log_bytes: u64,
}

impl Default for FjallOptions {
    /// Returns a cache of 64 MiB, memtables of 32 MiB, and a log of 128 MiB.
    fn default() -> Self {
        Self { cache_bytes: 64 << 20, memtable_bytes: 32 << 20, log_bytes: 128 << 20 }
    }
}
