//! Clients of a cluster that record their answers, and later check the cluster against them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use postrider_actors::MasterKeys;
use postrider_actors::clock::Stopwatch;
use postrider_actors::domain::code::CodeLength;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::nodes::MASTER_KEY;
use crate::faults::{Client, Outcome, Process};
use crate::support::eventually;

/// The time after which a request counts as lost, because a node may stand still.
const PATIENCE: Duration = Duration::from_secs(6);
/// The pause between two codes of a client.
const PAUSE: Duration = Duration::from_millis(40);

/// A code that was acknowledged.
#[derive(Debug)]
struct Sent {
    request: String,
    code: String,
}

/// The answers that one client received.
#[derive(Debug, Default)]
pub struct LoadReport {
    workspace: String,
    key: String,
    open: Vec<Sent>,
    used: Vec<Sent>,
    /// The codes that were submitted without an answer.
    doubtful: Vec<Sent>,
    /// The number of requests whose outcome nobody reported.
    pub unanswered: usize,
    /// The number of refusals of requests that had no effect.
    pub refused: usize,
    pub slowest: Duration,
    /// The longest time without an answer.
    gap: Duration,
}

/// Clients at work.
pub struct Load {
    is_over: Arc<AtomicBool>,
    acknowledged: Arc<AtomicUsize>,
    clients: Vec<JoinHandle<LoadReport>>,
}

/// The outcome of a request.
enum Became {
    Answered(u16, Value),
    NotDone,
    Unknown,
}

/// Returns the code of a request, as the cluster's key makes it.
fn code(workspace: &str, request: &str, phone: &str) -> String {
    let byte = |at: usize| u8::from_str_radix(&MASTER_KEY[2 * at..2 * at + 2], 16).unwrap();
    let keys = MasterKeys::single(std::array::from_fn(byte));
    let keys = keys.code_keys(&workspace.parse().unwrap());
    let (request, phone) = (request.parse().unwrap(), phone.parse().unwrap());
    keys.code(1, request, phone, CodeLength::default()).unwrap().reveal()
}

async fn ask(client: &mut Client, path: &str, body: &Value) -> Became {
    match tokio::time::timeout(PATIENCE, client.post(path, body)).await {
        Ok(Outcome::Answered(answer)) if answer.status == 503 => {
            client.close();
            match answer.body["reason"].as_str() {
                Some("no_owner" | "draining" | "restarting") => Became::NotDone,
                _ => Became::Unknown,
            }
        }
        Ok(Outcome::Answered(answer)) => Became::Answered(answer.status, answer.body),
        Ok(Outcome::Refused) => Became::NotDone,
        Ok(Outcome::Lost) | Err(_) => {
            client.close();
            Became::Unknown
        }
    }
}

/// One client, which moves on to the next node when one does not answer.
struct Worker {
    nodes: Vec<SocketAddr>,
    at: usize,
    client: Client,
    /// The time since the last answer.
    answered: Stopwatch,
    report: LoadReport,
}

impl Worker {
    fn new(nodes: Vec<SocketAddr>, at: usize, (workspace, key): (String, String)) -> Self {
        let client = Client::new(nodes[at % nodes.len()], &key);
        let report = LoadReport { workspace, key, ..LoadReport::default() };
        Self { nodes, at, client, answered: Stopwatch::start(), report }
    }

    async fn ask(&mut self, path: &str, body: &Value) -> Became {
        let watch = Stopwatch::start();
        let became = ask(&mut self.client, path, body).await;
        self.report.slowest = self.report.slowest.max(watch.elapsed());
        match became {
            Became::Answered(..) => {
                self.report.gap = self.report.gap.max(self.answered.elapsed());
                self.answered = Stopwatch::start();
                return became;
            }
            Became::NotDone => self.report.refused += 1,
            Became::Unknown => self.report.unanswered += 1,
        }
        self.at += 1;
        self.client = Client::new(self.nodes[self.at % self.nodes.len()], &self.report.key);
        became
    }

