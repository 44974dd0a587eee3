//! The listeners: their options from the settings, binding before the engine starts, and serving.

use std::future::Future;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::boot::BootError;
use crate::connections::PlaceLimits;
use crate::http::Starting;
use crate::serve::{Answers, Lingering, ServeOptions, serve_with};
use crate::settings::{Server, Settings};
use crate::tls::{Tls, TlsFiles};

/// The maximum wait for answers about a start, once the start is over.
const START_GRACE: Duration = Duration::from_secs(1);

/// The descriptors that the store may need: its files, and those that a flush opens beside them.
const STORE_DESCRIPTORS: u64 = 256;
/// The descriptors of listeners, standard streams, the runtime, and calls to a provider.
const OTHER_DESCRIPTORS: u64 = 96;
/// The minimum number of connections: fewer are of no use.
const CONNECTIONS_MIN: u64 = 16;

/// Returns the options of the listener for clients, and of the one for operators.
pub(crate) fn serve_options(
    settings: &Settings,
    open_files_max: Option<u64>,
) -> Result<(ServeOptions, ServeOptions), BootError> {
    let server = &settings.server;
    let reserved = server.reserved_connections;
    // A displaced connection may still be open when the next one has its place.
    let mut beside = settings.webhooks.requests_max + 2 * reserved;
    if settings.admin.listen.is_some() {
        // The listener for operators has as many again, and as many places that are not reserved.
        beside += 3 * reserved;
    }
    let max = connections_within(open_files_max, server.max_connections, beside);
    if max < server.max_connections {
        tracing::warn!(
            max_connections = max,
            open_files_max,
            "the limit on open files allows fewer connections than `server.max_connections`"
        );
    }
    let clients = ServeOptions {
        head_timeout: server.head_timeout_seconds,
        write_timeout: server.write_timeout_seconds,
        places: PlaceLimits {
            max,
            per_address_max: server.max_connections_per_address,
            reserved,
            trusted_proxies: server.trusted_proxies.clone(),
        },
        tls: tls(server, false)?,
    };
    let mut operators = clients.clone();
    // Operators have few connections, and none of them displaces another.
    operators.places.max = reserved;
    operators.places.per_address_max = 0;
    if server.tls_client_ca_file.is_some() {
        operators.tls = tls(server, true)?;
    }
    Ok((clients, operators))
}

fn tls(server: &Server, asks_clients: bool) -> Result<Option<Arc<Tls>>, BootError> {
    let (Some(certificate), Some(key)) = (&server.tls_certificate_file, &server.tls_key_file)
    else {
        return Ok(None);
    };
    let files = TlsFiles {
        certificate: certificate.clone(),
        key: key.clone(),
        client_ca: server.tls_client_ca_file.clone().filter(|_| asks_clients),
    };
    Ok(Some(Arc::new(Tls::new(files)?)))
}

/// Raises the soft limit on open files to the hard one. `None`: there is no limit.
pub(crate) fn raise_open_files_limit() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return current;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => maximum,
        Err(error) => {
            tracing::warn!(%error, "cannot raise the limit on open files");
            current
        }
    }
}

/// Returns the number of connections that a limit on open files allows, at most `wanted`.
///
/// `beside` is the number of other connections.
fn connections_within(limit: Option<u64>, wanted: usize, beside: usize) -> usize {
    let Some(limit) = limit else { return wanted };
    let left = limit.saturating_sub(STORE_DESCRIPTORS + OTHER_DESCRIPTORS);
    let left = left.saturating_sub(beside as u64).max(CONNECTIONS_MIN);
    wanted.min(usize::try_from(left).unwrap_or(wanted))
}

/// Returns a warning for each way in which other machines can read secrets.
pub(crate) fn exposure(settings: &Settings) -> Vec<String> {
    let mut warnings = Vec::new();
    let addresses = [Some(settings.server.listen), settings.admin.listen].into_iter().flatten();
    for address in addresses.filter(|address| !address.ip().to_canonical().is_loopback()) {
        if settings.server.tls_certificate_file.is_none() {
            warnings.push(format!(
                "{address} is reached from other machines without TLS, so keys and codes can be \
                 read on their way; set `server.tls_certificate_file`, or let only a proxy reach it"
            ));
        }
        if settings.sandbox.enabled {
            warnings.push(format!(
                "{address} is reached from other machines, and this is a sandbox, in which codes \
                 can be read and the clock can be moved; set `sandbox.enabled = false`"
            ));
        }
    }
    warnings
}

/// A listener that is bound and accepts nothing yet, because nothing can answer yet.
pub(crate) struct Bound {
    listener: TcpListener,
    pub(crate) address: SocketAddr,
}

/// A listener that is served.
pub(crate) struct Listening {
    pub(crate) address: SocketAddr,
    stop: oneshot::Sender<Duration>,
    serving: JoinHandle<Lingering>,
}

impl Bound {
    pub(crate) async fn to(address: SocketAddr) -> Result<Self, BootError> {
        let unbound = |source| BootError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(unbound)?;
        let address = listener.local_addr().map_err(unbound)?;
        Ok(Self { listener, address })
    }

    pub(crate) async fn to_any(address: Option<SocketAddr>) -> Result<Option<Self>, BootError> {
        match address {
            Some(address) => Ok(Some(Self::to(address).await?)),
            None => Ok(None),
        }
    }

    pub(crate) fn serve(self, app: impl Answers, options: ServeOptions) -> Listening {
        let (stop, stopped) = oneshot::channel();
        // Dropping the server drops the sender, which stops the accept loop without a grace period.
        let stopped = async { stopped.await.unwrap_or(Duration::ZERO) };
        let serving = tokio::spawn(serve_with(self.listener, app, options, stopped));
        Listening { address: self.address, stop, serving }
    }

