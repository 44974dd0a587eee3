//! Snapshots that have changed.

use std::path::{Path, PathBuf};

use crate::faults::check::Lost;
use crate::faults::disk::{Disk, skip};
use crate::faults::load::Story;
use crate::faults::process::Process;

/// The smallest value that is allowed.
const SNAPSHOT_OFTEN: [(&str, &str); 1] = [("STORAGE__SNAPSHOT_JOURNAL_BYTES", "1048576")];

/// Snapshots and trims under load, a power cut in the midst of it, then damage.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_snapshot_costs_nothing_but_time() {
    let disk = Disk::ext4(512).inspect_err(|why| skip("a power cut among snapshots", why)).ok();
    let dir = tempfile::tempdir().unwrap();
    let data = disk.as_ref().map_or_else(|| dir.path().join("data"), Disk::data);
    let mut story = Story::new();
    let mut process = Process::start_with(&data, &SNAPSHOT_OFTEN);
    for named in [0, 1, 2] {
        let cutter = disk.as_ref().map(Disk::cutter);
        let load = story.flood(&process);
        // The first is cut off while it is written, the others after the journal was trimmed.
        let is_cut = || match named {
            0 => data.join("snapshots").read_dir().is_ok_and(|entries| entries.count() > 0),
            _ => snapshots(&data).len() >= named && process.log().contains("snapshot was taken"),
        };
        load.wait_until("a snapshot", is_cut).await;
        if let Some(cutter) = cutter {
            load.cut(cutter);
        }
        process.kill();
        load.end().await;
        if let Some(disk) = &disk {
            disk.remount();
        }
        process = Process::start_with(&data, &SNAPSHOT_OFTEN);
        story.check(&process, Lost::MayBeThere).await;
    }
    assert!(!process.log().contains("damaged"), "{}", process.log());
    process.kill();
    damage(snapshots(&data).last().unwrap());
    process = Process::start_with(&data, &SNAPSHOT_OFTEN);
    assert!(process.log().contains("a snapshot is damaged and passed over"), "{}", process.log());
    story.check(&process, Lost::MayBeThere).await;
    process.kill();
    // Without a snapshot, the trimmed part of the journal is missing, and that is reported.
    snapshots(&data).iter().for_each(|snapshot| damage(snapshot));
    let started = Process::try_start(&data, &SNAPSHOT_OFTEN);
    let failed = started.err().expect("it forgot and started");
    assert!(failed.log.contains("no whole snapshot"), "{}", failed.log);
}

/// Returns the generations that have their final names, oldest first.
fn snapshots(data: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(data.join("snapshots")) else { return Vec::new() };
    let paths = entries.map_while(Result::ok).map(|entry| entry.path());
    let mut named: Vec<_> = paths.filter(|path| path.extension().is_none()).collect();
    named.sort_unstable();
    named
}

/// Changes a byte in the middle of each file below the path.
fn damage(path: &Path) {
    if path.is_dir() {
        let entries = std::fs::read_dir(path).unwrap();
        entries.for_each(|entry| damage(&entry.unwrap().path()));
        return;
    }
    let mut bytes = std::fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    if let Some(byte) = bytes.get_mut(middle) {
        *byte = byte.wrapping_add(1);
    }
    std::fs::write(path, bytes).unwrap();
}
