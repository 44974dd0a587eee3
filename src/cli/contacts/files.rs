//! The private files of an import or export: the state of an import, and its refused lines.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use postrider::csv_cell as cell;
use postrider_actors::random;
use serde::{Deserialize, Serialize};

use super::error::{ImportError, LineRefusal};
use super::phones::Country;

/// The mode of files with contacts.
const MODE: u32 = 0o600;

/// The progress of an import, which a file beside the imported one stores.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ImportState {
    /// The identifier of this import in its idempotency keys.
    pub(super) run: String,
    /// The SHA-256 of the file, in hexadecimal.
    pub(super) file: String,
    /// The fingerprint of the API key.
    pub(super) key: String,
    /// The country of national phone numbers, if one was named.
    pub(super) country: Option<String>,
    /// The next line to send: its offset, its number, and the number of records before it.
    pub(super) byte: u64,
    pub(super) line: u64,
    pub(super) record: u64,
    /// The number of created contacts.
    pub(super) made: u64,
    /// The number of refused lines.
    pub(super) refused: u64,
    /// The length of the report of refused lines, in bytes.
    pub(super) refused_bytes: u64,
    /// Set if the import is complete.
    pub(super) finished: bool,
}

impl ImportState {
    /// Makes the state of a new import.
    fn new(file: &str, key: &str, country: Option<Country>) -> Self {
        Self {
            run: format!("{:020x}", random::unique()),
            file: file.to_owned(),
            key: key.to_owned(),
            country: country.map(|it| it.as_str().to_owned()),
            byte: 0,
            line: 1,
            record: 0,
            made: 0,
            refused: 0,
            refused_bytes: 0,
            finished: false,
        }
    }
}

/// The file that stores the state.
#[derive(Debug)]
pub(super) struct StateFile {
    path: PathBuf,
}

impl StateFile {
    /// Returns the state file of an import of `file`.
    pub(super) fn beside(file: &Path) -> Self {
        let mut path = file.as_os_str().to_owned();
        path.push(".import");
        Self { path: path.into() }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether `path` is the imported file, the state file, or its temporary file.
    pub(super) fn is_in_use(&self, file: &Path, path: &Path) -> bool {
        let path = canonical_path(path);
        [file, &self.path, &self.new_path()].iter().any(|used| canonical_path(used) == path)
    }

    fn new_path(&self) -> PathBuf {
        let mut new = self.path.as_os_str().to_owned();
        new.push(".new");
        new.into()
    }

    /// Opens the state of an import of this content under this key and with this country.
    ///
    /// Starts a new import if there is none, or if the previous one, of other content, is finished.
    pub(super) fn open(
        &self,
        file: &str,
        key: &str,
        country: Option<Country>,
    ) -> Result<ImportState, ImportError> {
        let text = match std::fs::read(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let state = ImportState::new(file, key, country);
                self.save(&state)?;
                return Ok(state);
            }
            Err(source) => return Err(ImportError::io(&self.path, source)),
        };
        let odd = |_| ImportError::State { path: self.path.clone(), why: "it cannot be read" };
        let state: ImportState = serde_json::from_slice(&text).map_err(odd)?;
        let other = |why| Err(ImportError::State { path: self.path.clone(), why });
        if state.key != key {
            return other("it began with another API key");
        }
        if state.file == file {
            let is_same = state.country.as_deref() == country.map(Country::as_str);
            // A request that is sent again must have the same body.
            return if is_same || state.finished {
                Ok(state)
            } else {
                other("it began with another --country")
            };
        }
        if !state.finished {
            return other("the file has changed since it began");
        }
        let state = ImportState::new(file, key, country);
        self.save(&state)?;
        Ok(state)
    }

    /// Saves the state atomically: a crash leaves either the old or the new state.
    pub(super) fn save(&self, state: &ImportState) -> Result<(), ImportError> {
        let io = |source| ImportError::io(&self.path, source);
        let new = self.new_path();
        let mut file = create_private(&new).map_err(io)?;
        // A struct of texts and numbers always has a JSON form.
        let json = serde_json::to_vec_pretty(state).unwrap_or_default();
        file.write_all(&json).and_then(|()| file.sync_all()).map_err(io)?;
        std::fs::rename(&new, &self.path).map_err(io)
    }
}

/// Returns the absolute path, without symbolic links, of a file that may not exist yet.
fn canonical_path(path: &Path) -> PathBuf {
    let there = path.canonicalize();
    let of_name = || {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new(".")).canonicalize().ok()?;
        Some(parent.join(path.file_name()?))
    };
    there.ok().or_else(of_name).unwrap_or_else(|| path.to_owned())
}

/// The report file, which only grows by whole batches.
pub(super) struct RefusedFile {
    path: PathBuf,
    file: File,
}

impl RefusedFile {
    /// Opens the file and truncates it to `bytes`. Later rows belong to a batch that is sent again.
    pub(super) fn open(path: &Path, bytes: u64) -> Result<Self, ImportError> {
        let io = |source| ImportError::io(path, source);
        let file = open_private(path).map_err(io)?;
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

/// Creates an empty file with mode 0600, or empties an existing one and closes it to others.
pub(super) fn create_private(path: &Path) -> io::Result<File> {
    open_with_mode(path, OpenOptions::new().truncate(true))
}

/// Opens or creates a file of mode 0600 without emptying it.
fn open_private(path: &Path) -> io::Result<File> {
    open_with_mode(path, OpenOptions::new().truncate(false))
}

fn open_with_mode(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let file = options.create(true).write(true).mode(MODE).open(path)?;
    // The mode above is for new files only. A device or pipe keeps its own.
    if file.metadata()?.is_file() {
        file.set_permissions(Permissions::from_mode(MODE))?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_belongs_to_a_file_and_a_key() {
        let dir = tempfile::tempdir().unwrap();
        let kept = StateFile::beside(&dir.path().join("a.csv"));
        assert!(kept.path().ends_with("a.csv.import"));
        let mut state = kept.open("hash", "key", None).unwrap();
        state.line = 7;
        kept.save(&state).unwrap();
        assert_eq!(kept.open("hash", "key", None).unwrap(), state);
        assert!(kept.open("hash", "other key", None).is_err());
        assert!(kept.open("hash", "key", "DE".parse().ok()).is_err());
        assert!(kept.open("other", "key", None).is_err(), "not while it is under way");
        state.finished = true;
        kept.save(&state).unwrap();
        assert_eq!(kept.open("hash", "key", None).unwrap(), state);
        let new = kept.open("other", "key", None).unwrap();
        assert!(!new.finished && new.line == 1 && new.run != state.run);
        std::fs::write(kept.path(), "{").unwrap();
        assert!(kept.open("other", "key", None).is_err());
    }
}
