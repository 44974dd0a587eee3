//! Writes a whole archive of a view and of the actors' memory.

use std::io::Write;

use postrider_domain::WorkspaceId;

use super::{ArchiveCounts, ArchiveError, ArchiveHeader, ArchiveWriter};
use crate::{StoreError, Table, ViewSnapshot};

/// The reason why a whole archive was not written.
#[derive(Debug, thiserror::Error)]
pub enum WriteArchiveError {
    /// It cannot be written.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The view cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Writes all records of a view, and the states of the workspaces, which must ascend.
///
/// # Errors
/// See [`WriteArchiveError`].
pub fn write_archive(
    view: &dyn ViewSnapshot,
    states: &[(WorkspaceId, Vec<u8>)],
    header: &ArchiveHeader,
    out: &mut dyn Write,
) -> Result<ArchiveCounts, WriteArchiveError> {
    let mut writer = ArchiveWriter::new(out, header)?;
    let mut tables = Table::ALL.to_vec();
    tables.sort_unstable_by_key(|table| table.number());
    for table in tables {
        let mut after: Option<Vec<u8>> = None;
        loop {
            let page = view.page(table, after.as_deref())?;
            for (key, value) in &page {
                writer.record(table, key, value)?;
            }
            match page.into_iter().next_back() {
                Some((key, _)) => after = Some(key),
                None => break,
            }
        }
    }
    for (workspace, state) in states {
        writer.state(workspace.as_str(), state)?;
    }
    Ok(writer.finish()?)
}
