//! The connection to NATS that all shards of a node share.
//!
//! It owns the connection, its runtime, and the choice of the server. It promises that no call
//! blocks for much longer than a second, and that after a silence another server is asked.

mod archives;
mod bucket;
pub mod preflight;
mod stream;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use async_nats::jetstream::context::CreateStreamErrorKind;
use async_nats::jetstream::stream::{Config, Info, Stream as JetStream};
use async_nats::jetstream::{self, Context, ErrorCode};
use async_nats::{Client, ConnectOptions, ReconnectToServer, ServerInfo};
use parking_lot::Mutex;
use tokio::runtime::Runtime;

use crate::clock::{BootClock, SteadyClock as _};
use crate::log::StreamError;
pub(crate) use archives::FilesSpec;
pub use archives::{FilesOf, NatsArchives, NatsFiles, OwnedFiles};
pub use bucket::NatsBucket;
pub use stream::{NatsStream, StreamSpec};

/// The maximum wait for an answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
/// The maximum time of making a stream: its servers elect a leader first.
const CREATED_WITHIN: Duration = Duration::from_secs(10);
/// The minimum time between two switches of the server, in milliseconds.
///
/// Questions to the server before are answered late for a second.
const SWITCHED_EVERY_MS: u64 = 1_500;
/// The minimum time between two switches if the server knows of no leader, in milliseconds.
///
/// The others may not know one either, and each switch loses answers of streams that have a leader.
const LEADER_SOUGHT_EVERY_MS: u64 = 20_000;
/// The time between two attempts to connect.
const RECONNECT_AFTER: Duration = Duration::from_millis(100);

/// The credentials with which this process and the servers identify themselves.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NatsCredentials {
    /// A file of NATS credentials.
    pub file: Option<PathBuf>,
    /// The roots of the servers' certificates; with them every connection is encrypted.
    pub ca: Option<PathBuf>,
    /// The certificate for servers that ask for one, and its key.
    pub certificate: Option<(PathBuf, PathBuf)>,
}

/// The addresses of NATS and the options of the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NatsOptions {
    /// The addresses of the servers, `nats://host:port`, or `tls://host:port` for all of them.
    pub servers: Vec<String>,
    /// The credentials of both sides.
    pub credentials: Option<NatsCredentials>,
    /// The name of the connection that the servers see.
    pub name: String,
    /// The maximum time of the first connection.
    pub connect_within: Duration,
}

/// The reason why NATS cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NatsError {
    /// No server answers.
    #[error("NATS_UNREACHABLE: no NATS server of the setting cluster.nats answers: {0}")]
    Unreachable(String),
    /// There are fewer servers than replicas.
    #[error(
        "NATS_UNREPLICATED: NATS cannot keep {replicas} replicas ({what}); three servers are \
         needed, or cluster.allow_unreplicated = true for trying it"
    )]
    Unreplicated {
        /// The requested number of replicas.
        replicas: usize,
        /// The error of NATS.
        what: String,
    },
    /// A stream does not exist.
    #[error("CLUSTER_MISSING: there is no stream {0}")]
    Missing(String),
    /// A stream exists, but with wrong settings.
    #[error("CLUSTER_MISMATCH: the stream {stream} is not as it must be: {what}")]
    Stream {
        /// The stream.
        stream: String,
        /// The wrong setting.
        what: String,
    },
    /// The threads of the connection could not be started.
    #[error("the connection to NATS cannot be started: {0}")]
    Runtime(String),
}

/// A connection to NATS.
#[derive(Debug)]
pub struct Nats {
    /// The runtime, which is taken when the connection is dropped, also inside another runtime.
    runtime: Option<Runtime>,
    handle: tokio::runtime::Handle,
    client: Client,
    context: Context,
    /// The time of the last switch of the server, in milliseconds.
    switched: AtomicU64,
}

