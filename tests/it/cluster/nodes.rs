//! Nodes of one cluster as processes, and the calls that tests make to them.

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use postrider_actors::clock::Stopwatch;
use serde_json::{Value, json};

use super::nats::{Nats, free_port};
use crate::faults::{Answer, Client, Outcome, Process};
use crate::machine::Machine;

pub const MASTER_KEY: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
pub const TOKEN: &str = "the-token-of-administrators";

/// Longer than any failover, and the pause between two checks for one.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(50);

/// The servers, directories and settings by which every node reaches the cluster.
pub struct Cluster {
    pub nats: Nats,
    dirs: tempfile::TempDir,
    /// The settings that all nodes have beside the usual ones.
    more: Vec<(String, String)>,
}

impl Cluster {
    pub fn new() -> Self {
        Self::over(Nats::start())
    }

    fn over(nats: Nats) -> Self {
        Self { nats, dirs: tempfile::tempdir().unwrap(), more: Vec::new() }
    }

    /// Returns a cluster over these servers that is not created yet, with other settings too.
    pub fn over_with(nats: Nats, more: &[(&str, &str)]) -> Self {
        let more = more.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        Self { more, ..Self::over(nats) }
    }

    /// Creates a cluster like [`made`](Self::made), with other settings too.
    pub fn with(more: &[(&str, &str)]) -> Self {
        let cluster = Self::over_with(Nats::start(), more);
        let (output, _) = cluster.init(&[]);
        assert!(output.status.success(), "{output:?}");
        cluster
    }

    /// Creates a cluster with four shards.
    pub fn made() -> Self {
        let cluster = Self::new();
        let (output, made) = cluster.init(&[]);
        assert!(output.status.success(), "{output:?}");
        assert_eq!(made["created"], true);
        cluster
    }

    /// Creates a cluster over three servers.
    pub fn of_three() -> Self {
        Self::made_over(Nats::three())
    }

    /// Creates a cluster over these servers.
    pub fn made_over(nats: Nats) -> Self {
        let cluster = Self::over(nats);
        // The servers elect a leader first.
        for _ in 0..20 {
            let (output, _) = cluster.init(&[]);
            if output.status.success() {
                return cluster;
            }
        }
        panic!("{:?}", cluster.init(&[]));
    }

    /// Starts these nodes, and repeats that while NATS is not ready for them.
    pub fn start_all<const N: usize>(&self, nodes: [&str; N]) -> Vec<Process> {
        let mut started = Vec::new();
        for node in nodes {
            let mut tried = Err(String::new());
            for _ in 0..20 {
                tried = self.try_start(node, &self.directory(node));
                if tried.is_ok() {
                    break;
                }
            }
            started.push(tried.unwrap_or_else(|log| panic!("{node} does not start: {log}")));
        }
        started
    }

    fn settings(&self, node: &str) -> Vec<(String, String)> {
        let listen = format!("127.0.0.1:{}", free_port());
        let settings = [
            ("CLUSTER__NAME", "test"),
            ("CLUSTER__NATS", &self.nats.address),
            ("CLUSTER__MONITOR", &self.nats.monitor),
            ("CLUSTER__ALLOW_UNREPLICATED", if self.nats.is_alone() { "true" } else { "false" }),
            ("CLUSTER__NODE", node),
            ("CLUSTER__LISTEN", &listen),
            ("CLUSTER__SHARDS", "4"),
            ("CLUSTER__STREAM_BYTES_MAX", "67108864"),
            ("CLUSTER__FILES_BYTES_MAX", "67108864"),
            ("SECRETS__MASTER_KEY", MASTER_KEY),
            ("ADMIN__TOKEN", TOKEN),
            ("DASHBOARD__ENABLED", "false"),
            ("LIMITS__OTP_PER_WORKSPACE_HOUR", "0"),
        ];
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
        settings.into_iter().chain(self.more.clone()).collect()
    }

    /// Returns a command of the program with the settings of the cluster, and others too.
    pub fn command(&self, args: &[&str], more: &[(&str, &str)]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_postrider"));
        command.args(args);
        for (name, value) in self.settings("pr-1") {
            command.env(format!("POSTRIDER__{name}"), value);
        }
        for (name, value) in more {
            command.env(format!("POSTRIDER__{name}"), value);
        }
        command
    }

    /// Runs a command, and parses its `--json` output.
    pub fn run(&self, args: &[&str], more: &[(&str, &str)]) -> (Output, Value) {
        let output = self.command(args, more).arg("--json").output().unwrap();
        let answer = serde_json::from_slice(&output.stdout).unwrap_or_default();
        (output, answer)
    }

    /// Runs `postrider cluster init --json`, with other settings too.
    pub fn init(&self, more: &[(&str, &str)]) -> (Output, Value) {
        self.run(&["cluster", "init"], more)
    }

    /// Runs `postrider cluster backup --json`.
    pub fn backup(&self, to: &Path) -> (Output, Value) {
        self.run(&["cluster", "backup", "--to", to.to_str().unwrap()], &[])
    }

    /// Starts a node on a machine whose faults are chosen.
    pub fn start_on(&self, machine: &Machine, node: &str) -> Process {
        let settings = self.settings(node);
        let settings: Vec<_> = settings.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        Process::try_start_on(machine, &self.directory(node), &settings)
            .unwrap_or_else(|failed| panic!("no start: {}", failed.log))
    }

    /// Returns the data directory of a node.
    pub fn directory(&self, node: &str) -> std::path::PathBuf {
        self.dirs.path().join(node)
    }

