//! Real `nats-server` processes for the nodes of a test.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use super::ways::Ways;
pub(crate) use crate::support::ports::free_port;

/// The variable for another program than the one that `tests/run` installs.
const PROGRAM: &str = "POSTRIDER_TEST_NATS_SERVER";

/// Servers, which sync every message. They end with this value.
pub struct Nats {
    /// The address, as nodes receive it.
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

/// The message of a server whose port is in use, and the number of ports that are tried.
const TAKEN: &str = "address already in use";
const PORTS_MAX: usize = 10;

/// Starts the server of this name in a directory that has its configuration. Fails with its output
/// if it has ended.
fn spawn(dir: &Path, name: &str) -> Result<Child, String> {
    let mut command = Command::new(program());
    command.arg("--config").arg(dir.join(format!("{name}.conf")));
    let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut said = Vec::new();
    let is_ready = lines.by_ref().map_while(Result::ok).any(|line| {
        said.push(line);
        said.last().is_some_and(|line| line.contains("Server is ready"))
    });
    if !is_ready {
        child.wait().ok();
        return Err(said.join("\n"));
    }
    // Later output has to be read, or the server would block on it.
    std::thread::spawn(move || lines.for_each(drop));
    Ok(child)
}

fn ports(servers: usize) -> Vec<[u16; 3]> {
    (0..servers).map(|_| [free_port(), free_port(), free_port()]).collect()
}

/// Returns the routes of servers that reach each other.
fn direct(_: usize, ports: &[[u16; 3]]) -> String {
    let routes = ports.iter().map(|[.., route]| format!("\"nats://127.0.0.1:{route}\""));
    format!("routes: [{}]", routes.collect::<Vec<_>>().join(", "))
}

/// Returns the same without reports of other servers to nodes, which could then go past a way.
fn unknown(at: usize, ports: &[[u16; 3]]) -> String {
    format!("{}, no_advertise: true", direct(at, ports))
}

/// The special options of the servers.
#[derive(Debug, Clone, Copy)]
enum Special<'a> {
    Nothing,
    /// The first one has a disk of its own.
    Disk(&'a Path),
    /// They speak TLS, with the files of this directory.
    Tls(&'a Path),
}

impl Special<'_> {
    /// Returns the setting of their monitoring addresses, which is also the scheme.
    const fn monitor(self) -> &'static str {
        if let Self::Tls(_) = self { "https" } else { "http" }
    }
}

fn store_of(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}.store"))
}

impl Nats {
    /// Starts one server.
    pub fn start() -> Self {
        Self::of(&["alone"])
    }

    /// Starts three servers, which keep three replicas of everything.
    pub fn three() -> Self {
        Self::of(&["n1", "n2", "n3"])
    }

    /// Starts three servers, the first of which has a disk of its own.
    pub fn three_on(disk: &Path) -> Self {
        let disk = Special::Disk(disk);
        Self::try_again(|| Self::try_of(&["n1", "n2", "n3"], &ports(3), &direct, disk))
    }

    /// Starts one server that speaks only TLS, and serves only clients with a certificate. The
    /// directory has `nats.pem`, `nats.key` and `ca.pem`.
    pub fn encrypted(dir: &Path) -> Self {
        let tls = Special::Tls(dir);
        Self::try_again(|| Self::try_of(&["alone"], &ports(1), &direct, tls))
    }

    /// Starts three servers that nodes reach only at their configured addresses.
    pub fn three_unknown() -> Self {
        Self::try_again(|| Self::try_of(&["n1", "n2", "n3"], &ports(3), &unknown, Special::Nothing))
    }