impl Drop for Nats {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Nats {
    /// Connects to one of the servers.
    ///
    /// # Errors
    /// [`NatsError::Unreachable`] when none answers in time.
    pub fn connect(options: &NatsOptions) -> Result<Arc<Self>, NatsError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("nats")
            .enable_all()
            .build()
            .map_err(|error| NatsError::Runtime(error.to_string()))?;
        let handle = runtime.handle().clone();
        let wanted = options.clone();
        let connected = wait(&handle, options.connect_within, async move {
            let connect = connect_options(&wanted);
            let connect = with_credentials(connect, &wanted).await?;
            connect.connect(wanted.servers).await.map_err(|error| error.to_string())
        });
        let silent = || Err("no answer in time".to_owned());
        let client = connected.unwrap_or_else(silent).map_err(NatsError::Unreachable)?;
        let context = {
            let _inside = handle.enter();
            let mut context = jetstream::new(client.clone());
            context.set_timeout(ANSWER_WITHIN);
            context
        };
        let (runtime, switched) = (Some(runtime), AtomicU64::new(0));
        Ok(Arc::new(Self { runtime, handle, client, context, switched }))
    }

    /// Returns the information that the server sends about itself.
    #[must_use]
    pub fn server(&self) -> ServerInfo {
        self.client.server_info()
    }

    /// Switches to another server, if there is one.
    ///
    /// It does nothing shortly after a switch, because the new server has not been heard yet.
    pub fn switch_server(&self) {
        self.switch_unless_within(SWITCHED_EVERY_MS);
    }

    /// Switches the server for a stream whose leader the current one does not know.
    pub(crate) fn seek_leader(&self) {
        self.switch_unless_within(LEADER_SOUGHT_EVERY_MS);
    }

    fn switch_unless_within(&self, ms: u64) {
        let now = BootClock.now_ms();
        let is_new = |last: u64| (last == 0 || now >= last + ms).then_some(now);
        if self.switched.fetch_update(Ordering::AcqRel, Ordering::Acquire, is_new).is_err() {
            return;
        }
        let client = self.client.clone();
        self.handle.spawn(async move {
            if let Err(error) = client.force_reconnect().await {
                tracing::warn!(%error, "the connection to NATS is closed");
            }
        });
    }

    pub(crate) fn context(&self) -> Context {
        self.context.clone()
    }

    /// Runs a call to its end, or for about a second.
    pub(crate) fn wait<T: Send + 'static>(
        &self,
        call: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        wait(&self.handle, ANSWER_WITHIN, call)
    }

    /// Runs a call whose silence is an error.
    pub(crate) fn answer<T: Send + 'static>(
        &self,
        call: impl Future<Output = Result<T, StreamError>> + Send + 'static,
    ) -> Result<T, StreamError> {
        let silent = || Err(StreamError("NATS did not answer in time".to_owned()));
        self.wait(call).unwrap_or_else(silent)
    }

    /// Makes a stream, unless it exists with the same settings.
    pub(crate) fn create_stream(&self, config: Config) -> Result<(), NatsError> {
        let (name, replicas) = (config.name.clone(), config.num_replicas);
        let mut context = self.context.clone();
        context.set_timeout(CREATED_WITHIN);
        let created = wait(&self.handle, CREATED_WITHIN, async move {
            context.create_stream(config).await.map(|_| ())
        });
        let Some(created) = created else {
            return Err(NatsError::Unreachable(format!("{name} was not made in time")));
        };
        created.map_err(|error| {
            let what = error.to_string();
            let code = match error.kind() {
                CreateStreamErrorKind::JetStream(error) => Some(error.error_code()),
                _ => None,
            };
            let too_few = [
                ErrorCode::STREAM_REPLICAS_NOT_SUPPORTED,
                ErrorCode::CLUSTER_NO_PEERS,
                ErrorCode::CLUSTER_NOT_AVAILABLE,
            ];
            match code {
                Some(code) if too_few.contains(&code) => NatsError::Unreplicated { replicas, what },
                Some(_) => NatsError::Stream { stream: name.clone(), what },
                None => NatsError::Unreachable(what),
            }
        })
    }

    pub(crate) fn open_stream(&self, name: &str) -> Result<JetStream<()>, NatsError> {
        let (context, asked) = (self.context.clone(), name.to_owned());
        let opened = self.wait(async move { context.get_stream_no_info(asked).await });
        let silent = || NatsError::Unreachable("no answer in time".to_owned());
        opened.ok_or_else(silent)?.map_err(|error| NatsError::Unreachable(error.to_string()))
    }

    pub(crate) fn stream_info(
        &self,
        stream: &JetStream<()>,
        name: &str,
    ) -> Result<Info, NatsError> {
        let (asked, stream_name) = (stream.clone(), name.to_owned());
        let info = self.wait(async move { asked.get_info().await });
        let silent = || NatsError::Unreachable("no answer in time".to_owned());
        info.ok_or_else(silent)?.map_err(|error| match of_server(&error) {
            Some(error) if error.error_code() == ErrorCode::STREAM_NOT_FOUND => {
                NatsError::Missing(stream_name)
            }
            _ => NatsError::Unreachable(error.to_string()),
        })
    }
}

