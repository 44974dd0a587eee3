//! The tools of a test: a server of its own and clients of it.

mod api;
mod browser;
pub mod clustered;
mod document;
pub mod ports;
mod proxy;
mod sink;
mod watch;
mod wire;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use postrider::settings::{Flags, Settings};
use postrider::{BootError, ClusterNode, RunningServer, Server};
use postrider_actors::StartError;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Runtime;

pub use api::{Api, Reply};
pub use browser::Browser;
pub use proxy::Proxy;
pub use sink::{Answer, Received, Sink};
pub use wire::Connection;

/// A server with a data directory of its own, on a port that was free.
///
/// It runs on threads of its own, so that a test may block. Panics and log lines of these threads
/// are known to be its own. Its end is checked: the stop is clean, no thread has panicked, and its
/// log contains none of its secrets.
pub struct TestServer {
    running: Option<Running>,
    address: Arc<Mutex<SocketAddr>>,
    settings: Vec<(String, String)>,
    listen: SocketAddr,
    name: String,
    dir: TempDir,
    /// One client for each key that was created.
    clients: Mutex<Vec<Api>>,
    /// The link that a node's banner lacks.
    link: Mutex<String>,
}

struct Running {
    runtime: Runtime,
    server: AnyServer,
}

/// A server of either kind.
enum AnyServer {
    Single(RunningServer),
    Node(ClusterNode),
}

impl AnyServer {
    /// Starts a server; returns `None` while the previous one still holds the data.
    async fn start(settings: Settings) -> Option<Self> {
        if clustered::nats().is_some() {
            return match clustered::start(settings).await {
                Err(error) if clustered::is_held(&error) => None,
                started => Some(Self::Node(started.unwrap())),
            };
        }
        match Server::start(settings).await {
            Err(BootError::InUse(_) | BootError::Engine(StartError::Locked)) => None,
            started => Some(Self::Single(started.unwrap())),
        }
    }

    fn address(&self) -> SocketAddr {
        match self {
            Self::Single(server) => server.address(),
            Self::Node(node) => node.address(),
        }
    }

    async fn shutdown(self) {
        match self {
            Self::Single(server) => server.shutdown().await.unwrap(),
            Self::Node(node) => node.shutdown().await.unwrap(),
        }
    }
}

/// All scopes of a key.
const SCOPES: [&str; 5] =
    ["messaging:send", "contacts:write", "contacts:read", "webhooks:manage", "analytics:read"];

impl TestServer {
    /// Starts a server with the settings of the developer sandbox.
    pub async fn start() -> Self {
        Self::with(&[]).await
    }

    /// Starts a server with other settings, such as `("LIMITS__OTP_PER_PHONE_10M", "0")`.
    pub async fn with(settings: &[(&str, &str)]) -> Self {
        Self::start_at("127.0.0.1", settings).await
    }

    /// Starts a server with other settings at one of this machine's addresses.
    pub async fn start_at(ip: &str, settings: &[(&str, &str)]) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        watch::start();
        let name = format!("test-server-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let set = |(key, value): &(&str, &str)| (format!("POSTRIDER__{key}"), (*value).to_owned());
        let mut server = Self {
            running: None,
            address: Arc::new(Mutex::new(SocketAddr::from(([127, 0, 0, 1], 0)))),
            // No provider outside this machine is ever asked.
            // The log's files are small, for each is filled before it is used.
            settings: [
                ("CLOUD_API__BASE_URL", "http://127.0.0.1:9"),
                ("STORAGE__SEGMENT_BYTES", "1048576"),
            ]
            .iter()
            .chain(settings)
            .map(set)
            .chain(clustered::settings())
            .collect(),
            listen: SocketAddr::new(ip.parse().unwrap(), 0),
            name,
            dir: tempfile::tempdir().unwrap(),
            clients: Mutex::default(),
            link: Mutex::default(),
        };
        server.run().await;
        server
    }

    /// Gives it another setting from its next start on.
    pub fn set(&mut self, key: &str, value: &str) {
        let key = format!("POSTRIDER__{key}");
        self.settings.retain(|(set, _)| *set != key);
        self.settings.push((key, value.to_owned()));
    }