    /// Starts three servers, and the ways between them.
    pub async fn apart() -> (Self, Ways) {
        let names = ["n1", "n2", "n3"];
        for _ in 0..PORTS_MAX {
            let ports = ports(names.len());
            let routes: Vec<_> = ports.iter().map(|[.., route]| *route).collect();
            let ways = Ways::between(&names, &routes).await;
            // The addresses that servers report of each other would lead past the ways.
            let through = |at: usize, _: &[[u16; 3]]| {
                let urls = ways.of(at).into_iter().map(|it| format!("\"nats://{it}\""));
                let urls = urls.collect::<Vec<_>>().join(", ");
                format!("routes: [{urls}], advertise: \"127.0.0.1:1\"")
            };
            match Self::try_of(&names, &ports, &through, Special::Nothing) {
                Ok(servers) => return (servers, ways),
                Err(said) if said.contains(TAKEN) => {}
                Err(said) => panic!("nats-server has ended: {said}"),
            }
        }
        panic!("there is no free port");
    }

    fn of(names: &[&str]) -> Self {
        Self::try_again(|| Self::try_of(names, &ports(names.len()), &direct, Special::Nothing))
    }

    fn try_again(start: impl Fn() -> Result<Self, String>) -> Self {
        for _ in 0..PORTS_MAX {
            match start() {
                Ok(servers) => return servers,
                // Another process took a port that was free a moment ago.
                Err(said) if said.contains(TAKEN) => {}
                Err(said) => panic!("nats-server has ended: {said}"),
            }
        }
        panic!("there is no free port");
    }

