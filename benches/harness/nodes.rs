//! Nodes of a cluster in processes of their own, and workspaces in it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::measure::Stopwatch;
use crate::nats::Servers;
use crate::ports::free_port;
use crate::{Result, setup};

const TOKEN: &str = "the-token-of-administrators";
const NAMES: [&str; 3] = ["pr-1", "pr-2", "pr-3"];
/// The number of the cluster's shards.
const SHARDS: u32 = 4;
/// The number of workspaces that are made.
const WORKSPACES: usize = 8;
/// The maximum wait for a start, or for an expected state.
const PATIENCE: Duration = Duration::from_secs(120);
const SCOPES: [&str; 2] = ["messaging:send", "contacts:write"];
const LOOK: Duration = Duration::from_millis(50);
/// The settings. Limits that would only interfere are off.
const SETTINGS: [(&str, &str); 9] = [
    ("LIMITS__CONTACTS_PER_MINUTE", "0"),
    ("LIMITS__KEY_REQUESTS_PER_HOUR", "0"),
    ("LIMITS__OTP_PER_WORKSPACE_HOUR", "0"),
    ("LIMITS__UNAUTHENTICATED_PER_MINUTE", "0"),
    ("STORAGE__FREE_BYTES_MIN", "0"),
    ("DASHBOARD__ENABLED", "false"),
    ("ADMIN__TOKEN", TOKEN),
    ("ADMIN__LISTEN", ""),
    ("SECRETS__MASTER_KEY", "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"),
];

/// A server in a process, which is killed when this is dropped.
pub(crate) struct Process {
    name: String,
    pub(crate) address: SocketAddr,
    child: Child,
}

