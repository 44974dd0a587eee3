//! Reports the outcome for the contents of files in a copy.

use postrider_actors::copies::CopiedContents;
use serde_json::{Value, json};

/// The maximum number of damaged contents that the text names.
const NAMED_MAX: usize = 10;

/// Formats the contents for programs.
pub(in crate::cli) fn object(contents: &CopiedContents) -> Value {
    let damaged: Vec<_> = contents.damaged.iter().map(ToString::to_string).collect();
    json!({
        "files": contents.files,
        "copied": contents.copied,
        "copied_bytes": contents.bytes,
        "damaged": damaged,
    })
}

/// Formats the contents for people, with a warning for those that are left out.
pub(in crate::cli) fn text(contents: &CopiedContents) -> String {
    let CopiedContents { files, copied, bytes, damaged } = contents;
    let mut text = format!("media: {files} files, {copied} of them copied, {bytes} bytes\n");
    if !damaged.is_empty() {
        text += &format!(
            "WARNING: {} files cannot be read, or are not what they were, and are left out:\n",
            damaged.len()
        );
        for hash in damaged.iter().take(NAMED_MAX) {
            text += &format!("  {hash}\n");
        }
        if damaged.len() > NAMED_MAX {
            text += "  and others; --json names all of them\n";
        }
    }
    text
}
