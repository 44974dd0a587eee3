//! Servers of NATS for the rows about a cluster, which sync every message.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::ports::free_port;
use crate::{Result, setup};

/// The variable that names another program than the one that `tests/run` installs.
const PROGRAM: &str = "POSTRIDER_TEST_NATS_SERVER";
/// The names of the servers.
const NAMES: [&str; 3] = ["n1", "n2", "n3"];

/// Three servers, which end with this value.
pub(crate) struct Servers {
    /// The addresses for connections: host and port.
    pub(crate) addresses: Vec<String>,
    /// The addresses for monitoring.
    pub(crate) monitors: Vec<String>,
    children: Vec<Child>,
    /// The data, which is removed after the servers have ended.
    _data: TempDir,
}

impl Drop for Servers {
    fn drop(&mut self) {
        for child in &mut self.children {
            // A server that has ended needs no more.
            child.kill().ok();
            child.wait().ok();
        }
    }
}

fn program() -> PathBuf {
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/nats/bin/nats-server");
    std::env::var_os(PROGRAM).map_or(installed, PathBuf::from)
}

impl Servers {
    /// Starts the servers, with their data on the disk. Without the program, reports that; `None`.
    pub(crate) fn start() -> Result<Option<Self>> {
        let program = program();
        if !program.exists() {
            let path = program.display();
            eprintln!("  skipped: {path} is missing: run tests/run once, or set {PROGRAM}");
            return Ok(None);
        }
        let data = setup::data_directory()?;
        let mut ports = Vec::new();
        for _ in NAMES {
            ports.push([free_port(), free_port(), free_port()]);
        }
        let all = |at: usize| ports.iter().map(move |it| format!("127.0.0.1:{}", it[at]));
        let routes: Vec<_> = all(2).map(|route| format!("\"nats://{route}\"")).collect();
        let (addresses, monitors) = (all(0).collect(), all(1).collect());
        let mut servers = Self { addresses, monitors, children: Vec::new(), _data: data };
        for (name, [port, monitor, route]) in NAMES.iter().zip(&ports) {
            let directory = servers._data.path();
            let store = directory.join(format!("{name}.store"));
            let text = format!(
                "server_name: {name}\nlisten: \"127.0.0.1:{port}\"\n\
                 http: \"127.0.0.1:{monitor}\"\njetstream {{ store_dir: \"{}\", \
                 sync_interval: always, max_file_store: 8GB }}\n\
                 cluster {{ name: bench, listen: \"127.0.0.1:{route}\", routes: [{}] }}\n",
                store.display(),
                routes.join(", ")
            );
            let config = directory.join(format!("{name}.conf"));
            std::fs::write(&config, text)?;
            servers.children.push(spawn(&program, &config)?);
        }
        Ok(Some(servers))
    }
}

/// Starts a server, and waits until it listens.
fn spawn(program: &Path, config: &Path) -> Result<Child> {
    let mut command = Command::new(program);
    command.arg("--config").arg(config).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let mut lines = BufReader::new(child.stderr.take().ok_or("its log is a pipe")?).lines();
    let is_ready = |line: String| line.contains("Server is ready");
    if !lines.by_ref().map_while(std::result::Result::ok).any(is_ready) {
        return Err("a server of NATS has ended".into());
    }
    // Its further output must be read, or the server would block on it.
    drop(std::thread::spawn(move || lines.for_each(drop)));
    Ok(child)
}