    /// Duplicates the listener: one of the two accepts each connection.
    fn duplicate(&self) -> std::io::Result<Self> {
        let copy = std::net::TcpListener::from(self.listener.as_fd().try_clone_to_owned()?);
        Ok(Self { listener: TcpListener::from_std(copy)?, address: self.address })
    }
}

impl Listening {
    /// Stops accepting, and ends within the grace period.
    pub(crate) fn stop(self, grace: Duration) -> JoinHandle<Lingering> {
        if self.stop.send(grace).is_err() {
            tracing::warn!("the server had stopped serving before");
        }
        self.serving
    }
}

/// Waits for a start. Once it is known to take long, clients get that as an answer.
pub(crate) async fn answer_during_start<T>(
    start: impl Future<Output = T>,
    takes_long: impl Future<Output = ()>,
    listeners: &[(&Bound, Starting, &ServeOptions)],
) -> T {
    let mut start = pin!(start);
    tokio::select! {
        biased;
        started = &mut start => return started,
        () = takes_long => {}
    }
    let mut open = Vec::new();
    for (bound, app, options) in listeners {
        match bound.duplicate() {
            Ok(bound) => open.push(bound.serve(app.clone(), (*options).clone())),
            // Clients wait for the end of the start.
            Err(error) => {
                tracing::warn!(%error, "nobody can be answered that the start takes long")
            }
        }
    }
    let started = start.await;
    let ending: Vec<_> = open.into_iter().map(|open| open.stop(START_GRACE)).collect();
    for ended in ending {
        match ended.await {
            Ok(lingering) => drop(lingering.cut()),
            Err(error) => tracing::error!(%error, "answering during the start failed"),
        }
    }
    started
}

#[cfg(test)]
mod tests {
    use postrider_actors::Clock;
    use postrider_actors::store::Rebuilding;
    use serde_json::Value;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;
    use crate::http::{AdminToken, AppOptions};
    use crate::metrics::Metrics;

    fn warned(address: &str, change: impl Fn(&mut Settings)) -> usize {
        let mut settings = Settings::default();
        settings.server.listen = address.parse().unwrap();
        change(&mut settings);
        exposure(&settings).len()
    }

    #[test]
    fn what_others_reach_is_warned_of() {
        assert_eq!(warned("127.0.0.1:80", |_| {}), 0);
        assert_eq!(warned("[::1]:80", |_| {}), 0);
        assert_eq!(warned("0.0.0.0:80", |_| {}), 2);
        assert_eq!(warned("192.0.2.1:80", |it| it.sandbox.enabled = false), 1);
        assert_eq!(
            warned("[::]:80", |it| {
                it.sandbox.enabled = false;
                it.server.tls_certificate_file = Some("x".into());
            }),
            0
        );
    }

    async fn get(address: SocketAddr, path: &str) -> (String, Value) {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: it\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.to_owned(), serde_json::from_str(body).unwrap())
    }

    #[tokio::test]
    async fn who_connects_during_a_long_start_is_answered_so_and_then_served() {
        let settings = Settings::default();
        let (options, _) = serve_options(&settings, None).unwrap();
        let token = AdminToken::new("token-of-16-characters");
        let app = AppOptions::new(&settings, token, Metrics::new().unwrap());
        let starting = Starting::new(&Rebuilding::default(), &Clock::system(), &app, true);
        let bound = Bound::to("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = bound.address;
        let start = async {
            let (head, body) = get(address, "/healthz").await;
            assert!(head.starts_with("HTTP/1.1 200"), "{head}");
            assert_eq!(body["status"], "ok");
            for path in ["/readyz", "/v1/otp/send"] {
                let (head, body) = get(address, path).await;
                assert!(head.starts_with("HTTP/1.1 503"), "{head}");
                assert!(head.contains("retry-after: 1") && head.contains("x-request-id: req_"));
                assert_eq!(body["reason"], "rebuilding", "{body}");
                assert_eq!(body["reasons"][0], body["message"], "{body}");
            }
            // A connection that stays open is not waited for.
            TcpStream::connect(address).await.unwrap()
        };
        let ready = std::future::ready(());
        // As in a start that has already begun, which is polled first.
        let start = async {
            tokio::task::yield_now().await;
            start.await
        };
        let _open =
            answer_during_start(start, ready, &[(&bound, starting.clone(), &options)]).await;
        // The listener is still bound, and serves the next requests.
        let listening = bound.serve(starting, options);
        assert_eq!(get(address, "/healthz").await.1["status"], "ok");
        listening.stop(Duration::ZERO).await.unwrap().cut();
        assert!(TcpStream::connect(address).await.is_err(), "a copy of the listener is left");
    }

    #[test]
    fn the_store_has_its_own() {
        assert_eq!(connections_within(None, 10_000, 400), 10_000);
        assert_eq!(connections_within(Some(1_048_576), 10_000, 400), 10_000);
        assert_eq!(connections_within(Some(1024), 10_000, 400), 1024 - 256 - 96 - 400);
        assert_eq!(connections_within(Some(1024), 100, 400), 100);
        assert_eq!(connections_within(Some(64), 10_000, 400), 16);
    }

    #[test]
    fn the_limit_is_raised_as_far_as_it_goes() {
        let limit = raise_open_files_limit();
        assert_eq!(limit, getrlimit(Resource::Nofile).maximum);
        assert_eq!(limit, getrlimit(Resource::Nofile).current);
    }
}