    /// Starts the servers; fails with the output of the first one that has ended.
    fn try_of(
        names: &[&str],
        ports: &[[u16; 3]],
        routes: &dyn Fn(usize, &[[u16; 3]]) -> String,
        special: Special<'_>,
    ) -> Result<Self, String> {
        let dir = tempfile::tempdir().unwrap();
        if let Special::Disk(disk) = special {
            std::os::unix::fs::symlink(disk, store_of(dir.path(), names[0])).unwrap();
        }
        let start = |(at, (name, [port, monitor, route])): (usize, (&&str, &[u16; 3]))| {
            let store = store_of(dir.path(), name);
            let mut text = format!(
                "server_name: {name}\nlisten: \"127.0.0.1:{port}\"\n\
                 {}: \"127.0.0.1:{monitor}\"\njetstream {{ store_dir: \"{}\", \
                 sync_interval: always, max_file_store: 1GB }}\n",
                special.monitor(),
                store.display()
            );
            if let Special::Tls(dir) = special {
                let file = |name: &str| format!("\"{}\"", dir.join(name).display());
                let [own, key, ca] = ["nats.pem", "nats.key", "ca.pem"].map(file);
                text += &format!(
                    "tls {{ cert_file: {own}, key_file: {key}, ca_file: {ca}, verify: true }}\n"
                );
            }
            if names.len() > 1 {
                let routes = routes(at, ports);
                text +=
                    &format!("cluster {{ name: test, listen: \"127.0.0.1:{route}\", {routes} }}\n");
            }
            std::fs::write(dir.path().join(format!("{name}.conf")), text).unwrap();
            let child = spawn(dir.path(), name)?;
            Ok(Server { name: (*name).to_owned(), monitor: *monitor, child })
        };
        let servers =
            names.iter().zip(ports).enumerate().map(start).collect::<Result<Vec<_>, String>>()?;
        let all = |scheme: &str, at: usize| {
            let one = |ports: &[u16; 3]| format!("{scheme}://127.0.0.1:{}", ports[at]);
            ports.iter().map(one).collect::<Vec<_>>().join(",")
        };
        let scheme = if let Special::Tls(_) = special { "tls" } else { "nats" };
        let (address, monitor) = (all(scheme, 0), all(special.monitor(), 1));
        Ok(Self { address, monitor, servers, dir })
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

    /// Sends a signal to the servers with these names.
    pub fn signal(&self, names: &[String], signal: &str) {
        for server in self.servers.iter().filter(|it| names.contains(&it.name)) {
            crate::faults::signal(server.child.id(), signal);
        }
    }

    /// Starts the servers with these names again.
    pub fn start_again(&mut self, names: &[String]) {
        for server in self.servers.iter_mut().filter(|it| names.contains(&it.name)) {
            let started = spawn(self.dir.path(), &server.name);
            server.child = started.unwrap_or_else(|said| panic!("nats-server has ended: {said}"));
        }
    }

    /// Stops a server as an operator does, starts it again, and waits until it has the data of the
    /// others.
    pub fn restart(&mut self, name: &str) {
        let at = self.servers.iter().position(|it| it.name == name).expect(name);
        crate::faults::signal(self.servers[at].child.id(), "TERM");
        self.servers[at].child.wait().unwrap();
        self.start_again(&[name.to_owned()]);
        self.is_healthy(name);
    }

    /// Waits until a server has the data of the others.
    pub fn is_healthy(&self, name: &str) {
        let server = self.servers.iter().find(|it| it.name == name).expect(name);
        crate::faults::wait_for("a healthy server", || {
            server.page("/healthz").filter(|it| it["status"] == "ok")
        });
    }

    /// Removes all data of a server.
    pub fn lose_all(&self, name: &str) {
        std::fs::remove_dir_all(store_of(self.dir.path(), name)).unwrap();
    }

    /// Returns the files in which a server keeps the log of a shard.
    pub fn blocks_of(&self, name: &str, shard: u16) -> Vec<PathBuf> {
        let streams = store_of(self.dir.path(), name).join("jetstream/$G/streams");
        let blocks = streams.join(format!("PR_test_{shard}/msgs")).read_dir().unwrap();
        let blocks = blocks.map(|it| it.unwrap().path());
        blocks.filter(|it| it.extension().is_some_and(|it| it == "blk")).collect()
    }

    pub fn names(&self) -> Vec<String> {
        self.servers.iter().map(|it| it.name.clone()).collect()
    }

    /// Returns the server that leads the stream of a shard, if there is one.
    pub fn leader_of(&self, shard: u16) -> Option<String> {
        self.servers.iter().find_map(|server| self.leader_for(server, shard))
    }

    /// Returns the leader that all servers but one name.
    pub fn leader_without(&self, name: &str, shard: u16) -> Option<String> {
        let others = self.servers.iter().filter(|it| it.name != name);
        let mut named = others.map(|server| self.leader_for(server, shard));
        let first = named.next()??;
        named.all(|it| it.as_ref() == Some(&first)).then_some(first)
    }

    /// Returns the leader that the server of this name names.
    pub fn leader_as_seen_by(&self, name: &str, shard: u16) -> Option<String> {
        let server = self.servers.iter().find(|it| it.name == name).expect(name);
        self.leader_for(server, shard)
    }

    /// Returns the leader that a server names.
    fn leader_for(&self, server: &Server, shard: u16) -> Option<String> {
        let stream = format!("_{shard}");
        let page = server.page("/jsz?accounts=true&streams=true")?;
        let accounts = page["account_details"].as_array()?;
        let mut streams = accounts.iter().filter_map(|it| it["stream_detail"].as_array());
        let is_it = |it: &&Value| {
            let name = it["name"].as_str().unwrap_or_default();
            name.starts_with("PR_") && name.ends_with(&stream)
        };
        let stream = streams.find_map(|streams| streams.iter().find(is_it))?;
        let leader = stream["cluster"]["leader"].as_str()?.to_owned();
        self.servers.iter().any(|it| it.name == leader).then_some(leader)
    }
}

impl Nats {
    /// Returns the number of messages of a stream, as the first server reports it.
    pub fn messages_of(&self, stream: &str) -> Option<u64> {
        let page = self.servers.first()?.page("/jsz?accounts=true&streams=true")?;
        let accounts = page["account_details"].as_array()?;
        let mut streams = accounts.iter().filter_map(|it| it["stream_detail"].as_array()).flatten();
        streams.find(|it| it["name"] == stream)?["state"]["messages"].as_u64()
    }
}

impl Server {
    /// Returns a page of its monitoring address; `None` if it does not answer.
    fn page(&self, path: &str) -> Option<Value> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.monitor)).ok()?;
        let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()
    }
}
