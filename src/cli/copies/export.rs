//! `postrider export`: everything at one position, in one file.

use std::path::Path;

use postrider_actors::copies::{read_archive, write_file};
use serde_json::json;

use super::report::Report;
use super::source::SourceArgs;
use crate::cli::error::CliError;

/// Makes the file. It is read back before it gets its name.
pub(super) fn run(to: &Path, source: &SourceArgs) -> Result<Report, CliError> {
    let source = source.open()?;
    source.check_space_for_archive(to)?;
    let write = |out: &mut dyn std::io::Write| source.write_archive(out);
    let ((), (header, counts, written)) =
        write_file(to, write, |part| read_archive(part, |_, _| Ok(())))?;
    let (file, position) = (to.display().to_string(), header.at.position.0);
    let (records, workspaces) = (counts.records, counts.workspaces);
    let text = format!(
        "{file}: position {position}, {records} records of {workspaces} workspaces, {} bytes\n\
         sha256 {}\n",
        written.bytes, written.sha256
    );
    let object = json!({
        "file": file,
        "position": position,
        "records": records,
        "workspaces": workspaces,
        "bytes": written.bytes,
        "sha256": written.sha256,
    });
    Ok(Report { object, text })
}