    /// Starts a node on its own directory.
    pub fn start(&self, node: &str) -> Process {
        self.try_start(node, &self.directory(node)).unwrap_or_else(|log| panic!("no start: {log}"))
    }

    /// Starts a node on any directory; returns the log if it does not start.
    pub fn try_start(&self, node: &str, data: &Path) -> Result<Process, String> {
        self.start_with(node, data, &[])
    }

    /// Starts a node on any directory with settings of its own; returns the log if it does not
    /// start.
    pub fn start_with(
        &self,
        node: &str,
        data: &Path,
        own: &[(&str, &str)],
    ) -> Result<Process, String> {
        let settings = self.settings(node);
        let settings = settings.iter().map(|(a, b)| (a.as_str(), b.as_str()));
        let settings: Vec<_> = settings.chain(own.iter().copied()).collect();
        Process::try_start(data, &settings).map_err(|failed| failed.log)
    }
}

/// Returns a client of a node's administration.
pub fn admin(node: &Process) -> Client {
    Client::new(node.address(), TOKEN)
}

/// Repeats a request until its answer is not 503, and returns it. The answer must not be lost.
pub async fn settled(client: &mut Client, method: &str, path: &str, body: &Value) -> Answer {
    let (answer, is_doubtful) = settled_or_doubtful(client, method, path, body).await;
    assert!(!is_doubtful, "{path}: an outcome was unknown before {answer:?}");
    answer
}

/// Repeats a request until its answer is not 503. Also returns whether the outcome of an earlier
/// try was unknown, because that try may have had its effect.
async fn settled_or_doubtful(
    client: &mut Client,
    method: &str,
    path: &str,
    body: &Value,
) -> (Answer, bool) {
    let (mut is_doubtful, mut last) = (false, None);
    let watch = Stopwatch::start();
    while watch.elapsed() < PATIENCE {
        let outcome = match method {
            "GET" => client.get(path).await,
            _ => client.post(path, body).await,
        };
        match outcome {
            Outcome::Answered(answer) if answer.status == 503 => {
                assert!(answer.retry_after.is_some(), "{answer:?}");
                let reason = answer.body["reason"].as_str().unwrap_or_default();
                is_doubtful |= reason == "outcome_unknown";
                let reasons = ["no_owner", "draining", "outcome_unknown"];
                assert!(reasons.contains(&reason), "{answer:?}");
                client.close();
                last = Some(answer);
                // Some refusals come at once.
                tokio::time::sleep(LOOK).await;
            }
            Outcome::Answered(answer) => return (answer, is_doubtful),
            other => panic!("{path}: {other:?}"),
        }
    }
    panic!("{path}: nobody took it: {last:?}");
}

/// Posts a request that must succeed.
pub async fn done(client: &mut Client, path: &str, body: Value) -> Value {
    let answer = settled(client, "POST", path, &body).await;
    assert!((200..300).contains(&answer.status), "{path}: {answer:?}");
    answer.body
}

/// Reads a resource that must exist.
pub async fn read(client: &mut Client, path: &str) -> Value {
    let answer = settled(client, "GET", path, &Value::Null).await;
    assert_eq!(answer.status, 200, "{path}: {answer:?}");
    answer.body
}

/// Creates a workspace with a number, credits and a key; returns a client with the key, and the
/// key.
pub async fn workspace(node: &Process, id: &str) -> (Client, String) {
    let mut admin = admin(node);
    done(&mut admin, "/admin/v1/workspaces", json!({"id": id, "name": id})).await;
    let path = format!("/admin/v1/workspaces/{id}");
    done(&mut admin, &format!("{path}/credits"), json!({"add": 100_000})).await;
    done(&mut admin, &format!("{path}/numbers"), json!({"kind": "sandbox"})).await;
    let key =
        json!({"name": "test", "scopes": ["messaging:send", "contacts:write", "contacts:read"]});
    let key = done(&mut admin, &format!("{path}/keys"), key).await;
    let key = key["key"].as_str().unwrap().to_owned();
    (Client::new(node.address(), &key), key)
}

/// Sends a code; returns its request and, from the sandbox, the code.
pub async fn send(client: &mut Client, phone: &str) -> (String, String) {
    // The longest life of a code, because tests of slow machines verify it minutes later.
    let sent = done(client, "/v1/otp/send", json!({"phone": phone, "expiry": 900})).await;
    let request = sent["request_id"].as_str().unwrap().to_owned();
    let path = format!("/v1/sandbox/messages?limit=1&to={}", phone.replace('+', "%2B"));
    for _ in 0..200 {
        let listed = read(client, &path).await;
        if let Some(code) = listed["data"][0]["code"].as_str() {
            return (request, code.to_owned());
        }
        tokio::task::yield_now().await;
    }
    panic!("the code never came");
}

/// Submits a code; returns the status and the body of the answer.
pub async fn verify(client: &mut Client, request: &str, code: &str) -> (u16, Value) {
    let body = json!({"request_id": request, "otp": code});
    let answer = settled(client, "POST", "/v1/otp/verify", &body).await;
    (answer.status, answer.body)
}

/// Submits a code; returns the answer, and whether an earlier try may have been accepted.
pub async fn verify_again(client: &mut Client, request: &str, code: &str) -> (u16, Value, bool) {
    let body = json!({"request_id": request, "otp": code});
    let (answer, is_doubtful) = settled_or_doubtful(client, "POST", "/v1/otp/verify", &body).await;
    (answer.status, answer.body, is_doubtful)
}
