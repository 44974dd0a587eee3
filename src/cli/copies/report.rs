//! Shows the outcome of a copy, with that of the contents of files, to people or to programs.

use postrider_actors::copies::CopiedContents;
use serde_json::{Value, json};

use crate::cli::error::CliError;
use crate::cli::output::{print, size};

/// The maximum number of damaged contents that the text names.
const NAMED_MAX: usize = 10;

/// The outcome of a command: the object for programs, and the text for people.
pub(super) struct CopyReport {
    pub(super) object: Value,
    pub(super) text: String,
}

/// Shows a report. With `as_json`, an error is an object on standard output too.
pub(super) fn show_report(
    as_json: bool,
    done: Result<CopyReport, CliError>,
) -> Result<(), CliError> {
    match done {
        Ok(CopyReport { object, text }) => print(as_json, &object, &text),
        Err(error) if as_json => {
            let code = match &error {
                CliError::Copy(error) => error.code().to_owned(),
                #[cfg(feature = "cluster")]
                CliError::Cluster(error) => error.code(),
                _ => "IO".to_owned(),
            };
            print(true, &json!({ "error": code, "message": error.to_string() }), "")?;
            Err(CliError::Reported)
        }
        Err(error) => Err(error),
    }
}

/// Formats the contents for programs.
pub(in crate::cli) fn contents_object(contents: &CopiedContents) -> Value {
    let damaged: Vec<_> = contents.damaged.iter().map(ToString::to_string).collect();
    json!({
        "files": contents.files,
        "copied": contents.copied,
        "copied_bytes": contents.bytes,
        "damaged": damaged,
    })
}

/// Formats the contents for people, with a warning for those that are left out.
pub(in crate::cli) fn contents_text(contents: &CopiedContents) -> String {
    let CopiedContents { files, copied, bytes, damaged } = contents;
    let mut text = format!("media: {files} files, {copied} copied, {}\n", size(*bytes));
    if !damaged.is_empty() {
        text += &format!(
            "WARNING: {} files are unreadable or damaged and were not copied:\n",
            damaged.len()
        );
        for hash in damaged.iter().take(NAMED_MAX) {
            text += &format!("  {hash}\n");
        }
        if damaged.len() > NAMED_MAX {
            text += "  and others; --json lists all of them\n";
        }
    }
    text
}