    /// Sends a code, and submits every second one.
    async fn step(&mut self, number: usize, phone: &str) {
        let (status, body) = match self.ask("/v1/otp/send", &json!({ "phone": phone })).await {
            Became::Answered(status, body) => (status, body),
            Became::NotDone | Became::Unknown => return,
        };
        assert_eq!(status, 200, "{body}");
        let request = body["request_id"].as_str().unwrap().to_owned();
        let code = code(&self.report.workspace, &request, phone);
        let sent = Sent { request, code };
        if number.is_multiple_of(2) {
            return self.report.open.push(sent);
        }
        let body = json!({ "request_id": sent.request, "otp": sent.code });
        match self.ask("/v1/otp/verify", &body).await {
            Became::Answered(status, body) => {
                assert_eq!((status, &body["verified"]), (200, &json!(true)), "{sent:?}: {body}");
                self.report.used.push(sent);
            }
            Became::NotDone => self.report.open.push(sent),
            Became::Unknown => self.report.doubtful.push(sent),
        }
    }
}

impl Load {
    /// Starts a client for each of these workspaces, which have their own keys.
    pub fn begin(nodes: &[&Process], workspaces: &[(String, String)]) -> Self {
        let (is_over, acknowledged) = <(Arc<AtomicBool>, Arc<AtomicUsize>)>::default();
        let nodes: Vec<_> = nodes.iter().map(|it| it.address()).collect();
        let client = |(at, workspace): (usize, &(String, String))| {
            let (is_over, acknowledged) = (Arc::clone(&is_over), Arc::clone(&acknowledged));
            let nodes = nodes.clone();
            let mut worker = Worker::new(nodes, at, workspace.clone());
            tokio::spawn(async move {
                for number in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    let before = worker.report.acknowledged();
                    worker.step(number, &format!("+1555{at:02}{number:05}")).await;
                    let codes = worker.report.acknowledged() - before;
                    acknowledged.fetch_add(codes, Ordering::Relaxed);
                    tokio::time::sleep(PAUSE).await;
                }
                worker.report
            })
        };
        let clients = workspaces.iter().enumerate().map(client).collect();
        Self { is_over, acknowledged, clients }
    }

    /// Waits until so many more codes are acknowledged.
    pub async fn acknowledges(&self, codes: usize) {
        let wanted = self.acknowledged.load(Ordering::Relaxed) + codes;
        let enough = async || (self.acknowledged.load(Ordering::Relaxed) >= wanted).then_some(());
        eventually("more codes", enough).await;
    }

    /// Ends the clients, and returns their answers.
    pub async fn end(self) -> Vec<LoadReport> {
        self.is_over.store(true, Ordering::Relaxed);
        let mut reports = Vec::new();
        for client in self.clients {
            reports.push(client.await.unwrap());
        }
        reports
    }
}

impl LoadReport {
    pub fn acknowledged(&self) -> usize {
        self.open.len() + self.used.len() + self.doubtful.len()
    }

    /// Checks the answers against a node: every code is known, and is accepted once.
    pub async fn check(&self, node: &Process) {
        let mut client = Client::new(node.address(), &self.key);
        for sent in &self.open {
            let (status, body, is_doubtful) =
                super::nodes::verify_again(&mut client, &sent.request, &sent.code).await;
            let is_verified = status == 200 && body["verified"] == true;
            let workspace = &self.workspace;
            assert!(
                is_verified || is_doubtful && status == 422,
                "lost by {workspace}: {sent:?}: {body}"
            );
        }
        for sent in &self.doubtful {
            let (status, body, _) =
                super::nodes::verify_again(&mut client, &sent.request, &sent.code).await;
            assert!([200, 422].contains(&status), "lost: {sent:?}: {body}");
        }
        for sent in self.open.iter().chain(&self.used).chain(&self.doubtful) {
            let (status, body, _) =
                super::nodes::verify_again(&mut client, &sent.request, &sent.code).await;
            assert_eq!(status, 422, "accepted twice: {sent:?}: {body}");
        }
    }
}

/// Returns the sums of all clients: codes, requests without an outcome, refusals, and the longest
/// wait.
pub fn total(reports: &[LoadReport]) -> (usize, usize, usize, Duration) {
    let sum = |of: fn(&LoadReport) -> usize| reports.iter().map(of).sum();
    let slowest = reports.iter().map(|it| it.slowest).max().unwrap_or_default();
    (sum(LoadReport::acknowledged), sum(|it| it.unanswered), sum(|it| it.refused), slowest)
}

/// Returns the longest time in which a client had no answer.
pub fn longest_gap(reports: &[LoadReport]) -> Duration {
    reports.iter().map(|it| it.gap).max().unwrap_or_default()
}
