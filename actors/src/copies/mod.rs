//! Copies of the data: archives and backups are made of it, and made into a directory again.

mod restore;
mod source;
mod space;

pub use postrider_store::copies::{
    BackupDir, CopyError, Import, Written, read_archive, write_file,
};
pub use restore::{Made, Target, import_archive, restore_backup};
pub use source::DataSource;
pub use space::check_space;
