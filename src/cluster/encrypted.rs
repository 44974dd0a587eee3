//! Connections to other nodes, with or without TLS, and the encryption of the listener for them.
//!
//! Both ends of a connection show a certificate of the same roots. A peer without one is refused in
//! the handshake, before a request is read.

use std::error::Error;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::http::Uri;
use hyper_rustls::{ConfigBuilderExt as _, HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::crypto::ring;
use tokio::net::TcpStream;
use tower_service::Service;

use super::error::ClusterError;
use crate::settings::Cluster;
use crate::tls::{Tls, TlsError, TlsFiles, client_config};

/// The timeouts of a connection to another node, without and with its handshake.
const CONNECT_WITHIN: Duration = Duration::from_secs(1);
const ENCRYPT_WITHIN: Duration = Duration::from_secs(5);
/// The silence after which a connection is probed, which is also the interval of the probes.
///
/// The other value is the number of probes that may go without an answer.
const TRIED_AFTER: Duration = Duration::from_secs(5);
const TRIES: u32 = 3;

/// The TLS settings for connections from the next one on. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct Encryption(Arc<RwLock<Arc<ClientConfig>>>);

impl Encryption {
    fn of(config: ClientConfig) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(config))))
    }

    fn current(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn renew(&self, config: ClientConfig) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
    }
}

/// TLS between nodes.
#[derive(Debug)]
pub(super) struct NodeTls {
    files: [Box<Path>; 3],
    /// For the listener.
    pub(super) door: Arc<Tls>,
    /// For connections to other nodes.
    pub(super) client: Encryption,
}

impl NodeTls {
    /// Reads the files of the settings, if there are any.
    pub(super) fn of(settings: &Cluster) -> Result<Option<Self>, ClusterError> {
        let Some(files) = settings.tls() else { return Ok(None) };
        let [certificate, key, ca] = files.map(Clone::clone);
        let files = [&certificate, &key, &ca].map(|file| Box::from(file.as_path()));
        let client = Encryption::of(to_nodes(&files).map_err(ClusterError::Tls)?);
        let door = Tls::new(TlsFiles { certificate, key, client_ca: Some(ca) });
        let door = Arc::new(door.map_err(ClusterError::Tls)?);
        Ok(Some(Self { files, door, client }))
    }

    /// Reads the files again, for the connections from now on.
    ///
    /// # Errors
    /// [`TlsError`]: the earlier contents stay in use.
    pub(super) fn reload(&self) -> Result<(), TlsError> {
        let client = to_nodes(&self.files)?;
        self.door.reload()?;
        self.client.renew(client);
        Ok(())
    }
}

fn to_nodes([certificate, key, ca]: &[Box<Path>; 3]) -> Result<ClientConfig, TlsError> {
    client_config(ca, Some((certificate, key)))
}

/// Returns the TLS settings for monitoring addresses, if the settings ask for them.
pub(super) fn to_monitor(settings: &Cluster) -> Result<Option<Encryption>, ClusterError> {
    if let Some(ca) = &settings.nats_ca {
        let config = client_config(ca, None).map_err(ClusterError::NatsCa)?;
        return Ok(Some(Encryption::of(config)));
    }
    if !settings.monitor.iter().any(|address| address.starts_with("https://")) {
        return Ok(None);
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|config| config.try_with_platform_verifier())
        .map_err(ClusterError::SystemRoots)?;
    Ok(Some(Encryption::of(config.with_no_client_auth())))
}

/// Makes connections that end when the other machine has gone without closing them.
#[derive(Debug, Clone)]
pub(super) struct Connector {
    plain: HttpConnector,
    encryption: Option<Encryption>,
}

impl Connector {
    /// Makes a connector. An `https` address is encrypted, or refused if there is no encryption.
    pub(super) fn new(encryption: Option<Encryption>) -> Self {
        let mut plain = HttpConnector::new();
        plain.set_connect_timeout(Some(CONNECT_WITHIN));
        plain.set_nodelay(true);
        plain.set_keepalive(Some(TRIED_AFTER));
        plain.set_keepalive_interval(Some(TRIED_AFTER));
        plain.set_keepalive_retries(Some(TRIES));
        plain.enforce_http(encryption.is_none());
        Self { plain, encryption }
    }
}

type BoxError = Box<dyn Error + Send + Sync>;

impl Service<Uri> for Connector {
    type Response = MaybeHttpsStream<TokioIo<TcpStream>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.plain.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let Some(encryption) = &self.encryption else {
            let connecting = self.plain.call(to);
            return Box::pin(async { Ok(MaybeHttpsStream::Http(connecting.await?)) });
        };
        let connecting = HttpsConnector::from((self.plain.clone(), encryption.current())).call(to);
        // A node that hangs accepts connections, and makes no handshake.
        let connecting = tokio::time::timeout(ENCRYPT_WITHIN, connecting);
        Box::pin(async { connecting.await.map_err(|_| "no handshake in time")? })
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    /// Returns the timer of the connection to this address, as Linux lists it.
    ///
    /// The values are the kind of the timer and the hundredths of a second until it fires.
    fn timer_of(address: SocketAddr) -> (u8, u32) {
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let remote = format!(":{:04X}", address.port());
        let columns = |line: &str| -> Vec<String> {
            line.split(' ').filter(|it| !it.is_empty()).map(str::to_owned).collect()
        };
        let line = table.lines().map(columns).find(|it| it[2].ends_with(&remote)).unwrap();
        let (timer, when) = line[5].split_once(':').unwrap();
        let number = |text: &str| u32::from_str_radix(text, 16).unwrap();
        (u8::from_str_radix(timer, 16).unwrap(), number(when))
    }

    #[tokio::test]
    async fn a_connection_is_tried_while_nothing_comes() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let url = format!("http://{address}/").parse().unwrap();
        let _connection = Connector::new(None).call(url).await.unwrap();
        // Timer 2 is that of keepalives.
        let (timer, hundredths) = timer_of(address);
        assert_eq!(timer, 2);
        assert!(hundredths <= 500, "{hundredths}");
    }
}
