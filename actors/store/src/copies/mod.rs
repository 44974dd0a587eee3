//! Copies of a data directory: archives that become one, and incremental backups.

mod backup;
mod contents;
mod error;
mod hashing;
mod import;
mod manifest;
mod shard_list;

#[cfg(test)]
mod tests;

pub use backup::{BackupDir, RestorePlan};
pub use contents::{Contents, CopiedContents, contents_bytes, copy_contents};
pub use error::CopyError;
pub use hashing::{ArchiveFile, Written, create_archive, write_file};
pub use import::{Import, Loaded, Sieve, archive_bytes, frame_of, read_archive};
pub use shard_list::ShardList;
