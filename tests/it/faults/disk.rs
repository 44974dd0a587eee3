//! A disk of a test's own: a file system in a file.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// `EXT4_IOC_SHUTDOWN` with `EXT4_GOING_FLAGS_NOLOGFLUSH`: data not yet on the disk never will be.
/// Prints a line when it is ready, and acts when it gets one.
const CUT: &str = r#"$| = 1; open(my $disk, "<", $ARGV[0]) or die; my $flags = pack("L", 2);
    print "ready\n"; <STDIN>; ioctl($disk, 0x8004587d, $flags) or die "$!"; print "cut\n";"#;

/// A mounted file system. It is unmounted when it is dropped.
pub struct Disk {
    dir: TempDir,
    kind: Kind,
}

enum Kind {
    Ext4,
    Tmpfs,
}

/// Cuts the power of a disk.
pub struct Cutter {
    child: Child,
    answers: BufReader<std::process::ChildStdout>,
}

impl Disk {
    /// Creates a disk whose power can be cut; fails with the reason if there can be none.
    pub fn ext4(mebibytes: u32) -> Result<Self, String> {
        let disk = Self { dir: tempfile::tempdir().unwrap(), kind: Kind::Ext4 };
        let image = disk.image();
        let file = std::fs::File::create(&image).unwrap();
        file.set_len(u64::from(mebibytes) << 20).unwrap();
        let path = format!("{}:/sbin:/usr/sbin", std::env::var("PATH").unwrap_or_default());
        run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image).env("PATH", path))?;
        disk.make()
    }

    /// Creates a disk that is soon full.
    pub fn tmpfs(mebibytes: u32) -> Result<Self, String> {
        let kind = Kind::Tmpfs;
        let disk = Self { dir: tempfile::tempdir().unwrap(), kind };
        std::fs::create_dir(disk.root()).unwrap();
        let size = format!("size={mebibytes}m");
        run(Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(disk.root()))?;
        Ok(disk)
    }

    fn make(self) -> Result<Self, String> {
        std::fs::create_dir(self.root()).unwrap();
        self.mount()?;
        Ok(self)
    }

    fn image(&self) -> PathBuf {
        self.dir.path().join("image")
    }

    /// Returns the mount point.
    pub fn root(&self) -> PathBuf {
        self.dir.path().join("disk")
    }

    /// Returns a directory for a server's data.
    pub fn data(&self) -> PathBuf {
        self.root().join("data")
    }

    fn mount(&self) -> Result<(), String> {
        run(Command::new("mount").args(["-o", "loop"]).arg(self.image()).arg(self.root()))
    }

    /// Unmounts and mounts it: data that was not on the disk is lost. A copy of the image is
    /// mounted. A process in a mount namespace of its own may hold the old file system, as of the
    /// start of that namespace. Mounting the same file would then give the one that was cut again.
    pub fn remount(&self) {
        assert!(matches!(self.kind, Kind::Ext4));
        run(Command::new("umount").arg(self.root())).unwrap();
        let copy = self.dir.path().join("copy");
        run(Command::new("cp").arg("--sparse=always").arg(self.image()).arg(&copy)).unwrap();
        std::fs::rename(copy, self.image()).unwrap();
        self.mount().unwrap();
    }

    /// Starts a process that cuts the power on request.
    pub fn cutter(&self) -> Cutter {
        let mut child = Command::new("perl")
            .args(["-e", CUT])
            .arg(self.root())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let mut cutter = Cutter { child, answers };
        cutter.expect("ready");
        cutter
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily, in case a part of a failed test still uses it. It may not be mounted.
        run(Command::new("umount").arg("--lazy").arg(self.root())).ok();
    }
}

impl Cutter {
    /// Cuts it, now.
    pub fn cut(mut self) {
        self.child.stdin.take().unwrap().write_all(b"now\n").unwrap();
        self.expect("cut");
        assert!(self.child.wait().unwrap().success());
    }

    fn expect(&mut self, word: &str) {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        assert_eq!(line.trim(), word);
    }
}

/// Fills a disk to the last byte; returns the file that does.
pub fn fill(root: &Path) -> PathBuf {
    let ballast = root.join("ballast");
    let mut file = std::fs::File::create(&ballast).unwrap();
    for size in [1 << 20, 4096, 1] {
        let block = vec![0xab; size];
        // Ever smaller blocks, until not one more fits.
        while file.write_all(&block).is_ok() {}
    }
    ballast
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

/// Prints, where everyone sees it, why a test did nothing.
pub fn skip(test: &str, why: &str) {
    // This bypasses the capture of tests' output.
    writeln!(std::io::stderr(), "skipped: {test}: {why}").ok();
}
