//! The server of a soak: a process on one port that is killed and restarted.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::Result;
use crate::machine::Machine;
use crate::measure::Stopwatch;

/// The maximum wait for a start or an end.
const PATIENCE: Duration = Duration::from_secs(90);
const LOOK: Duration = Duration::from_millis(20);
/// The settings of a soak: limits that would only interfere are off.
const SETTINGS: [(&str, &str); 8] = [
    ("LIMITS__KEY_REQUESTS_PER_HOUR", "0"),
    ("LIMITS__OTP_PER_WORKSPACE_HOUR", "0"),
    ("LIMITS__CONTACTS_PER_MINUTE", "0"),
    ("LIMITS__UNAUTHENTICATED_PER_MINUTE", "0"),
    ("CLOUD_API__TIMEOUT_SECONDS", "2"),
    ("CLOUD_API__CONNECT_TIMEOUT_SECONDS", "1"),
    ("WEBHOOKS__TIMEOUT_SECONDS", "2"),
    ("WEBHOOKS__ALLOWED_SUBNETS", "127.0.0.0/8"),
];

/// The resources of a process at one moment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Usage {
    /// The resident bytes.
    pub(super) resident: f64,
    /// The number of open descriptors.
    pub(super) descriptors: usize,
}

/// The server.
pub(super) struct Served {
    data: PathBuf,
    provider: String,
    address: SocketAddr,
    /// The process, unless it is stopped.
    child: Option<Child>,
}

impl Served {
    /// Starts a server with its data below `directory`, whose provider is at this address.
    pub(super) fn start(directory: &Path, machine: &Machine, provider: String) -> Result<Self> {
        // A port that was free a moment ago: it must be the same in each life.
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let mut served = Self { data: directory.join("data"), provider, address, child: None };
        served.begin(machine)?;
        Ok(served)
    }

    /// Starts the process, and waits until it listens.
    pub(super) fn begin(&mut self, machine: &Machine) -> Result<()> {
        let mut log = File::options().create(true).append(true).open(self.log_path())?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_postrider"));
        command.args(["serve", "--listen", &self.address.to_string(), "--data-dir"]);
        command.arg(&self.data).env("POSTRIDER__CLOUD_API__BASE_URL", &self.provider);
        for (name, value) in SETTINGS {
            command.env(format!("POSTRIDER__{name}"), value);
        }
        machine.host(&mut command);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        // This process writes the log, so that a full disk of the server loses no line.
        let mut lines = child.stderr.take().ok_or("its log is a pipe")?;
        drop(std::thread::spawn(move || std::io::copy(&mut lines, &mut log)));
        self.child = Some(child);
        let watch = Stopwatch::start();
        // It is bound long before it answers, and a fault in between would only stop the start.
        while !self.answers() {
            if !self.runs()? || watch.elapsed() > PATIENCE {
                return Err(format!("it does not start: see {}", self.log_path().display()).into());
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Returns whether the server answers that it is alive.
    fn answers(&self) -> bool {
        let ask = || {
            let mut stream = TcpStream::connect(self.address)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.write_all(b"GET /healthz HTTP/1.0\r\nhost: localhost\r\n\r\n")?;
            let mut head = [0; 12];
            stream.read_exact(&mut head)?;
            Ok::<_, std::io::Error>(head.ends_with(b" 200"))
        };
        ask().unwrap_or_default()
    }

    /// Returns the path of the log of all its lives.
    pub(super) fn log_path(&self) -> PathBuf {
        self.data.with_extension("log")
    }

    /// Returns the address on which it listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns a secret that the server stores in a file, such as the admin token.
    pub(super) fn secret(&self, file: &str) -> Result<String> {
        Ok(std::fs::read_to_string(self.data.join(file))?.trim().to_owned())
    }

    /// Returns whether the process has not ended by itself.
    pub(super) fn runs(&mut self) -> Result<bool> {
        Ok(match &mut self.child {
            Some(child) => child.try_wait()?.is_none(),
            None => false,
        })
    }

    /// Kills the process by `kill -9`.
    pub(super) fn kill(&mut self) -> Result<()> {
        let mut child = self.child.take().ok_or("it does not run")?;
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    /// Requests a stop, and waits for it.
    pub(super) fn stop(&mut self) -> Result<()> {
        self.signal("TERM")?;
        let mut child = self.child.take().ok_or("it does not run")?;
        let watch = Stopwatch::start();
        loop {
            if let Some(status) = child.try_wait()? {
                return if status.success() { Ok(()) } else { Err(status.to_string().into()) };
            }
            if watch.elapsed() > PATIENCE {
                child.kill()?;
                child.wait()?;
                return Err("it did not stop when it was asked to".into());
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Sends the process a signal, by name.
    pub(super) fn signal(&self, name: &str) -> Result<()> {
        let id = self.child.as_ref().ok_or("it does not run")?.id();
        let sent = Command::new("kill").args([&format!("-{name}"), &id.to_string()]).status()?;
        if sent.success() { Ok(()) } else { Err("the signal was not sent".into()) }
    }

    /// Returns the current resources of the process.
    pub(super) fn usage(&self) -> Result<Usage> {
        let id = self.child.as_ref().ok_or("it does not run")?.id();
        let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB")).ok_or("no VmRSS")?;
        let descriptors = std::fs::read_dir(format!("/proc/{id}/fd"))?.count();
        Ok(Usage { resident: kibibytes.trim().parse::<f64>()? * 1024.0, descriptors })
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // The process may have ended.
            child.kill().ok();
            child.wait().ok();
        }
    }
}
