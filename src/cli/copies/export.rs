//! `postrider export`: all data at one position, in one file.

use std::path::Path;

use postrider_actors::copies::{Contents as _, CopyError, copy_contents, read_archive, write_file};
use serde_json::{Value, json};

use super::contents;
use super::report::Report;
use super::source::SourceArgs;
use crate::cli::error::CliError;

/// Writes the file. It is read back before it gets its name.
pub(super) fn run(
    to: &Path,
    media: Option<&Path>,
    source: &SourceArgs,
) -> Result<Report, CliError> {
    let source = source.open()?;
    source.check_space_for_archive(to)?;
    let write = |out: &mut dyn std::io::Write| source.write_archive(out);
    let ((), (header, counts, written)) =
        write_file(to, write, |part| read_archive(part, |_, _| Ok(())))?;
    let (file, position) = (to.display().to_string(), header.at.position.0);
    let (records, workspaces) = (counts.records, counts.workspaces);
    let (media, media_text) = match media {
        Some(dir) => {
            // Made even without files, because an import from it expects the directory.
            std::fs::create_dir_all(dir).map_err(|error| CopyError::io(dir, &error))?;
            let copied = copy_contents(&source, dir)?;
            (contents::object(&copied), contents::text(&copied))
        }
        None => left_out(source.all()?.len()),
    };
    let text = format!(
        "{file}: position {position}, {records} records of {workspaces} workspaces, {} bytes\n\
         sha256 {}\n{media_text}",
        written.bytes, written.sha256
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
    Ok(Report { object, text })
}

/// Reports that files are not in the archive.
fn left_out(files: usize) -> (Value, String) {
    let text = match files {
        0 => String::new(),
        files => format!(
            "WARNING: {files} media files are not in it: give --media DIR to copy them beside it\n"
        ),
    };
    (json!({ "left_out": files }), text)
}
