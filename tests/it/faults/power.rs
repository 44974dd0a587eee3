//! Power cuts lose nothing that was answered.

use rand::RngExt;

use super::check::Lost;
use super::disk::{Disk, skip};
use super::load::Story;
use super::process::Process;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_answered_outlives_a_power_cut() {
    let disk = match Disk::ext4(512) {
        Ok(disk) => disk,
        Err(why) => return skip("what_was_answered_outlives_a_power_cut", &why),
    };
    let mut story = Story::new();
    let mut process = Process::start(&disk.data());
    for _ in 0..4 {
        let cutter = disk.cutter();
        let answers = story.rng.random_range(20..300);
        let load = story.begin(&process);
        load.acknowledged(answers).await;
        load.cut(cutter);
        process.kill();
        load.end().await;
        disk.remount();
        process = Process::start(&disk.data());
        story.check(&process, Lost::MayBeThere).await;
    }
    // Nothing may have the disk open when it goes.
    drop(process);
}
