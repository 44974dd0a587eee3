//! Real `nats-server` processes for the nodes of a test.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// Names another program than the one that `tests/run` installs.
const PROGRAM: &str = "POSTRIDER_TEST_NATS_SERVER";

/// Servers, which sync every message. They end with this value.
pub struct Nats {
    /// As nodes are told them.
    pub address: String,
    pub monitor: String,
    servers: Vec<Server>,
    dir: TempDir,
}

struct Server {
    name: String,
    monitor: u16,
    child: Child,
}

impl Drop for Server {
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

/// Starts the server of this name in a directory that has its configuration.
fn spawn(dir: &Path, name: &str) -> Child {
    let mut command = Command::new(program());
    command.arg("--config").arg(dir.join(format!("{name}.conf")));
    let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let ready = lines.by_ref().map_while(Result::ok).find(|line| line.contains("Server is ready"));
    assert!(ready.is_some(), "nats-server has ended");
    // What it says from here on must be read, or it would stop for it.
    std::thread::spawn(move || lines.for_each(drop));
    child
}

impl Nats {
    /// One server alone.
    pub fn start() -> Self {
        Self::of(&["alone"])
    }

    /// Three servers, which keep three replicas of everything.
    pub fn three() -> Self {
        Self::of(&["n1", "n2", "n3"])
    }

    fn of(names: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let ports: Vec<_> = names.iter().map(|_| [free_port(), free_port(), free_port()]).collect();
        let routes: Vec<_> =
            ports.iter().map(|[.., route]| format!("\"nats://127.0.0.1:{route}\"")).collect();
        let start = |(name, [port, monitor, route]): (&&str, &[u16; 3])| {
            let store = dir.path().join(format!("{name}.store"));
            let mut text = format!(
                "server_name: {name}\nlisten: \"127.0.0.1:{port}\"\n\
                 http: \"127.0.0.1:{monitor}\"\njetstream {{ store_dir: \"{}\", \
                 sync_interval: always, max_file_store: 1GB }}\n",
                store.display()
            );
            if names.len() > 1 {
                let routes = routes.join(", ");
                text += &format!(
                    "cluster {{ name: test, listen: \"127.0.0.1:{route}\", routes: [{routes}] }}\n"
                );
            }
            std::fs::write(dir.path().join(format!("{name}.conf")), text).unwrap();
            let child = spawn(dir.path(), name);
            Server { name: (*name).to_owned(), monitor: *monitor, child }
        };
        let servers = names.iter().zip(&ports).map(start).collect();
        let all = |scheme: &str, at: usize| {
            let one = |ports: &[u16; 3]| format!("{scheme}://127.0.0.1:{}", ports[at]);
            ports.iter().map(one).collect::<Vec<_>>().join(",")
        };
        Self { address: all("nats", 0), monitor: all("http", 1), servers, dir }
    }

    pub fn is_alone(&self) -> bool {
        self.servers.len() == 1
    }

    /// Kills the servers with these names.
    pub fn kill(&mut self, names: &[String]) {
        for server in self.servers.iter_mut().filter(|it| names.contains(&it.name)) {
            server.child.kill().unwrap();
            server.child.wait().unwrap();
        }
    }

    /// Starts those again.
    pub fn start_again(&mut self, names: &[String]) {
        for server in self.servers.iter_mut().filter(|it| names.contains(&it.name)) {
            server.child = spawn(self.dir.path(), &server.name);
        }
    }

    pub fn names(&self) -> Vec<String> {
        self.servers.iter().map(|it| it.name.clone()).collect()
    }

    /// The server that leads the stream of a shard, if there is one.
    pub fn leader_of(&self, shard: u16) -> Option<String> {
        let stream = format!("_{shard}");
        let found = self.servers.iter().find_map(|server| {
            let page = server.page("/jsz?accounts=true&streams=true")?;
            let accounts = page["account_details"].as_array()?;
            let mut streams = accounts.iter().filter_map(|it| it["stream_detail"].as_array());
            let is_it = |it: &&Value| {
                let name = it["name"].as_str().unwrap_or_default();
                name.starts_with("PR_") && name.ends_with(&stream)
            };
            let stream = streams.find_map(|streams| streams.iter().find(is_it))?;
            Some(stream["cluster"]["leader"].as_str()?.to_owned())
        });
        found.filter(|name| self.servers.iter().any(|it| it.name == *name))
    }
}

impl Server {
    /// A page of its monitoring address; `None` when it does not answer.
    fn page(&self, path: &str) -> Option<Value> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.monitor)).ok()?;
        let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()
    }
}
