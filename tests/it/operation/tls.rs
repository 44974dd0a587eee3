//! The server's own TLS: its protocols, the renewal of a certificate, the errors that stop the
//! start.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::support::TestServer;

/// Writes a self-signed certificate and its key; returns the certificate.
pub fn write_pair(dir: &Path) -> CertificateDer<'static> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(dir.join("cert.pem"), made.cert.pem()).unwrap();
    let key = dir.join("key.pem");
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    set_mode(&key, 0o600);
    made.cert.der().clone()
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Starts a server with the pair that is in `dir`.
async fn server(dir: &Path) -> TestServer {
    let path = |name: &str| dir.join(name).to_str().unwrap().to_owned();
    TestServer::with(&[
        ("SERVER__TLS_CERTIFICATE_FILE", &path("cert.pem")),
        ("SERVER__TLS_KEY_FILE", &path("key.pem")),
    ])
    .await
}

/// Connects, trusting this certificate only.
async fn connect(
    server: &TestServer,
    root: &CertificateDer<'static>,
) -> std::io::Result<TlsStream<TcpStream>> {
    connect_to(server.address(), root, None).await
}

/// Connects to an address, with the client certificate and key that are in a directory.
pub async fn connect_to(
    address: SocketAddr,
    root: &CertificateDer<'static>,
    own: Option<&Path>,
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(root.clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match own {
        None => config.with_no_client_auth(),
        Some(dir) => {
            let chain = CertificateDer::from_pem_file(dir.join("cert.pem")).unwrap();
            let key = PrivateKeyDer::from_pem_file(dir.join("key.pem")).unwrap();
            config.with_client_auth_cert(vec![chain], key).unwrap()
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

/// Requests the server's health, and returns the status of the answer.
pub async fn health(stream: &mut TlsStream<TcpStream>) -> String {
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"{\"status\":\"ok\"}") {
        let mut part = [0; 4096];
        let length = stream.read(&mut part).await.unwrap();
        assert!(length > 0, "it ended early: {}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&part[..length]);
    }
    String::from_utf8_lossy(&answer[9..12]).into_owned()
}

#[tokio::test]
async fn a_certificate_is_renewed_without_dropping_a_connection() {
    let dir = tempfile::tempdir().unwrap();
    let first = write_pair(dir.path());
    let server = server(dir.path()).await;
    let mut early = connect(&server, &first).await.unwrap();
    assert_eq!(early.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    assert_eq!(health(&mut early).await, "200");
    assert!(server.banner().contains(&format!("https://{}", server.address())));

    let second = write_pair(dir.path());
    assert!(connect(&server, &second).await.is_err(), "nobody has asked it to");
    server.reload_certificates();
    assert_eq!(health(&mut connect(&server, &second).await.unwrap()).await, "200");
    assert!(connect(&server, &first).await.is_err());
    assert_eq!(health(&mut early).await, "200", "it goes on");

    // An unusable certificate replaces nothing.
    std::fs::write(dir.path().join("cert.pem"), "no certificate").unwrap();
    server.reload_certificates();
    assert_eq!(health(&mut connect(&server, &second).await.unwrap()).await, "200");
}

#[tokio::test]
async fn a_client_without_tls_is_not_served() {
    let dir = tempfile::tempdir().unwrap();
    let root = write_pair(dir.path());
    let server = server(dir.path()).await;
    let mut plain = server.connect().await;
    plain.send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await;
    plain.finish().await;
    assert!(plain.ends_without_answer().await);
    assert_eq!(health(&mut connect(&server, &root).await.unwrap()).await, "200");
}

#[tokio::test]
async fn a_key_that_others_may_read_stops_the_start() {
    let dir = tempfile::tempdir().unwrap();
    write_pair(dir.path());
    let mut server = server(dir.path()).await;
    set_mode(&dir.path().join("key.pem"), 0o604);
    let refused = server.refused_restart().await;
    assert!(refused.contains("key.pem") && refused.contains("chmod"), "{refused}");
    // The key belongs to another certificate.
    std::fs::write(dir.path().join("cert.pem"), {
        let other = tempfile::tempdir().unwrap();
        write_pair(other.path());
        std::fs::read_to_string(other.path().join("cert.pem")).unwrap()
    })
    .unwrap();
    set_mode(&dir.path().join("key.pem"), 0o600);
    let refused = server.refused_restart().await;
    assert!(refused.contains("cert.pem"), "{refused}");
}

#[tokio::test]
async fn operators_must_have_a_certificate_where_the_settings_name_its_root() {
    let [dir, known, unknown] = std::array::from_fn(|_| tempfile::tempdir().unwrap());
    let root = write_pair(dir.path());
    for own in [&known, &unknown] {
        write_pair(own.path());
    }
    let path = |dir: &Path, name: &str| dir.join(name).to_str().unwrap().to_owned();
    let server = TestServer::with(&[
        ("SERVER__TLS_CERTIFICATE_FILE", &path(dir.path(), "cert.pem")),
        ("SERVER__TLS_KEY_FILE", &path(dir.path(), "key.pem")),
        ("SERVER__TLS_CLIENT_CA_FILE", &path(known.path(), "cert.pem")),
        ("ADMIN__LISTEN", "127.0.0.1:0"),
    ])
    .await;
    // The start of the answer; only a read may show a refused handshake.
    let asked = async |address, own: Option<&Path>| {
        let mut stream = connect_to(address, &root, own).await.ok()?;
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.ok()?;
        let mut start = [0; 12];
        stream.read_exact(&mut start).await.ok()?;
        Some(String::from_utf8_lossy(&start[9..]).into_owned())
    };
    let (clients, operators) = (server.address(), server.admin_address());
    assert_eq!(asked(operators, Some(known.path())).await.as_deref(), Some("200"));
    assert_eq!(asked(operators, None).await, None, "there is no certificate");
    assert_eq!(asked(operators, Some(unknown.path())).await, None, "nobody vouches for it");
    assert_eq!(asked(clients, None).await.as_deref(), Some("404"), "clients need none");
}

#[tokio::test]
async fn what_others_reach_without_tls_is_warned_of_wherever_operators_look() {
    let server = TestServer::start_at("0.0.0.0", &[]).await;
    let ready = server.stranger().get("/readyz").await.ok();
    let warnings = ready["warnings"].as_array().unwrap();
    assert_eq!(warnings.len(), 2, "{ready}");
    let (banner, log) = (server.banner(), server.log());
    for (warning, what) in warnings.iter().zip(["without TLS", "sandbox"]) {
        let warning = warning.as_str().unwrap();
        assert!(warning.contains(what), "{warning}");
        let line = banner.lines().find(|line| line.contains(warning));
        assert!(line.is_some_and(|line| line.contains("WARNING")), "{banner}");
        assert!(log.lines().any(|line| line.contains("WARN") && line.contains(warning)), "{log}");
    }
    let inside = TestServer::start().await;
    assert_eq!(inside.stranger().get("/readyz").await.ok()["warnings"].as_array(), None);
    assert!(!inside.banner().contains("WARNING"));
}
