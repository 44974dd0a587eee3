//! Disks that are full, and disks that fail.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use super::check::Lost;
use super::client::Outcome;
use super::disk::{Disk, fill, skip};
use super::load::{Load, Story};
use super::process::{Process, signal, wait_for};

/// The number of requests that are refused while the disk fails.
const REFUSALS: usize = 50;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_cannot_be_written_stops_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut story = Story::new();
    let process = Process::start_logging_to(dir.path(), "/dev/full");
    let load = story.begin(&process);
    load.acknowledged(100).await;
    load.end().await;
    story.check(&process, Lost::MayBeThere).await;
    process.kill();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_is_said_and_survived() {
    for disk in [Disk::tmpfs(64), Disk::ext4(64)] {
        let disk = match disk {
            Ok(disk) => disk,
            Err(why) => return skip("a_full_disk_is_said_and_survived", &why),
        };
        let mut story = Story::new();
        let process = Process::start(&disk.data());
        let load = story.begin(&process);
        load.acknowledged(100).await;
        let ballast = fill(&disk.root());
        is_unready(&process, &load).await;
        std::fs::remove_file(ballast).unwrap();
        is_ready_again(&process, load).await;
        story.check(&process, Lost::MayBeThere).await;
        process.kill();
        story.check(&Process::start(&disk.data()), Lost::MayBeThere).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sync_that_fails_is_said_and_survived() {
    let dir = tempfile::tempdir().unwrap();
    let mut story = Story::new();
    let mut process = Process::start(dir.path());
    for _ in 0..2 {
        let load = story.begin(&process);
        load.acknowledged(50).await;
        let failure = match SyncFailure::of(&process) {
            Ok(failure) => failure,
            Err(why) => {
                load.end().await;
                return skip("a_sync_that_fails_is_said_and_survived", &why);
            }
        };
        is_unready(&process, &load).await;
        failure.end();
        is_ready_again(&process, load).await;
        story.check(&process, Lost::MayBeThere).await;
        process.kill();
        process = Process::start(dir.path());
        story.check(&process, Lost::MayBeThere).await;
    }
}

/// Checks that it reports that it is not ready and refuses requests, while it keeps running.
async fn is_unready(process: &Process, load: &Load<'_>) {
    load.unavailable(REFUSALS).await;
    let mut client = process.demo();
    let Outcome::Answered(ready) = client.get("/readyz").await else { panic!("no answer") };
    assert_eq!(ready.status, 503, "{ready:?}");
    assert!(ready.retry_after.is_some());
    assert_eq!(ready.body["reason"], "storage_failed", "{ready:?}");
    assert!(ready.body["reasons"][0].is_string(), "{ready:?}");
    assert_eq!(client.fetch("/healthz").await["status"], "ok");
}

/// Checks that it recovers by itself, and reports that.
async fn is_ready_again(process: &Process, load: Load<'_>) {
    load.acknowledged_more(100).await;
    assert_eq!(process.demo().fetch("/readyz").await["status"], "ready");
    load.end().await;
}

/// Has every sync of a process fail, until its end.
struct SyncFailure(Child);

impl SyncFailure {
    fn of(process: &Process) -> Result<Self, String> {
        let mut child = Command::new("strace")
            .args(["-f", "-e", "trace=fdatasync,fsync", "-e", "inject=fdatasync,fsync:error=EIO"])
            .args(["-p", &process.id().to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("strace: {error}"))?;
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let first = lines.by_ref().map_while(Result::ok).find(|line| {
            line.contains("attached") || line.contains("not permitted") || line.contains("ptrace")
        });
        // Keeps reading, so that the process can always write.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        let failure = Self(child);
        match first {
            Some(line) if line.contains("attached") => Ok(failure),
            other => Err(format!("strace cannot attach: {other:?}")),
        }
    }

    /// Ends the failure of the disk.
    fn end(mut self) {
        signal(self.0.id(), "INT");
        wait_for("the end of strace", || self.0.try_wait().unwrap());
    }
}

impl Drop for SyncFailure {
    fn drop(&mut self) {
        // A tracer that ends releases its process. It may have ended.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}