    /// Stops it, and returns the reason that it does not start again.
    pub async fn refused_restart(&mut self) -> String {
        self.stop();
        match Server::start(self.read_settings()).await {
            Ok(_) => panic!("it starts"),
            Err(error) => error.to_string(),
        }
    }

    fn read_settings(&self) -> Settings {
        let flags = Flags { listen: Some(self.listen), data_dir: Some(self.data_dir()) };
        Settings::from_layers(None, self.settings.clone(), &flags).unwrap()
    }

    async fn run(&mut self) {
        let settings = self.read_settings();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name(&self.name)
            .enable_all()
            .build()
            .unwrap();
        let start = async || runtime.spawn(AnyServer::start(settings.clone())).await.unwrap();
        let server = eventually("the end of the server before", start).await;
        *self.address.lock().unwrap() = server.address();
        self.running = Some(Running { runtime, server });
        if clustered::nats().is_some() {
            self.complete().await;
        }
    }

    /// Stops it cleanly and starts it again on the same data. Earlier clients continue to work.
    pub async fn restart(&mut self) {
        self.stop();
        self.run().await;
    }

    /// Stops it cleanly.
    pub fn stop(&mut self) {
        if let Some(Running { runtime, server }) = self.running.take() {
            // On a thread that may block, for any kind of test.
            let stopping = std::thread::spawn(move || runtime.block_on(server.shutdown()));
            stopping.join().unwrap();
        }
    }

    /// Drops it at once, without a shutdown, and starts it again on the same data.
    pub async fn crash(&mut self) {
        if clustered::nats().is_some() {
            // A node has threads that end with its process alone; those tests kill processes.
            return self.restart().await;
        }
        if let Some(Running { runtime, server }) = self.running.take() {
            // Its tasks end by themselves; the data is free when all of them have ended.
            runtime.spawn(async move { drop(server) }).await.unwrap();
            self.run().await;
            runtime.shutdown_background();
        }
    }

    /// Returns the text that it shows the person at the terminal.
    pub fn banner(&self) -> String {
        match &self.running.as_ref().unwrap().server {
            AnyServer::Single(server) => server.banner().to_string(),
            AnyServer::Node(node) => node.banner().to_string() + &self.link.lock().unwrap(),
        }
    }

    /// Returns the directory of its data.
    pub fn data_dir(&self) -> std::path::PathBuf {
        self.dir.path().join("data")
    }

    /// Returns the address that it listens on.
    pub fn address(&self) -> SocketAddr {
        *self.address.lock().unwrap()
    }

    /// Returns the address that it listens on for operators.
    pub fn admin_address(&self) -> SocketAddr {
        match &self.running.as_ref().unwrap().server {
            AnyServer::Single(server) => server.admin_address(),
            AnyServer::Node(node) => node.address(),
        }
    }

    /// Has it read its certificate again.
    pub fn reload_certificates(&self) {
        match &self.running.as_ref().unwrap().server {
            AnyServer::Single(server) => server.reload_certificates(),
            AnyServer::Node(node) => node.reload_certificates().unwrap(),
        }
    }

    /// Opens a raw connection to it.
    pub async fn connect(&self) -> Connection {
        Connection::open(self.address()).await
    }

    /// Returns a proxy to it that can be cut, and that still leads to it after a restart.
    pub async fn proxy(&self) -> Proxy {
        Proxy::to(Arc::clone(&self.address)).await
    }

    /// Returns a client with this bearer token.
    pub fn api(&self, token: &str) -> Api {
        Api::new(&self.address, Some(token))
    }

    /// Returns a client without a token.
    pub fn stranger(&self) -> Api {
        Api::new(&self.address, None)
    }

    /// Returns a browser on this machine.
    pub fn browser(&self) -> Browser {
        Browser::new(&self.address)
    }

    /// Returns a client of the demo workspace, with all scopes.
    pub fn demo(&self) -> Api {
        self.api(&self.secret("demo.key").unwrap())
    }

    /// Returns a client of the administration.
    pub fn admin(&self) -> Api {
        let set = self.settings.iter().find(|(key, _)| key == "POSTRIDER__ADMIN__TOKEN");
        let token = set.map(|(_, token)| token.clone()).or_else(|| self.secret("admin.token"));
        self.api(&token.unwrap())
    }

