//! `postrider export` and `backup`: all data in one file, or in a directory that gets what is new.

use std::io::Write;
use std::path::Path;

use postrider_actors::copies::{
    BackupDir, Contents as _, CopyError, copy_contents, read_archive, write_file,
};
use postrider_actors::store::directory::MEDIA;
use serde_json::{Value, json};

use super::report::{self, CopyReport};
use super::source::{CopySource, SourceArgs};
use crate::cli::error::CliError;
use crate::cli::output::size;

/// A file in the directory of a backup.
const MANIFEST: &str = "manifest.json";

/// Writes all data at one position to a file, which is read back before it gets its name.
pub(super) fn write_export(
    to: &Path,
    media: Option<&Path>,
    source: &SourceArgs,
) -> Result<CopyReport, CliError> {
    let source = source.open()?;
    source.check_space_for_archive(to)?;
    let write = |out: &mut dyn Write| source.write_archive(out);
    let ((), (header, counts, written)) =
        write_file(to, write, |part| read_archive(part, |_, _| Ok(())))?;
    let (file, position) = (to.display().to_string(), header.at.position.0);
    let (records, workspaces) = (counts.records, counts.workspaces);
    let (media, media_text) = match media {
        Some(dir) => {
            // Made even without files, because an import from it expects the directory.
            std::fs::create_dir_all(dir).map_err(|error| CopyError::io(dir, &error))?;
            let copied = copy_contents(&source, dir)?;
            (report::contents_object(&copied), report::contents_text(&copied))
        }
        None => left_out_media(source.all()?.len()),
    };
    let text = format!(
        "{file}: position {position}, {records} records of {workspaces} workspaces, {}\n\
         sha256 {}\n{media_text}",
        size(written.bytes),
        written.sha256
    );
    let object = json!({
        "file": file,
        "position": position,
        "records": records,
        "workspaces": workspaces,
        "bytes": written.bytes,
        "sha256": written.sha256,
        "media": media,
    });
    Ok(CopyReport { object, text })
}

/// Reports that files are not in the archive.
fn left_out_media(files: usize) -> (Value, String) {
    let text = match files {
        0 => String::new(),
        files => format!(
            "WARNING: {files} media files are not in the archive: use --media DIR to copy them\n"
        ),
    };
    (json!({ "left_out": files }), text)
}

/// Adds the missing parts to the backup: an archive, and the entries that were committed since.
pub(super) fn write_backup(to: &Path, source: &SourceArgs) -> Result<CopyReport, CliError> {
    let source = source.open()?;
    let mut backup = BackupDir::open(to)?;
    let has_followed = match backup.end() {
        Some(_) => match add_new_entries(&mut backup, &source, to) {
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
        add_new_entries(&mut backup, &source, to)?;
    }
    let position = backup.end().map(|(_, end)| end.position.0);
    let (files, copied) = (backup.files(), backup.copied_bytes());
    // Copied after the records: a file is stored before a record names it.
    let media = copy_contents(&source, &to.join(MEDIA))?;
    let text = format!(
        "{}: up to position {}, {files} files, {} copied\n{}",
        to.display(),
        position.unwrap_or_default(),
        size(copied),
        report::contents_text(&media)
    );
    let media = report::contents_object(&media);
    let object =
        json!({ "position": position, "files": files, "copied_bytes": copied, "media": media });
    Ok(CopyReport { object, text })
}

/// Adds the entries that were committed after the end of the backup.
fn add_new_entries(
    backup: &mut BackupDir,
    source: &CopySource,
    to: &Path,
) -> Result<(), CopyError> {
    let Some((log, end)) = backup.end() else { return Ok(()) };
    source.check_space_for_log(&to.join(MANIFEST), end.position)?;
    backup.add_piece(|out| source.write_log(log, end.position, out))
}
