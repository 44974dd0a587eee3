//! Terminates TLS with a certificate that can be renewed while connections are open.

use std::io::{self, IoSlice};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll};

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// The files that TLS needs, in PEM.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The server's certificate, then those between it and its root.
    pub certificate: PathBuf,
    /// The certificate's private key.
    pub key: PathBuf,
    /// The roots of the certificates that clients must have; `None` if they need none.
    pub client_ca: Option<PathBuf>,
}

/// The reason why the files cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{path}: {source}", path = .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file has the wrong content.
    #[error("{path}: must hold {expected} in PEM", path = .path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// The expected content.
        expected: &'static str,
    },
    /// Every local user may read the key.
    #[error("{path}: every local user may read this key; take that right away: chmod o= FILE",
        path = .0.display())]
    KeyIsPublic(PathBuf),
    /// Certificate and key do not match, or cannot be used.
    #[error("{path}: {source}", path = .path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: rustls::Error,
    },
    /// The certificates of clients cannot be verified with this file.
    #[error("{path}: {source}", path = .path.display())]
    ClientCa {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: rustls::server::VerifierBuilderError,
    },
}

/// TLS for the connections of a listener.
#[derive(Debug)]
pub struct Tls {
    files: TlsFiles,
    current: RwLock<Arc<ServerConfig>>,
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// [`TlsError`] names the file that cannot be used.
    pub fn new(files: TlsFiles) -> Result<Self, TlsError> {
        let current = RwLock::new(Arc::new(server_config(&files)?));
        Ok(Self { files, current })
    }

    /// Reads the files again, for the connections from now on.
    ///
    /// # Errors
    /// [`TlsError`] names the file that cannot be used. The earlier ones stay in use.
    pub fn reload(&self) -> Result<(), TlsError> {
        let renewed = Arc::new(server_config(&self.files)?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = renewed;
        Ok(())
    }

    /// Makes the TLS handshake.
    pub(crate) async fn accept(&self, stream: TcpStream) -> io::Result<Transport> {
        let current = Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner));
        let stream = TlsAcceptor::from(current).accept(stream).await?;
        Ok(Transport::Tls(Box::new(stream)))
    }
}

fn server_config(files: &TlsFiles) -> Result<ServerConfig, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let unusable = |source| TlsError::Unusable { path: files.certificate.clone(), source };
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(unusable)?;
    let builder = match &files.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let roots = Arc::new(roots(path)?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
            let bad = |source| TlsError::ClientCa { path: path.clone(), source };
            builder.with_client_cert_verifier(verifier.build().map_err(bad)?)
        }
    };
    let (chain, key) = (certificates(&files.certificate)?, private_key(&files.key)?);
    let mut config = builder.with_single_cert(chain, key).map_err(unusable)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// Makes the TLS settings for outgoing connections of this process.
///
/// It trusts these roots alone, and shows the certificate with this key, if it has one.
///
/// # Errors
/// [`TlsError`] names the file that cannot be used.
pub(crate) fn client_config(
    trusted: &Path,
    own: Option<(&Path, &Path)>,
) -> Result<ClientConfig, TlsError> {
    let unusable = |path: &Path| {
        let path = path.to_owned();
        move |source| TlsError::Unusable { path, source }
    };
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(unusable(trusted))?
        .with_root_certificates(roots(trusted)?);
    let mut config = match own {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => builder
            .with_client_auth_cert(certificates(certificate)?, private_key(key)?)
            .map_err(unusable(certificate))?,
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn roots(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for root in certificates(path)? {
        let bad = |source| TlsError::Unusable { path: path.to_owned(), source };
        roots.add(root).map_err(bad)?;
    }
    Ok(roots)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let pem = read_file(path)?;
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    read.ok()
        .filter(|read| !read.is_empty())
        .ok_or_else(|| TlsError::Content { path: path.to_owned(), expected: "certificates" })
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let failed = |source| TlsError::File { path: path.to_owned(), source };
    let mode = std::fs::metadata(path).map_err(failed)?.permissions().mode();
    if mode & 0o007 != 0 {
        return Err(TlsError::KeyIsPublic(path.to_owned()));
    }
    PrivateKeyDer::from_pem_slice(&read_file(path)?)
        .map_err(|_| TlsError::Content { path: path.to_owned(), expected: "a private key" })
}

fn read_file(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|source| TlsError::File { path: path.to_owned(), source })
}

/// The transport of a connection.
#[derive(Debug)]
pub(crate) enum Transport {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Calls the same method of either transport.
macro_rules! carried {
    ($transport:expr, $stream:ident => $call:expr) => {
        match $transport {
            Transport::Plain($stream) => $call,
            Transport::Tls($stream) => $call,
        }
    };
}

impl AsyncRead for Transport {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        carried!(&mut *self, stream => Pin::new(stream).poll_read(context, buffer))
    }
}

impl AsyncWrite for Transport {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        carried!(&mut *self, stream => Pin::new(stream).poll_write(context, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        carried!(&mut *self, stream => Pin::new(stream).poll_write_vectored(context, slices))
    }

    fn is_write_vectored(&self) -> bool {
        carried!(self, stream => stream.is_write_vectored())
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        carried!(&mut *self, stream => Pin::new(stream).poll_flush(context))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        carried!(&mut *self, stream => Pin::new(stream).poll_shutdown(context))
    }
}
