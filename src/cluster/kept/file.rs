//! The files that have the newest entries of one shard: written at their end only, and removed
//! whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use postrider_actors::store::postrider_log::Entry;

use super::read::{BEGINNING, names, scan};

/// How many files are kept: that of now, and those of the last two checkpoints. A checkpoint is
/// noted a little behind where it stands, so what follows the older one begins before its note.
const FILES: usize = 3;

/// The files of one shard.
pub(super) struct ShardFiles {
    dir: PathBuf,
    open: Option<File>,
    /// The epoch and the position of the last entry that is there.
    last: (u64, u64),
    is_dirty: bool,
}

impl ShardFiles {
    pub(super) const fn new(dir: PathBuf) -> Self {
        Self { dir, open: None, last: (0, 0), is_dirty: false }
    }

    /// Keeps an entry that is not there, in a new file if it `begins_anew`.
    pub(super) fn keep(&mut self, entry: &Entry, begins_anew: bool) -> io::Result<()> {
        if self.open.is_none() {
            self.open_newest()?;
        }
        // A node that starts reads the log from its newest checkpoint on. After a repair positions
        // are given once more, in a later epoch.
        let at = (entry.header.epoch, entry.header.position.0);
        if at <= self.last {
            return Ok(());
        }
        let written = self.write(entry, at, begins_anew);
        if written.is_err() {
            // It may have a part of the entry, which goes when it is opened.
            self.open = None;
        }
        written
    }

    fn write(&mut self, entry: &Entry, at: (u64, u64), begins_anew: bool) -> io::Result<()> {
        if begins_anew || self.open.is_none() {
            self.sync()?;
            self.open = Some(self.begin(at)?);
        }
        if let Some(file) = &mut self.open {
            file.write_all(&entry.bytes)?;
            (self.last, self.is_dirty) = (at, true);
        }
        Ok(())
    }

    /// Opens the file that was written last, without what is cut short at its end.
    fn open_newest(&mut self) -> io::Result<()> {
        fs::create_dir_all(&self.dir)?;
        let Some(newest) = names(&self.dir)?.pop() else { return Ok(()) };
        let path = self.dir.join(newest);
        let mut last = (0, 0);
        let whole = scan(&path, &mut |header, _| {
            last = last.max((header.epoch, header.position.0));
        })?;
        // One that has not even its beginning, or is of a later version, is left as it is.
        if whole == 0 {
            return Ok(());
        }
        let file = OpenOptions::new().append(true).open(&path)?;
        file.set_len(whole)?;
        self.last = self.last.max(last);
        self.open = Some(file);
        Ok(())
    }

    /// A new file, beside as many older ones as are kept.
    fn begin(&self, (epoch, position): (u64, u64)) -> io::Result<File> {
        let path = self.dir.join(name(epoch, position));
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
        file.write_all(BEGINNING)?;
        let mut all = names(&self.dir)?;
        all.truncate(all.len().saturating_sub(FILES));
        for old in all {
            fs::remove_file(self.dir.join(old))?;
        }
        File::open(&self.dir)?.sync_all()?;
        Ok(file)
    }

    /// Has the disk take what was written.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        match &self.open {
            Some(file) if std::mem::take(&mut self.is_dirty) => file.sync_data(),
            _ => Ok(()),
        }
    }
}

/// The name of a file by its first entry: sorted, they are in the order of the log.
fn name(epoch: u64, position: u64) -> String {
    format!("{epoch:020}.{position:020}")
}

/// Whether it is a name of these.
pub(super) fn is_name(name: &str) -> bool {
    let is_number = |it: &str| it.len() == 20 && it.bytes().all(|byte| byte.is_ascii_digit());
    name.split_once('.').is_some_and(|(epoch, position)| is_number(epoch) && is_number(position))
}

/// Removes the files of a shard.
pub(super) fn remove(dir: &Path) -> io::Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
