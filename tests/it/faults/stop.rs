//! SIGTERM stops the server cleanly while clients continue.

use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::check::Lost;
use super::load::Story;
use super::process::{Process, wait_for};

/// Longer than any stop takes that nothing delays.
const GRACE: [(&str, &str); 1] = [("SHUTDOWN__GRACE_SECONDS", "300")];
const SOON: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_under_load_answers_everything_that_it_took() {
    let dir = tempfile::tempdir().unwrap();
    let mut story = Story::new();
    for _ in 0..3 {
        let process = Process::start_with(dir.path(), &GRACE);
        story.check(&process, Lost::MustNotBeThere).await;
        let load = story.begin(&process);
        load.acknowledged(150).await;
        process.terminate();
        let ended = tokio::task::spawn_blocking(|| process.ended());
        let ended = tokio::time::timeout(SOON, ended).await.expect("it took too long").unwrap();
        load.end().await;
        assert_eq!(ended.status.code(), Some(0), "{}", ended.log);
        assert!(ended.log.contains("stopped"), "{}", ended.log);
    }
    story.check(&Process::start(dir.path()), Lost::MustNotBeThere).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_signal_ends_it_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut process = Process::start_with(dir.path(), &GRACE);
    // A client does not read its answers; a stop waits for it for a while.
    let mut stream = TcpStream::connect(process.address()).await.unwrap();
    let request = "GET /openapi.json HTTP/1.1\r\nHost: it\r\n\r\n";
    stream.write_all(request.repeat(40).as_bytes()).await.unwrap();
    stream.readable().await.unwrap();
    process.terminate();
    wait_for("the first signal", || process.log().contains("draining").then_some(()));
    assert!(process.runs(), "it did not wait for the client");
    process.terminate();
    let ended = tokio::task::spawn_blocking(|| process.ended());
    let ended = tokio::time::timeout(SOON, ended).await.expect("it took too long").unwrap();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.log);
}

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
