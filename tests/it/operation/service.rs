//! Notifications to a service manager, and health checks with only the binary.

use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Output};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::tls::write_pair;
use crate::support::TestServer;

/// The maximum wait for a word of the server.
const PATIENCE: Duration = Duration::from_secs(60);

/// Ends the process when a test fails.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Returns the next word that the service manager receives.
fn heard(manager: &UnixDatagram) -> String {
    let mut word = [0; 256];
    let length = manager.recv(&mut word).expect("the server says nothing");
    String::from_utf8_lossy(&word[..length]).trim().to_owned()
}

#[test]
fn the_service_manager_hears_of_the_start_of_life_and_of_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_postrider"));
    command.args(["serve", "--listen", "127.0.0.1:0"]);
    command.arg("--data-dir").arg(directory.path().join("data"));
    command.env("NOTIFY_SOCKET", &socket).env("WATCHDOG_USEC", "150000");
    command.env_remove("WATCHDOG_PID").stdout(std::process::Stdio::null());
    let mut server = Ended(command.stderr(std::process::Stdio::null()).spawn().unwrap());
    assert_eq!(heard(&manager), "READY=1");
    for _ in 0..3 {
        assert_eq!(heard(&manager), "WATCHDOG=1", "it lives on");
    }
    kill_process(Pid::from_child(&server.0), Signal::TERM).unwrap();
    let last = std::iter::repeat_with(|| heard(&manager)).find(|word| word != "WATCHDOG=1");
    assert_eq!(last.unwrap(), "STOPPING=1");
    assert!(server.0.wait().unwrap().success());
}

fn health(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_postrider"));
    command.arg("health").args(arguments).env_remove("POSTRIDER_SERVER").output().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn health_is_reported_by_the_exit_status() {
    let mut server = TestServer::start().await;
    let url = format!("http://{}", server.address());
    for (arguments, expected) in [(&[][..], "ready"), (&["--alive"][..], "ok")] {
        let output = health(&[&["--server", &url], arguments].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(said.lines().next(), Some(expected));
    }
    server.stop();
    let output = health(&["--server", &url]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with(&format!("postrider: cannot reach {url}")), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn health_of_this_machine_needs_no_known_certificate() {
    let directory = tempfile::tempdir().unwrap();
    write_pair(directory.path());
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let server = TestServer::with(&[
        ("SERVER__TLS_CERTIFICATE_FILE", &path("cert.pem")),
        ("SERVER__TLS_KEY_FILE", &path("key.pem")),
    ])
    .await;
    let output = health(&["--server", &format!("https://{}", server.address())]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