impl Drop for Process {
    fn drop(&mut self) {
        // A process that has ended needs no more.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Up to three nodes over three servers of NATS.
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Process>,
    settings: Vec<(&'static str, String)>,
    _servers: Servers,
    data: TempDir,
}

fn program(arguments: &[&str], settings: &[(&str, String)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_postrider"));
    command.args(arguments);
    let fixed = SETTINGS.map(|(name, value)| (name, value.to_owned()));
    for (name, value) in fixed.iter().chain(settings) {
        command.env(format!("POSTRIDER__{name}"), value);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

impl Process {
    /// Starts a server on this data directory, and waits until it listens.
    pub(crate) fn start(name: &str, data: &TempDir, settings: &[(&str, String)]) -> Result<Self> {
        let arguments = ["serve", "--listen", "127.0.0.1:0", "--data-dir"];
        let mut command = program(&arguments, settings);
        let mut child = command.arg(data.path().join(name)).spawn()?;
        let mut lines = BufReader::new(child.stdout.take().ok_or("it has an output")?).lines();
        let shown = lines.by_ref().map_while(std::result::Result::ok).find_map(|line| {
            let (_, url) = line.split_once(" listens on ")?;
            let (_, address) = url.split_once("://")?;
            address.trim().split('/').next()?.parse().ok()
        });
        drop(std::thread::spawn(move || lines.for_each(drop)));
        let address = shown.ok_or_else(|| format!("{name} does not start"))?;
        Ok(Self { name: name.to_owned(), address, child })
    }

    /// Sends a request as an administrator; returns the status and the body.
    fn ask(&self, method: &str, path: &str, body: &Value) -> Result<(u16, Value)> {
        call(self.address, TOKEN, method, path, body)
    }

    /// Makes workspaces with a sandbox number and credits; returns the key of each.
    pub(crate) fn workspaces(&self) -> Result<Vec<String>> {
        let mut keys = Vec::new();
        for number in 0..WORKSPACES {
            let id = format!("bench{number}");
            let path = format!("/admin/v1/workspaces/{id}");
            self.make("/admin/v1/workspaces", &json!({ "id": id, "name": id }))?;
            self.make(&format!("{path}/credits"), &json!({ "add": 1_000_000_000 }))?;
            self.make(&format!("{path}/numbers"), &json!({ "kind": "sandbox" }))?;
            let key = json!({ "name": "bench", "scopes": SCOPES });
            let key = self.make(&format!("{path}/keys"), &key)?;
            keys.push(key["key"].as_str().ok_or("a key is shown")?.to_owned());
        }
        Ok(keys)
    }

    fn make(&self, path: &str, body: &Value) -> Result<Value> {
        match self.ask("POST", path, body)? {
            (200..300, made) => Ok(made),
            (status, answer) => Err(format!("{path}: {status} {answer}").into()),
        }
    }
}

/// Sends one request over its own connection.
pub(crate) fn call(
    address: SocketAddr,
    token: &str,
    method: &str,
    path: &str,
    body: &Value,
) -> Result<(u16, Value)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let body = body.to_string();
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         authorization: Bearer {token}\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n{body}"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("an answer has a head")?;
    let status = head.get(9..12).ok_or("an answer has a status")?.parse()?;
    Ok((status, serde_json::from_str(body).unwrap_or_default()))
}

/// Makes the streams of a cluster. Retries, because the servers elect a leader first.
fn init(settings: &[(&str, String)]) -> Result<()> {
    let watch = Stopwatch::start();
    loop {
        let made = program(&["cluster", "init"], settings).stderr(Stdio::piped()).output()?;
        if made.status.success() {
            return Ok(());
        }
        if watch.elapsed() > PATIENCE {
            let why = String::from_utf8_lossy(&made.stderr);
            return Err(format!("the cluster is not made: {}", why.trim()).into());
        }
        std::thread::sleep(LOOK);
    }
}

impl Cluster {
    /// Makes a cluster without nodes. `None` without NATS.
    pub(crate) fn make() -> Result<Option<Self>> {
        let Some(servers) = Servers::start()? else { return Ok(None) };
        let data = setup::data_directory()?;
        let listed = |scheme: &str, them: &[String]| {
            let urls: Vec<_> = them.iter().map(|it| format!("{scheme}://{it}")).collect();
            urls.join(",")
        };
        let settings = vec![
            ("CLUSTER__NAME", "bench".to_owned()),
            ("CLUSTER__NATS", listed("nats", &servers.addresses)),
            ("CLUSTER__MONITOR", listed("http", &servers.monitors)),
            ("CLUSTER__NODE", NAMES[0].to_owned()),
            ("CLUSTER__SHARDS", SHARDS.to_string()),
            ("CLUSTER__STREAM_BYTES_MAX", (256 << 20).to_string()),
            ("CLUSTER__FILES_BYTES_MAX", (64 << 20).to_string()),
        ];
        init(&settings)?;
        Ok(Some(Self { nodes: Vec::new(), settings, _servers: servers, data }))
    }

    /// Starts one more node on its own directory.
    pub(crate) fn start_node(&mut self) -> Result<&Process> {
        let name = *NAMES.get(self.nodes.len()).ok_or("no more nodes have a name")?;
        let own = [
            ("CLUSTER__NODE", name.to_owned()),
            ("CLUSTER__LISTEN", format!("127.0.0.1:{}", free_port())),
        ];
        let settings: Vec<_> = self.settings.iter().chain(&own).cloned().collect();
        self.nodes.push(Process::start(name, &self.data, &settings)?);
        self.last()
    }

    /// Starts one more node, and waits until each of them owns a shard.
    pub(crate) fn add(&mut self) -> Result<()> {
        self.start_node()?;
        self.wait_until_spread()
    }

    /// Returns the directory of the records of the node that was started last.
    pub(crate) fn records_of_last(&self) -> Result<PathBuf> {
        Ok(self.data.path().join(&self.last()?.name).join("replicas"))
    }

    /// Kills the node that was started last, and removes its records if they are not to be kept.
    ///
    /// Its identity stays, so that the next start takes over its shards immediately.
    pub(crate) fn kill_last(&mut self, keeps_records: bool) -> Result<()> {
        let records = self.records_of_last()?;
        drop(self.nodes.pop());
        if !keeps_records {
            std::fs::remove_dir_all(records)?;
        }
        Ok(())
    }

    /// Imports the data of a stopped single server.
    pub(crate) fn import(&self, from: &Path) -> Result<()> {
        let from = from.to_str().ok_or("a path is text")?;
        let mut import = program(&["import", "--cluster", "--from", from], &self.settings);
        let done = import.stderr(Stdio::piped()).output()?;
        match done.status.success() {
            true => Ok(()),
            false => Err(format!("no import: {}", String::from_utf8_lossy(&done.stderr)).into()),
        }
    }

    fn last(&self) -> Result<&Process> {
        Ok(self.nodes.last().ok_or("there are nodes")?)
    }

    /// Returns the state of the cluster as the last node reports it.
    fn state(&self) -> Result<Value> {
        Ok(self.last()?.ask("GET", "/admin/v1/cluster", &Value::Null)?.1)
    }

    /// Waits until the cluster reports an expected state.
    fn wait_until(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Result<()> {
        let watch = Stopwatch::start();
        loop {
            let state = self.state()?;
            if is_so(&state) {
                return Ok(());
            }
            if watch.elapsed() > PATIENCE {
                return Err(format!("{what} never came: {state}").into());
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Waits until each node owns a shard.
    pub(crate) fn wait_until_spread(&self) -> Result<()> {
        self.wait_until("shards for each", |state| {
            let nodes = state["nodes"].as_array().map_or(&[][..], Vec::as_slice);
            let owns = |node: &Value| node["owned"].as_u64().is_some_and(|owned| owned > 0);
            state["ready"] == true && nodes.len() == self.nodes.len() && nodes.iter().all(owns)
        })
    }

    /// Drains the first node; returns the time until the other nodes own its shards.
    pub(crate) fn drain_first(&self) -> Result<Duration> {
        let watch = Stopwatch::start();
        self.last()?.make(&format!("/admin/v1/cluster/nodes/{}/drain", NAMES[0]), &json!({}))?;
        self.wait_until("a drained node", |state| {
            let shards = state["shards"].as_array().map_or(&[][..], Vec::as_slice);
            state["ready"] == true && shards.iter().all(|shard| shard["owner"] != NAMES[0])
        })?;
        Ok(watch.elapsed())
    }

    /// Ends the drain of the first node, and waits until it has its share again.
    pub(crate) fn undrain_first(&self) -> Result<()> {
        self.last()?.make(&format!("/admin/v1/cluster/nodes/{}/undrain", NAMES[0]), &json!({}))?;
        self.wait_until_spread()
    }

    /// Returns the node that owns a workspace, and another one.
    ///
    /// The end of the workspace's key names the shard.
    pub(crate) fn owner_and_other(&self, key: &str) -> Result<(usize, usize)> {
        let encoded = key.strip_prefix("pr_").ok_or("a key begins with pr_")?;
        let bytes = data_encoding::BASE64URL_NOPAD.decode(encoded.as_bytes())?;
        let home = bytes.iter().rev().nth(1).ok_or("a key has a home")?;
        let shard = usize::from(*home) * SHARDS as usize / 256;
        let state = self.state()?;
        let owner = state["shards"][shard]["owner"].as_str().ok_or("a shard has an owner")?;
        let at = self.nodes.iter().position(|it| it.name == owner).ok_or("an owner is a node")?;
        Ok((at, (at + 1) % self.nodes.len()))
    }
}
