//! Real `nats-server` processes, each on ports and in a directory of its own.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;

use crate::nats::{Nats, NatsOptions};

/// The variable that names another program than the one that `tests/run` installs.
const PROGRAM: &str = "POSTRIDER_TEST_NATS_SERVER";

/// The error of a server whose port is taken, and the number of ports that are tried.
const TAKEN: &str = "address already in use";
const PORTS_MAX: usize = 10;

fn program() -> PathBuf {
    if let Some(program) = std::env::var_os(PROGRAM) {
        return program.into();
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let program = root.join("target/nats/bin/nats-server");
    let how = format!("{}: run tests/run once, or set {PROGRAM}", program.display());
    assert!(program.exists(), "{how}");
    program
}

/// One server; the process ends with this value.
pub(super) struct Server {
    pub(super) name: String,
    pub(super) address: String,
    pub(super) monitor: String,
    config: PathBuf,
    child: Option<Child>,
    _dir: Arc<TempDir>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Server {
    /// Starts one server alone. It syncs each message only if `syncs` is set.
    pub(super) fn alone(syncs: bool, more: &str) -> Self {
        let dir = Arc::new(tempfile::tempdir().unwrap());
        Self::started("alone", &dir, syncs, more)
    }

    /// Starts three servers that store streams together.
    pub(super) fn three() -> Vec<Self> {
        let dir = Arc::new(tempfile::tempdir().unwrap());
        let ports: Vec<_> = (0..3).map(|_| free_port()).collect();
        let routes = ports.iter().map(|port| format!("nats://127.0.0.1:{port}"));
        let routes = routes.collect::<Vec<_>>().join(", ");
        let server = |(at, port): (usize, &u16)| {
            let more = format!(
                "cluster {{ name: test, listen: \"127.0.0.1:{port}\", routes: [{routes}] }}"
            );
            Self::started(&format!("n{at}"), &dir, true, &more)
        };
        ports.iter().enumerate().map(server).collect()
    }

    fn started(name: &str, dir: &Arc<TempDir>, syncs: bool, more: &str) -> Self {
        for _ in 0..PORTS_MAX {
            let mut server = Self::made(name, dir, syncs, more);
            match server.try_start() {
                Ok(()) => return server,
                // Another process took a port that was free a moment ago.
                Err(said) if said.contains(TAKEN) => {}
                Err(said) => panic!("the server {name} has ended: {said}"),
            }
        }
        panic!("there is no free port");
    }

    fn made(name: &str, dir: &Arc<TempDir>, syncs: bool, more: &str) -> Self {
        let (port, monitor) = (free_port(), free_port());
        let config = dir.path().join(format!("{name}.conf"));
        let store = dir.path().join(name);
        let sync = if syncs { "always" } else { "2m" };
        let text = format!(
            "server_name: {name}\nlisten: \"127.0.0.1:{port}\"\nhttp: \"127.0.0.1:{monitor}\"\n\
             jetstream {{ store_dir: \"{}\", sync_interval: {sync}, max_file_store: 1GB }}\n{more}\n",
            store.display()
        );
        std::fs::write(&config, text).unwrap();
        Self {
            name: name.to_owned(),
            address: format!("nats://127.0.0.1:{port}"),
            monitor: format!("http://127.0.0.1:{monitor}"),
            config,
            child: None,
            _dir: dir.clone(),
        }
    }

    /// Starts the process and returns when it listens, or its output if it has ended.
    fn try_start(&mut self) -> Result<(), String> {
        let mut command = Command::new(program());
        command.arg("--config").arg(&self.config).stderr(Stdio::piped()).stdout(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        self.child = Some(child);
        let mut said = Vec::new();
        let is_ready = lines.by_ref().map_while(Result::ok).any(|line| {
            let listens = "Listening for client connections";
            let is_ready = line.contains("Server is ready") || line.contains(listens);
            said.push(line);
            is_ready
        });
        if !is_ready {
            return Err(said.join("\n"));
        }
        // Its further output must be read, or the process would block.
        std::thread::spawn(move || lines.for_each(drop));
        Ok(())
    }

    pub(super) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Returns the settings of a connection to these servers.
    pub(super) fn options(servers: &[&Self]) -> NatsOptions {
        NatsOptions {
            servers: servers.iter().map(|server| server.address.clone()).collect(),
            credentials: None,
            name: "test".to_owned(),
            connect_within: Duration::from_secs(60),
        }
    }

    pub(super) fn connect(servers: &[&Self]) -> Arc<Nats> {
        Nats::connect(&Self::options(servers)).unwrap()
    }
}
