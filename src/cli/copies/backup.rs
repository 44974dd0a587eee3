//! `postrider backup`: an archive, and the entries that were committed since.

use std::io::Write;
use std::path::Path;

use postrider_actors::copies::{BackupDir, CopyError, copy_contents};
use postrider_actors::store::directory::MEDIA;
use serde_json::json;

use super::contents;
use super::report::Report;
use super::source::{Source, SourceArgs};
use crate::cli::error::CliError;

/// A file in the directory of a backup.
const MANIFEST: &str = "manifest.json";

/// Adds the missing parts to the backup.
pub(super) fn run(to: &Path, source: &SourceArgs) -> Result<Report, CliError> {
    let source = source.open()?;
    let mut backup = BackupDir::open(to)?;
    let has_followed = match backup.end() {
        Some(_) => match follow(&mut backup, &source, to) {
            Ok(()) => true,
            // The log lacks the entries that would follow: the backup starts again, with a gap.
            Err(CopyError::Trimmed(_)) => false,
            Err(error) => return Err(error.into()),
        },
        None => false,
    };
    if !has_followed {
        source.check_space_for_archive(&to.join(MANIFEST))?;
        backup.add_archive(|out: &mut dyn Write| source.write_base(out))?;
        follow(&mut backup, &source, to)?;
    }
    let position = backup.end().map(|(_, end)| end.position.0);
    let (files, copied) = (backup.files(), backup.copied_bytes());
    // Copied after the records: a file is stored before a record names it.
    let media = copy_contents(&source, &to.join(MEDIA))?;
    let text = format!(
        "{}: up to position {}, {files} files, {copied} bytes copied\n{}",
        to.display(),
        position.unwrap_or_default(),
        contents::text(&media)
    );
    let media = contents::object(&media);
    let object =
        json!({ "position": position, "files": files, "copied_bytes": copied, "media": media });
    Ok(Report { object, text })
}

/// Adds the entries that were committed after the end of the backup.
fn follow(backup: &mut BackupDir, source: &Source, to: &Path) -> Result<(), CopyError> {
    let Some((log, end)) = backup.end() else { return Ok(()) };
    source.check_space_for_log(&to.join(MANIFEST), end.position)?;
    backup.add_piece(|out| source.write_log(log, end.position, out))
}