/// Returns the server's error, if the error came from a server.
pub(crate) fn of_server<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> Option<&'a jetstream::Error> {
    error.source().and_then(|source| source.downcast_ref())
}

/// Runs a future on the runtime and blocks this thread, whatever runtime the thread belongs to.
fn wait<T: Send + 'static>(
    handle: &tokio::runtime::Handle,
    within: Duration,
    call: impl Future<Output = T> + Send + 'static,
) -> Option<T> {
    let (sender, receiver) = mpsc::sync_channel(1);
    handle.spawn(async move {
        let outcome = tokio::time::timeout(within, call).await.ok();
        // The caller may wait no more.
        drop(sender.send(outcome));
    });
    receiver.recv().ok().flatten()
}

/// Adds the credentials, and the verification of the servers' certificates.
///
/// TLS files are read at each connection, so that they may be renewed.
async fn with_credentials(
    mut connect: ConnectOptions,
    options: &NatsOptions,
) -> Result<ConnectOptions, String> {
    let NatsCredentials { file, ca, certificate } = options.credentials.clone().unwrap_or_default();
    // The scheme of servers that others report is not known.
    let is_tls = |address: &String| address.starts_with("tls://");
    connect = connect.require_tls(ca.is_some() || options.servers.iter().any(is_tls));
    if let Some(ca) = ca {
        connect = connect.add_root_certificates(ca);
    }
    if let Some((certificate, key)) = certificate {
        connect = connect.add_client_certificate(certificate, key);
    }
    match file {
        None => Ok(connect),
        Some(file) => connect.credentials_file(file).await.map_err(|error| error.to_string()),
    }
}

fn connect_options(options: &NatsOptions) -> ConnectOptions {
    let last: Arc<Mutex<Option<String>>> = Arc::default();
    ConnectOptions::new()
        .name(&options.name)
        .ping_interval(Duration::from_secs(1))
        .connection_timeout(Duration::from_secs(2))
        .request_timeout(Some(ANSWER_WITHIN))
        .reconnect_to_server_callback(move |servers, _| {
            // The servers are tried in turn: the silent one is tried again last.
            let mut addresses: Vec<_> = servers.into_iter().map(|server| server.addr).collect();
            addresses.sort_by_key(|it| it.as_url_str().to_owned());
            let mut last = last.lock();
            let texts: Vec<_> = addresses.iter().map(|it| it.as_url_str().to_owned()).collect();
            let at = last.as_ref().and_then(|last| texts.iter().position(|it| it == last));
            let next: usize = at.map_or(0, |at| at + 1);
            let next = next.checked_rem(texts.len()).unwrap_or(0);
            *last = texts.get(next).cloned();
            let addr = addresses.into_iter().nth(next);
            let delay = Some(RECONNECT_AFTER);
            std::future::ready(addr.map(|addr| ReconnectToServer { addr, delay }))
        })
}
