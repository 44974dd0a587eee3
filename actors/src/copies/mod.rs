//! Copies of the data: archives and backups of a directory, and directories made from them.

mod restore;
mod sharding;
mod source;
mod split;
mod unite;

pub use postrider_store::copies::{
    BackupDir, Contents, CopiedContents, CopyError, Import, RestorePlan, ShardList, Written,
    archive_bytes, copy_contents, read_archive, write_file,
};
pub use restore::{
    Commits, Made, Target, check_space, import_archive, restore_backup, restore_followed,
    restore_shard,
};
pub use source::DataSource;
pub use split::{ClusterArchive, ShardPart};
