//! The files of the newest entries of one shard: appended to, and removed as a whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use postrider_actors::store::postrider_log::Entry;

use super::read::{BEGINNING, names, scan};

/// The number of retained files: the current one, and those of the last two checkpoints.
///
/// A checkpoint is noted a little behind its own position, so the entries that follow the older one
/// start before its note.
const FILES: usize = 3;

/// The files of one shard.
pub(super) struct ShardFiles {
    dir: PathBuf,
    open: Option<File>,
    /// The epoch and the position of the last entry in the files.
    last: (u64, u64),
    is_dirty: bool,
}

impl ShardFiles {
    pub(super) const fn new(dir: PathBuf) -> Self {
        Self { dir, open: None, last: (0, 0), is_dirty: false }
    }

    /// Appends an entry that the files lack, in a new file if it `begins_anew`.
    pub(super) fn keep(&mut self, entry: &Entry, begins_anew: bool) -> io::Result<()> {
        if self.open.is_none() {
            self.open_newest()?;
        }
        // A node reads the log from its newest checkpoint on when it starts. After a repair
        // positions are used again, in a later epoch.
        let at = (entry.header.epoch, entry.header.position.0);
        if at <= self.last {
            return Ok(());
        }
        let written = self.write(entry, at, begins_anew);
        if written.is_err() {
            // The file may have a part of the entry, which is cut off when it is opened.
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

    /// Opens the newest file, and cuts off an incomplete entry at its end.
    fn open_newest(&mut self) -> io::Result<()> {
        fs::create_dir_all(&self.dir)?;
        let Some(newest) = names(&self.dir)?.pop() else { return Ok(()) };
        let path = self.dir.join(newest);
        let mut last = (0, 0);
        let whole = scan(&path, &mut |header, _| {
            last = last.max((header.epoch, header.position.0));
        })?;
        // A file without a complete beginning, or of a later version, is left as it is.
        if whole == 0 {
            return Ok(());
        }
        let file = OpenOptions::new().append(true).open(&path)?;
        file.set_len(whole)?;
        self.last = self.last.max(last);
        self.open = Some(file);
        Ok(())
    }

    /// Makes a new file, and removes the oldest ones beyond the number that is retained.
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

    /// Syncs the written data to the disk.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        match &self.open {
            Some(file) if std::mem::take(&mut self.is_dirty) => file.sync_data(),
            _ => Ok(()),
        }
    }
}

/// Returns the name of a file by its first entry: sorted names are in the order of the log.
fn name(epoch: u64, position: u64) -> String {
    format!("{epoch:020}.{position:020}")
}

/// Returns whether this is the name of such a file.
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
