//! The list of a backup's files, with a SHA-256 of each.

use std::fs;
use std::path::Path;

use postrider_log::{EntryHash, LogId, Mark};
use serde::{Deserialize, Serialize};

use super::CopyError;
use super::hashing::{Written, write_file};
use crate::Position;

/// The name of the list.
pub(super) const MANIFEST: &str = "manifest.json";
/// The format of the list and of what it names. Another one is not read.
const FORMAT: u32 = 1;

/// The list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    format: u32,
    /// The identity of the log, in hexadecimal digits.
    log_id: String,
    /// The archives, each with everything at one position.
    pub(super) archives: Vec<Part>,
    /// The pieces of the log, each with the commits after a position, up to another.
    pub(super) log: Vec<Part>,
}

/// A file of the backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Part {
    pub(super) file: String,
    /// The position that it follows; an archive has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) after: Option<u64>,
    /// The position that it ends with.
    pub(super) position: u64,
    epoch: u64,
    hash: String,
    pub(super) bytes: u64,
    pub(super) sha256: String,
}

impl Part {
    pub(super) fn new(file: String, after: Option<Position>, end: &Mark, written: Written) -> Self {
        Self {
            file,
            after: after.map(|after| after.0),
            position: end.position.0,
            epoch: end.epoch,
            hash: hex(&end.hash.0),
            bytes: written.bytes,
            sha256: written.sha256,
        }
    }

    /// Returns whether it names a file beside the list, and its positions ascend.
    fn is_sound(&self) -> bool {
        let goes_on = self.after.is_none_or(|after| after < self.position);
        goes_on && self.end().is_some() && !self.file.contains('/')
    }

    /// Returns the mark that it ends with.
    pub(super) fn end(&self) -> Option<Mark> {
        let hash = EntryHash(unhex(&self.hash)?);
        Some(Mark { position: Position(self.position), epoch: self.epoch, hash })
    }
}

impl Manifest {
    pub(super) fn new(log: LogId) -> Self {
        Self { format: FORMAT, log_id: hex(&log.0), archives: Vec::new(), log: Vec::new() }
    }

    /// Reads the list of a backup; `None` if there is none.
    pub(super) fn read(dir: &Path) -> Result<Option<Self>, CopyError> {
        let path = dir.join(MANIFEST);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(CopyError::io(&path, &error)),
        };
        #[derive(Deserialize)]
        struct Version {
            format: u32,
        }
        let path = path.display();
        if let Ok(Version { format }) = serde_json::from_slice(&text)
            && format > FORMAT
        {
            let what = format!("{path} has format {format}; this version knows up to {FORMAT}");
            return Err(CopyError::NewerFormat(what));
        }
        let damaged = |what: String| CopyError::Damaged(format!("{path} is damaged: {what}"));
        let read: Self =
            serde_json::from_slice(&text).map_err(|error| damaged(error.to_string()))?;
        let mut parts = read.archives.iter().chain(&read.log);
        let is_sound = read.format == FORMAT
            && unhex::<16>(&read.log_id).is_some()
            && parts.all(Part::is_sound);
        if !is_sound {
            return Err(damaged("a value is not what was written".into()));
        }
        Ok(Some(read))
    }

    /// Writes the list in place of the previous one.
    pub(super) fn write(&self, dir: &Path) -> Result<(), CopyError> {
        let path = dir.join(MANIFEST);
        let text = serde_json::to_vec_pretty(self);
        let text = text.map_err(|error| CopyError::Io(error.to_string()))?;
        let put = |out: &mut dyn std::io::Write| {
            out.write_all(&text).map_err(|error| CopyError::io(&path, &error))
        };
        write_file(&path, put, |_| Ok(())).map(drop)
    }

    /// Returns its log.
    pub(super) fn log_id(&self) -> LogId {
        // It was checked when it was read.
        LogId(unhex(&self.log_id).unwrap_or_default())
    }

    /// Returns the mark that it reaches.
    pub(super) fn end(&self) -> Option<Mark> {
        let parts = self.archives.iter().chain(&self.log);
        parts.filter_map(Part::end).max_by_key(|mark| mark.position)
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut out = [0; N];
    if text.len() != 2 * N || !text.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
    {
        return None;
    }
    for (byte, digits) in out.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(out)
}
