//! Archives in a directory that all nodes share, such as a mounted one.
//!
//! A file in the directory names its cluster. Without that file nothing is read or written: an
//! unmounted directory must not look as if it had lost the archives.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::digest::copy;
use super::{Archives, CheckpointsError, Digest, GivesUp, given_up, goes};

/// The name of the file that names the cluster of the directory.
const MARK: &str = "cluster";
/// The prefix of the names of files that are not written completely.
const PART: &str = "part-";

/// The archives of a cluster in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryArchives {
    dir: PathBuf,
    /// The identity of the cluster.
    id: String,
}

fn failed(path: &Path) -> impl Fn(io::Error) -> CheckpointsError {
    move |error| CheckpointsError::Failed(format!("{}: {error}", path.display()))
}

impl DirectoryArchives {
    /// Returns the archives of a cluster in a directory.
    #[must_use]
    pub const fn new(dir: PathBuf, id: String) -> Self {
        Self { dir, id }
    }

    /// Makes the directory, unless it exists for the same cluster.
    ///
    /// # Errors
    /// [`CheckpointsError::Failed`]: the directory cannot be made, or belongs to another cluster.
    pub fn create(&self) -> Result<(), CheckpointsError> {
        fs::create_dir_all(&self.dir).map_err(failed(&self.dir))?;
        let mark = self.dir.join(MARK);
        match File::create_new(&mark) {
            Ok(mut file) => {
                let written = file.write_all(self.id.as_bytes()).and_then(|()| file.sync_all());
                written.and_then(|()| self.sync()).map_err(failed(&mark))
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.check(),
            Err(error) => Err(failed(&mark)(error)),
        }
    }

    /// Checks that the directory exists and belongs to this cluster.
    ///
    /// # Errors
    /// [`CheckpointsError::Failed`].
    pub fn check(&self) -> Result<(), CheckpointsError> {
        let mark = self.dir.join(MARK);
        let why = match fs::read_to_string(&mark) {
            Ok(id) if id == self.id => return Ok(()),
            Ok(_) => "it is of another cluster".to_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                "there is no such file; is the directory mounted?".to_owned()
            }
            Err(error) => error.to_string(),
        };
        Err(CheckpointsError::Failed(format!("{}: {why} (cluster.checkpoints)", mark.display())))
    }

    fn sync(&self) -> io::Result<()> {
        File::open(&self.dir)?.sync_all()
    }
}

impl Archives for DirectoryArchives {
    fn put(&self, name: &str, file: &Path, gives_up: GivesUp<'_>) -> Result<(), CheckpointsError> {
        self.check()?;
        let (part, whole) = (self.dir.join(format!("{PART}{name}")), self.dir.join(name));
        let mut from = File::open(file).map_err(failed(file))?;
        let mut to = File::create(&part).map_err(failed(&part))?;
        let copied = copy(&mut from, Some(&mut to), gives_up).map_err(failed(&part))?;
        copied.ok_or_else(given_up)?;
        // The archive gets its name once it is whole, and keeps it.
        let named = fs::rename(&part, &whole).and_then(|()| self.sync());
        named.map_err(failed(&whole))
    }

    fn get(
        &self,
        name: &str,
        to: Option<&Path>,
        gives_up: GivesUp<'_>,
    ) -> Result<Digest, CheckpointsError> {
        self.check()?;
        let path = self.dir.join(name);
        let mut from = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let (name, what) = (name.to_owned(), "missing".to_owned());
                return Err(CheckpointsError::Damaged { name, what });
            }
            from => from.map_err(failed(&path))?,
        };
        let mut to = to.map(|to| File::create(to).map_err(failed(to))).transpose()?;
        let copied = copy(&mut from, to.as_mut(), gives_up).map_err(failed(&path))?;
        copied.ok_or_else(given_up)
    }

    fn keep_only(&self, shard: u16, names: &[String], epoch: u64) -> Result<(), CheckpointsError> {
        self.check()?;
        let own = format!("{shard}.");
        for entry in fs::read_dir(&self.dir).map_err(failed(&self.dir))? {
            let file = entry.map_err(failed(&self.dir))?.file_name();
            let Some(file) = file.to_str() else { continue };
            // A part of a kept archive is older than the whole one.
            let name = file.strip_prefix(PART).unwrap_or(file);
            if name.starts_with(&own) && goes(name, names, epoch) {
                let path = self.dir.join(file);
                fs::remove_file(&path).map_err(failed(&path))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::digest::CHUNK_BYTES;
    use super::*;

    const NAME: &str = "3.00000000000000000007.2";

    fn archives(dir: &Path, id: &str) -> DirectoryArchives {
        DirectoryArchives::new(dir.join("prod"), id.to_owned())
    }

    fn names(archives: &DirectoryArchives) -> Vec<String> {
        let listed = fs::read_dir(&archives.dir).unwrap();
        let listed = listed.map(|it| it.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = listed.filter(|name| name != MARK).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn what_is_stored_is_read_back_and_what_is_not_kept_goes() {
        let dir = tempfile::tempdir().unwrap();
        let kept = archives(dir.path(), "ab");
        kept.create().unwrap();
        kept.create().unwrap();
        let (file, to) = (dir.path().join("file"), dir.path().join("to"));
        fs::write(&file, vec![7; CHUNK_BYTES + 9]).unwrap();
        let digest = Digest::of_file(&file).unwrap();
        kept.put(NAME, &file, &|| false).unwrap();
        assert_eq!(kept.get(NAME, Some(&to), &|| false), Ok(digest));
        assert_eq!(kept.get(NAME, None, &|| false), Ok(digest));
        assert_eq!(fs::read(&to).unwrap(), fs::read(&file).unwrap());
        // An archive that was given up has no name, and is removed with the next `keep_only`.
        assert!(kept.put("3.00000000000000000008.2", &file, &|| true).is_err());
        for other in ["3.00000000000000000009.3", "30.00000000000000000001.1"] {
            kept.put(other, &file, &|| false).unwrap();
        }
        assert!(names(&kept).contains(&"part-3.00000000000000000008.2".to_owned()));
        kept.keep_only(3, &[NAME.to_owned()], 2).unwrap();
        let left = ["3.00000000000000000007.2", "3.00000000000000000009.3"];
        assert_eq!(names(&kept), [&left[..], &["30.00000000000000000001.1"]].concat());
        let missing = kept.get("3.00000000000000000008.2", None, &|| false).unwrap_err();
        assert!(matches!(missing, CheckpointsError::Damaged { .. }), "{missing}");
    }

    #[test]
    fn a_directory_that_is_not_mounted_or_anothers_has_lost_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let (kept, other) = (archives(dir.path(), "ab"), archives(dir.path(), "cd"));
        let file = dir.path().join("file");
        fs::write(&file, b"1").unwrap();
        for archives in [&kept, &other] {
            let error = archives.get(NAME, None, &|| false).unwrap_err();
            assert!(matches!(&error, CheckpointsError::Failed(why) if why.contains("mounted")));
            assert!(archives.put(NAME, &file, &|| false).is_err());
            assert!(archives.keep_only(3, &[], 9).is_err());
            kept.create().unwrap();
            fs::remove_file(kept.dir.join(MARK)).unwrap();
        }
        kept.create().unwrap();
        let error = other.create().unwrap_err().to_string();
        assert!(
            error.contains("another cluster") && error.contains("cluster.checkpoints"),
            "{error}"
        );
        assert!(other.check().is_err() && kept.check().is_ok());
    }
}
