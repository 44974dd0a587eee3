//! Listeners: bound before the engine starts, and served once there is something to answer.

use std::future::Future;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::pin::pin;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::boot::BootError;
use crate::http::Starting;
use crate::serve::{Answers, Lingering, ServeOptions, serve_with};

/// The maximum wait for answers about a start, once the start is over.
const START_GRACE: Duration = Duration::from_secs(1);

/// A listener that is bound and accepts nothing yet.
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
    fn again(&self) -> std::io::Result<Self> {
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
pub(crate) async fn answering<T>(
    start: impl Future<Output = T>,
    takes_long: impl Future<Output = ()>,
    doors: &[(&Bound, Starting, &ServeOptions)],
) -> T {
    let mut start = pin!(start);
    tokio::select! {
        biased;
        started = &mut start => return started,
        () = takes_long => {}
    }
    let mut open = Vec::new();
    for (bound, app, options) in doors {
        match bound.again() {
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
    use crate::listeners::serve_options;
    use crate::metrics::Metrics;
    use crate::settings::Settings;

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
        let _open = answering(start, ready, &[(&bound, starting.clone(), &options)]).await;
        // The listener is still bound, and serves the next requests.
        let listening = bound.serve(starting, options);
        assert_eq!(get(address, "/healthz").await.1["status"], "ok");
        listening.stop(Duration::ZERO).await.unwrap().cut();
        assert!(TcpStream::connect(address).await.is_err(), "a copy of the listener is left");
    }
}
