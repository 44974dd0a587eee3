//! A machine whose faults are chosen, for a server in a process: its wall clock and its disk.
//!
//! A small library in C is compiled and preloaded into the server's process. Both sides map one
//! file, which contains the present faults.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "shared by the tests and the harness, neither of which uses all of it"
)]

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const SOURCE: &str = include_str!("faults.c");
/// The positions of the numbers in the file, each an `int64_t` of the machine.
const WALL_OFFSET_MS: u64 = 0;
const SYNC_DELAY_US: u64 = 8;
const DISK_FULL: u64 = 16;
const LENGTH: usize = 24;

/// The faults of the machine that the server runs on.
pub struct Machine {
    library: PathBuf,
    file: File,
    path: PathBuf,
}

impl Machine {
    /// Compiles the library below `directory`; nothing is wrong at first.
    pub fn new(directory: &Path) -> io::Result<Self> {
        let (source, library) = (directory.join("faults.c"), directory.join("faults.so"));
        std::fs::write(&source, SOURCE)?;
        let compiled = Command::new("cc")
            .args(["-shared", "-fPIC", "-O2", "-Wall", "-o"])
            .args([&library, &source])
            .arg("-ldl")
            .output()
            .map_err(|error| io::Error::new(error.kind(), format!("no C compiler: {error}")))?;
        if !compiled.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&compiled.stderr).into_owned()));
        }
        let path = directory.join("faults");
        std::fs::write(&path, [0; LENGTH])?;
        let file = File::options().write(true).open(&path)?;
        Ok(Self { library, file, path })
    }

    /// Has a new process run on this machine.
    pub fn host(&self, command: &mut Command) {
        command.env("LD_PRELOAD", &self.library).env("POSTRIDER_TEST_FAULTS", &self.path);
    }

    /// Sets the error of the wall clock in milliseconds; 0 is right.
    pub fn set_wall_offset(&self, milliseconds: i64) -> io::Result<()> {
        self.set(WALL_OFFSET_MS, milliseconds)
    }

    /// Has each sync take this much longer.
    pub fn set_sync_delay(&self, delay: Duration) -> io::Result<()> {
        self.set(SYNC_DELAY_US, i64::try_from(delay.as_micros()).unwrap_or(i64::MAX))
    }

    /// Has each write to a file fail for lack of space, or no longer.
    pub fn set_full(&self, is_full: bool) -> io::Result<()> {
        self.set(DISK_FULL, i64::from(is_full))
    }

    fn set(&self, at: u64, value: i64) -> io::Result<()> {
        self.file.write_all_at(&value.to_ne_bytes(), at)
    }
}