    fn secret(&self, file: &str) -> Option<String> {
        let text = std::fs::read_to_string(Path::new(&self.data_dir()).join(file)).ok()?;
        Some(text.trim().to_owned())
    }

    /// Creates a workspace with credits and, in a sandbox, a number. Returns a client of it with
    /// all scopes.
    pub async fn workspace(&self, id: &str) -> Api {
        let admin = self.admin();
        let path = format!("/admin/v1/workspaces/{id}");
        admin.post("/admin/v1/workspaces", json!({"id": id, "name": id})).await.ok();
        let off =
            |(key, value): &(String, String)| key.ends_with("SANDBOX__ENABLED") && value == "false";
        if !self.settings.iter().any(off) {
            admin.post(&format!("{path}/numbers"), json!({"kind": "sandbox"})).await.ok();
        }
        admin.put(&format!("{path}/credits"), json!({"credits": 100_000})).await.ok();
        self.key(id, &SCOPES, json!({})).await.1
    }

    /// Creates a key; returns its id and a client with it.
    pub async fn key(&self, workspace: &str, scopes: &[&str], limits: Value) -> (String, Api) {
        let body = json!({"name": "test", "scopes": scopes, "limits": limits});
        let path = format!("/admin/v1/workspaces/{workspace}/keys");
        let made = self.admin().post(&path, body).await.ok();
        let text = |name: &str| made[name].as_str().unwrap().to_owned();
        let api = self.api(&text("key"));
        self.clients.lock().unwrap().push(api.clone());
        (text("id"), api)
    }

    /// Moves engine time forward.
    pub async fn advance(&self, seconds: u64) {
        let body = json!({"advance_seconds": seconds});
        let moved = self.demo().post("/v1/sandbox/clock", body).await.ok();
        self.follow(moved["offset_seconds"].as_u64().unwrap()).await;
    }

    /// Returns the code of the newest message to `phone`, as soon as there is one.
    pub async fn code(&self, api: &Api, phone: &str) -> String {
        let path = format!("/v1/sandbox/messages?limit=1&to={}", phone.replace('+', "%2B"));
        let code =
            || async { api.get(&path).await.ok()["data"][0]["code"].as_str().map(str::to_owned) };
        eventually("a message", code).await
    }

    /// Returns everything that it has logged so far, at `debug`.
    pub fn log(&self) -> String {
        watch::log_of(&self.name)
    }

    fn check_end(&self) {
        let panics = watch::panics_of(&self.name);
        assert!(panics.is_empty(), "the server panicked: {panics:?}");
        let log = self.log();
        for file in ["demo.key", "admin.token", "master.key"] {
            let secret = self.secret(file);
            assert!(secret.is_none_or(|secret| !log.contains(&secret)), "{file} is in the log");
        }
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.stop();
            self.check_end();
        }
    }
}

/// The maximum time that [`eventually`] waits.
const PATIENCE: Duration = Duration::from_secs(120);

/// Returns the size of a test that also runs small. It is `small` in the first ring, and `whole` if
/// `POSTRIDER_TEST_WHOLE` is set, which `tests/run --all` does.
pub fn at_size<T>(small: T, whole: T) -> T {
    match std::env::var_os("POSTRIDER_TEST_WHOLE") {
        Some(_) => whole,
        None => small,
    }
}

/// Asks again and again, for at most two minutes, until there is an answer. It asks less and less
/// often, because a key has few requests.
pub async fn eventually<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let watch = postrider_actors::clock::Stopwatch::start();
    let mut attempt = 0;
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(watch.elapsed() < PATIENCE, "{what} never came");
        match attempt {
            0..10 => tokio::task::yield_now().await,
            10..60 => tokio::time::sleep(Duration::from_millis(10)).await,
            _ => tokio::time::sleep(Duration::from_millis(90)).await,
        }
        attempt += 1;
    }
}

/// Returns the Unix milliseconds of a time such as `2026-01-31T09:30:00.000Z`. Anything else fails.
pub fn millis(time: &str) -> u64 {
    assert!(time.len() == 24 && time.ends_with('Z'), "{time} has not milliseconds and a `Z`");
    time.parse::<jiff::Timestamp>().unwrap().as_millisecond().try_into().unwrap()
}
