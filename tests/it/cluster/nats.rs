//! One real `nats-server` for the nodes of a test.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// Names another program than the one that `tests/run` installs.
const PROGRAM: &str = "POSTRIDER_TEST_NATS_SERVER";

/// A server alone, which syncs every message. It ends with this value.
pub struct Nats {
    pub address: String,
    pub monitor: String,
    child: Child,
    _dir: TempDir,
}

impl Drop for Nats {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn program() -> PathBuf {
    if let Some(program) = std::env::var_os(PROGRAM) {
        return program.into();
    }
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/nats/bin/nats-server");
    let how = format!("{}: run tests/run once, or set {PROGRAM}", program.display());
    assert!(program.exists(), "{how}");
    program
}

pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Nats {
    pub fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (port, monitor) = (free_port(), free_port());
        let config = dir.path().join("nats.conf");
        let store = dir.path().join("store");
        let text = format!(
            "server_name: alone\nlisten: \"127.0.0.1:{port}\"\nhttp: \"127.0.0.1:{monitor}\"\n\
             jetstream {{ store_dir: \"{}\", sync_interval: always, max_file_store: 1GB }}\n",
            store.display()
        );
        std::fs::write(&config, text).unwrap();
        let mut command = Command::new(program());
        command.arg("--config").arg(&config).stderr(Stdio::piped()).stdout(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let ready =
            lines.by_ref().map_while(Result::ok).find(|line| line.contains("Server is ready"));
        assert!(ready.is_some(), "nats-server has ended");
        // What it says from here on must be read, or it would stop for it.
        std::thread::spawn(move || lines.for_each(drop));
        let address = format!("nats://127.0.0.1:{port}");
        Self { address, monitor: format!("http://127.0.0.1:{monitor}"), child, _dir: dir }
    }
}
