//! The machine of a soak: a wall clock and a disk whose faults are chosen.
//!
//! A small library in C is compiled and preloaded into the server's process. Both sides map one
//! file, which says what is wrong just now.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::Result;

const SOURCE: &str = include_str!("faults.c");
/// Places of the numbers in the file, each an `int64_t` of the machine.
const WALL_OFFSET_MS: u64 = 0;
const SYNC_DELAY_US: u64 = 8;
const DISK_FULL: u64 = 16;
const LENGTH: usize = 24;

/// The faults of the machine that the server runs on.
pub(super) struct Machine {
    library: PathBuf,
    file: File,
    path: PathBuf,
}

impl Machine {
    /// Compiles the library below `directory`; nothing is wrong at first.
    pub(super) fn new(directory: &Path) -> Result<Self> {
        let (source, library) = (directory.join("faults.c"), directory.join("faults.so"));
        std::fs::write(&source, SOURCE)?;
        let compiled = Command::new("cc")
            .args(["-shared", "-fPIC", "-O2", "-Wall", "-o"])
            .args([&library, &source])
            .arg("-ldl")
            .output()
            .map_err(|error| format!("the soak needs a C compiler: {error}"))?;
        if !compiled.status.success() {
            return Err(String::from_utf8_lossy(&compiled.stderr).into());
        }
        let path = directory.join("faults");
        std::fs::write(&path, [0; LENGTH])?;
        let file = File::options().write(true).open(&path)?;
        Ok(Self { library, file, path })
    }

    /// Has a process that is started run on this machine.
    pub(super) fn host(&self, command: &mut Command) {
        command.env("LD_PRELOAD", &self.library).env("POSTRIDER_SOAK_FAULTS", &self.path);
    }

    /// Sets the wall clock off by so many milliseconds; 0 is right.
    pub(super) fn set_wall_offset(&self, milliseconds: i64) -> Result<()> {
        self.set(WALL_OFFSET_MS, milliseconds)
    }

    /// Has each sync take this much longer.
    pub(super) fn set_sync_delay(&self, delay: Duration) -> Result<()> {
        self.set(SYNC_DELAY_US, i64::try_from(delay.as_micros())?)
    }

    /// Has each write to a file fail for want of space, or no longer.
    pub(super) fn set_full(&self, is_full: bool) -> Result<()> {
        self.set(DISK_FULL, i64::from(is_full))
    }

    fn set(&self, at: u64, value: i64) -> Result<()> {
        Ok(self.file.write_all_at(&value.to_ne_bytes(), at)?)
    }
}
