//! Copies of the data: archives and backups are made of it, and made into a directory again.

mod homes;
mod restore;
mod source;
mod space;
mod split;
mod unite;

pub use postrider_store::copies::{
    BackupDir, Contents, CopiedContents, CopyError, Import, ShardList, Written, copy_contents,
    read_archive, write_file,
};
pub use restore::{Made, Target, import_archive, restore_backup};
pub use source::DataSource;
pub use space::check_space;
pub use split::{ClusterArchive, ShardPart};
