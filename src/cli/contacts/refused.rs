//! Writes the report of refused lines, and formats messages about lines.

use std::fs::File;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::columns::LineRefusal;
use super::error::ImportError;
use crate::cli::files;
use postrider::csv_cell as cell;

/// The report file, which only grows by whole batches.
pub(super) struct RefusedFile {
    path: PathBuf,
    file: File,
}

impl RefusedFile {
    /// Opens the file and truncates it to `bytes`. Later rows belong to a batch that is sent again.
    pub(super) fn open(path: &Path, bytes: u64) -> Result<Self, ImportError> {
        let io = |source| ImportError::io(path, source);
        let file = files::keep(path).map_err(io)?;
        let mut refused = Self { path: path.to_owned(), file };
        let kept = if refused.len()? < bytes { 0 } else { bytes };
        refused.file.set_len(kept).map_err(io)?;
        if kept == 0 {
            refused.write(&[["line", "field", "reason"].map(str::to_owned)])?;
        }
        Ok(refused)
    }

    /// Appends lines durably and returns the new length in bytes.
    pub(super) fn add(&mut self, refused: &[(u64, LineRefusal)]) -> Result<u64, ImportError> {
        let row = |(line, refusal): &(u64, LineRefusal)| {
            let text = |text: &str| cell::text(text).into_owned();
            [line.to_string(), text(&refusal.field), text(&refusal.reason)]
        };
        self.write(&refused.iter().map(row).collect::<Vec<_>>())
    }

    fn write(&mut self, rows: &[[String; 3]]) -> Result<u64, ImportError> {
        use std::io::{Seek, SeekFrom};
        let io = |source| ImportError::io(&self.path, source);
        self.file.seek(SeekFrom::End(0)).map_err(io)?;
        let mut writer = csv::Writer::from_writer(&self.file);
        for row in rows {
            writer.write_record(row).map_err(|error| ImportError::csv(&self.path, &error))?;
        }
        writer.flush().map_err(io)?;
        drop(writer);
        self.file.sync_data().map_err(io)?;
        self.len()
    }

    fn len(&self) -> Result<u64, ImportError> {
        let metadata = self.file.metadata();
        metadata.map(|data| data.len()).map_err(|source| ImportError::io(&self.path, source))
    }
}

/// Describes a phone that is sent in another form than it is written.
pub(super) fn describe_phone(line: u64, written: &str, contact: &Value) -> String {
    let sent = contact["phone"].as_str().unwrap_or_default();
    format!("line {line}: phone: {written} is sent as {sent}")
}

/// Describes a refused line.
pub(super) fn describe(line: u64, refusal: &LineRefusal) -> String {
    match refusal.field.as_str() {
        "" => format!("line {line}: {}", refusal.reason),
        field => format!("line {line}: {field}: {}", refusal.reason),
    }
}
