//! The server as a process.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use super::client::Client;
use crate::machine::Machine;

/// The maximum wait for a start or an end.
const PATIENCE: Duration = Duration::from_secs(90);
/// The limits that would only be in the way.
const UNLIMITED: [&str; 5] = [
    "LIMITS__KEY_REQUESTS_PER_HOUR",
    "LIMITS__OTP_PER_PHONE_10M",
    "LIMITS__OTP_PER_WORKSPACE_HOUR",
    "LIMITS__UNAUTHENTICATED_PER_MINUTE",
    // Disks of tests are small, and tests fill some of them to the last byte.
    "STORAGE__FREE_BYTES_MIN",
];

/// A server that runs. Dropping it kills it.
pub struct Process {
    child: Child,
    address: SocketAddr,
    data: PathBuf,
    log: Log,
    /// The thread that ends when all of the log has been read.
    reading: Option<JoinHandle<()>>,
}

/// The status and the log of a process that has ended.
#[derive(Debug)]
pub struct NotStarted {
    pub status: ExitStatus,
    pub log: String,
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<String>>);

impl Process {
    /// Starts a server on the data directory `data` and waits until it listens.
    pub fn start(data: &Path) -> Self {
        Self::start_with(data, &[])
    }

    /// Starts a server with other settings, such as `("STORAGE__QUEUED_BYTES_MAX", "1048576")`.
    pub fn start_with(data: &Path, settings: &[(&str, &str)]) -> Self {
        Self::try_start(data, settings).unwrap_or_else(|failed| panic!("no start: {failed:?}"))
    }

    /// Starts a server under limits of the system, which are the arguments of `ulimit`.
    pub fn start_within(data: &Path, limits: &str) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit {limits} && exec \"$0\" \"$@\"")]);
        command.arg(env!("CARGO_BIN_EXE_postrider"));
        let child = spawn_by(command, data, &[]);
        Self::listening(child, data).unwrap_or_else(|failed| panic!("no start: {failed:?}"))
    }

    /// Starts a server that logs at `debug` to this file.
    pub fn start_logging_to(data: &Path, file: &str) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("exec \"$0\" \"$@\" 2>{file}")]);
        command.arg(env!("CARGO_BIN_EXE_postrider"));
        let child = spawn_by(command, data, &[("LOG__LEVEL", "debug")]);
        Self::listening(child, data).unwrap_or_else(|failed| panic!("no start: {failed:?}"))
    }

    pub fn try_start(data: &Path, settings: &[(&str, &str)]) -> Result<Self, NotStarted> {
        Self::listening(spawn(data, settings), data)
    }

    /// Starts a server on a machine whose faults are chosen.
    pub fn try_start_on(
        machine: &Machine,
        data: &Path,
        settings: &[(&str, &str)],
    ) -> Result<Self, NotStarted> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_postrider"));
        machine.host(&mut command);
        Self::listening(spawn_by(command, data, settings), data)
    }

    fn listening(mut child: Child, data: &Path) -> Result<Self, NotStarted> {
        let log = Log::default();
        let reading = log.follow(child.stderr.take().unwrap());
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, addresses) = mpsc::channel();
        // Reads to the end, so that the server can always write.
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let shown = line.split_once(" listens on ");
                if let Some((_, address)) = shown.and_then(|(_, url)| url.split_once("://")) {
                    sender.send(address.trim().to_owned()).ok();
                }
            }
        });
        match addresses.recv_timeout(PATIENCE) {
            Ok(address) => {
                let address = address.split('/').next().unwrap().parse().unwrap();
                Ok(Self { child, address, data: data.to_owned(), log, reading: Some(reading) })
            }
            // It has closed its standard output, so it has ended.
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                let status = child.wait().unwrap();
                reading.join().unwrap();
                Err(NotStarted { status, log: log.text() })
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {
                child.kill().unwrap();
                panic!("it neither started nor ended: {}", log.text());
            }
        }
    }

    /// Starts a server and kills it as soon as a condition holds.
    pub fn kill_when(data: &Path, is_so: impl Fn() -> bool) {
        let mut child = spawn(data, &[]);
        wait_for("the moment", || is_so().then_some(()));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Returns a client with the demo workspace's key.
    pub fn demo(&self) -> Client {
        self.client("demo.key")
    }

    /// Returns a client of the administration.
    pub fn admin(&self) -> Client {
        self.client("admin.token")
    }

    fn client(&self, secret: &str) -> Client {
        let token = std::fs::read_to_string(self.data.join(secret)).unwrap();
        Client::new(self.address, token.trim())
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns everything that it has logged so far.
    pub fn log(&self) -> String {
        self.log.text()
    }

    /// Returns whether it has not ended by itself.
    pub fn runs(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// `kill -9`.
    pub fn kill(mut self) {
        assert!(self.runs(), "it ended by itself: {}", self.log());
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks it to stop.
    pub fn terminate(&self) {
        signal(self.id(), "TERM");
    }

    /// Waits for its end.
    pub fn ended(mut self) -> NotStarted {
        let status = wait_for("its end", || self.child.try_wait().unwrap());
        self.reading.take().unwrap().join().unwrap();
        NotStarted { status, log: self.log() }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended.
        self.child.kill().ok();
        self.child.wait().ok();
        if std::thread::panicking() {
            eprintln!("the server's log:\n{}", self.log());
        }
    }
}

impl Log {
    fn follow(&self, stderr: impl Read + Send + 'static) -> JoinHandle<()> {
        let log = self.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let mut text = log.0.lock().unwrap();
                text.push_str(&line);
                text.push('\n');
            }
        })
    }

    fn text(&self) -> String {
        self.0.lock().unwrap().clone()
    }
}

fn spawn(data: &Path, settings: &[(&str, &str)]) -> Child {
    spawn_by(Command::new(env!("CARGO_BIN_EXE_postrider")), data, settings)
}

fn spawn_by(mut command: Command, data: &Path, settings: &[(&str, &str)]) -> Child {
    command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(data);
    for name in UNLIMITED {
        command.env(format!("POSTRIDER__{name}"), "0");
    }
    // Small files, so that the log starts some under load and fits onto small disks.
    command.env("POSTRIDER__STORAGE__SEGMENT_BYTES", "1048576");
    for (name, value) in settings {
        command.env(format!("POSTRIDER__{name}"), value);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Sends a signal to a process that this one has started.
pub fn signal(process: u32, name: &str) {
    let sent = Command::new("sh").args(["-c", &format!("kill -{name} {process}")]).status();
    assert!(sent.unwrap().success());
}

/// Checks again and again, for a bounded time, until there is a result.
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let step = Duration::from_millis(5);
    for _ in 0..PATIENCE.as_millis() / step.as_millis() {
        if let Some(found) = look() {
            return found;
        }
        std::thread::sleep(step);
    }
    panic!("{what} never came");
}
