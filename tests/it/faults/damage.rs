//! Two servers on one directory, and files that are not what was written.

use super::check::Lost;
use super::load::Story;
use super::process::Process;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_server_on_the_same_data_says_so_and_ends() {
    let dir = tempfile::tempdir().unwrap();
    let mut story = Story::new();
    let process = Process::start(dir.path());
    let load = story.begin(&process);
    load.acknowledged(20).await;
    for _ in 0..2 {
        let second = Process::try_start(dir.path(), &[]).err().expect("a second server runs");
        assert!(second.status.code().is_some_and(|code| code != 0), "{second:?}");
        assert!(second.log.contains("in use by another server"), "{second:?}");
        assert!(second.log.contains(&dir.path().display().to_string()), "{second:?}");
    }
    load.acknowledged_more(50).await;
    load.end().await;
    story.check(&process, Lost::MustNotBeThere).await;
}
