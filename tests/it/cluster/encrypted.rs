//! TLS between nodes, and between nodes and NATS.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::nats::Nats;
use super::nodes::{Cluster, read, send, verify, workspace};
use super::state::{about, once, owned, workspaces};
use crate::faults::{Client, Outcome, Process, signal, wait_for};
use crate::operation::tls::connect_to;

const REQUEST: &str = "POST /cluster/v1/shards/0/release?by=pr-9 HTTP/1.1\r\nHost: x\r\n\r\n";

/// An authority that signs certificates, and the directory that contains them.
struct Authority {
    dir: tempfile::TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut root = CertificateParams::new(Vec::new()).unwrap();
        root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        fs::write(dir.path().join("ca.pem"), root.self_signed(&key).unwrap().pem()).unwrap();
        Self { dir, issuer: Issuer::new(root, key) }
    }

    /// Writes a certificate for this machine, and its key.
    fn signs(&self, name: &str) {
        let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
        let key = KeyPair::generate().unwrap();
        let signed = CertificateParams::new(names).unwrap().signed_by(&key, &self.issuer).unwrap();
        fs::write(self.path(&format!("{name}.pem")), signed.pem()).unwrap();
        let file = self.path(&format!("{name}.key"));
        fs::write(&file, key.serialize_pem()).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    }

    fn path(&self, file: &str) -> String {
        self.dir.path().join(file).to_str().unwrap().to_owned()
    }

    fn root(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_file(self.path("ca.pem")).unwrap()
    }
}

/// Starts a node with a certificate of one authority, which trusts those of another one.
fn start(cluster: &Cluster, node: &str, own: &Authority, trusted: &Authority) -> Process {
    own.signs(node);
    let (certificate, key) = (own.path(&format!("{node}.pem")), own.path(&format!("{node}.key")));
    let ca = trusted.path("ca.pem");
    let settings = [
        ("CLUSTER__TLS_CERT", certificate.as_str()),
        ("CLUSTER__TLS_KEY", key.as_str()),
        ("CLUSTER__TLS_CA", ca.as_str()),
    ];
    let started = cluster.start_with(node, &cluster.directory(node), &settings);
    started.unwrap_or_else(|log| panic!("no start: {log}"))
}

/// Checks that a node with an untrusted certificate cannot serve requests for workspaces of others.
async fn is_not_served(stranger: &Process, workspaces: &[(String, String)], through: &Process) {
    for (number, (id, key)) in workspaces.iter().enumerate() {
        let phone = format!("+1555020{number:04}");
        let mut client = Client::new(stranger.address(), key);
        let sent = client.post("/v1/otp/send", &json!({"phone": phone})).await;
        let Outcome::Answered(answer) = sent else { panic!("{id}: {sent:?}") };
        assert_eq!(answer.status, 503, "{id}: {answer:?}");
        let path = format!("/v1/sandbox/messages?to={}", phone.replace('+', "%2B"));
        let listed = read(&mut Client::new(through.address(), key), &path).await;
        assert_eq!(listed["data"], json!([]), "{id}: it was served");
    }
}

/// Returns the address at which other nodes reach a node.
fn door(state: &Value, node: &str) -> SocketAddr {
    about(state, node)["advertise"].as_str().unwrap().parse().unwrap()
}

/// Sends a request, and returns everything that comes back before the end of the connection.
async fn answer(
    stream: &mut (impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin),
) -> Vec<u8> {
    let mut answer = Vec::new();
    // A refusal may come before all is written.
    if stream.write_all(REQUEST.as_bytes()).await.is_ok() {
        stream.read_to_end(&mut answer).await.ok();
    }
    answer
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_serve_each_other_by_their_certificates_and_nobody_else() {
    let (authority, other) = (Authority::new(), Authority::new());
    let cluster = Cluster::made();
    let first = start(&cluster, "pr-1", &authority, &authority);
    let second = start(&cluster, "pr-2", &authority, &authority);
    let both = |it: &Value| it["ready"] == true && owned(it, "pr-1") == 2 && owned(it, "pr-2") == 2;
    let state = once(&first, "shards for both", both).await;
    let workspaces = workspaces(&first).await;
    for node in [&first, &second] {
        for (_, key) in &workspaces {
            let mut client = Client::new(node.address(), key);
            let (request, code) = send(&mut client, "+15550100001").await;
            assert_eq!(verify(&mut client, &request, &code).await.0, 200);
        }
    }

    // Nothing is read from a client that shows no certificate, or another authority's.
    let to = door(&state, "pr-1");
    let mut plain = TcpStream::connect(to).await.unwrap();
    let said = answer(&mut plain).await;
    assert!(!said.starts_with(b"HTTP"), "{}", String::from_utf8_lossy(&said));
    other.signs("cert");
    fs::rename(other.path("cert.key"), other.path("key.pem")).unwrap();
    for own in [None, Some(other.dir.path())] {
        if let Ok(mut stream) = connect_to(to, &authority.root(), own).await {
            assert_eq!(answer(&mut stream).await, b"", "{own:?}");
        }
    }

    // A node is a stranger with another authority, whichever side does not trust, or with none.
    let distrusts = start(&cluster, "pr-3", &other, &other);
    is_not_served(&distrusts, &workspaces, &first).await;
    drop(distrusts);
    let distrusted = start(&cluster, "pr-4", &other, &authority);
    is_not_served(&distrusted, &workspaces, &first).await;
    drop(distrusted);
    let plain = cluster.start("pr-5");
    is_not_served(&plain, &workspaces, &first).await;
    let state = once(&first, "all shards", |it| it["ready"] == true).await;
    assert_eq!((owned(&state, "pr-1"), owned(&state, "pr-2")), (2, 2), "{state}");
}

/// Returns the certificate that an address shows to a client with the directory's certificate.
async fn shown(to: SocketAddr, root: &CertificateDer<'static>, own: &Path) -> Vec<u8> {
    let stream = connect_to(to, root, Some(own)).await.unwrap();
    stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_of_nodes_are_renewed_by_a_signal() {
    let authority = Authority::new();
    let cluster = Cluster::made();
    let nodes = ["pr-1", "pr-2"].map(|node| start(&cluster, node, &authority, &authority));
    let both = |it: &Value| it["ready"] == true && owned(it, "pr-1") == 2;
    let state = once(&nodes[0], "shards for both", both).await;
    let workspaces = workspaces(&nodes[0]).await;
    authority.signs("cert");
    fs::rename(authority.path("cert.key"), authority.path("key.pem")).unwrap();
    let (to, root) = (door(&state, "pr-1"), authority.root());
    let before = shown(to, &root, authority.dir.path()).await;
    authority.signs("pr-1");
    assert_eq!(shown(to, &root, authority.dir.path()).await, before, "nobody has asked it to");
    signal(nodes[0].id(), "HUP");
    let is_new = async || (shown(to, &root, authority.dir.path()).await != before).then_some(());
    crate::support::eventually("the new certificate", is_new).await;

    // An unusable certificate replaces nothing, for neither side.
    fs::write(authority.path("pr-1.pem"), "no certificate").unwrap();
    signal(nodes[0].id(), "HUP");
    let line = "the certificate stays as it is";
    wait_for(line, || nodes[0].log().contains(line).then_some(()));
    for node in &nodes {
        for (_, key) in &workspaces {
            send(&mut Client::new(node.address(), key), "+15550100001").await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nats_is_reached_by_its_authority_alone_and_never_in_clear() {
    let (authority, other) = (Authority::new(), Authority::new());
    authority.signs("nats");
    authority.signs("pr-1");
    let own = ["pr-1.pem", "pr-1.key", "ca.pem"].map(|file| authority.path(file));
    let more = [
        ("CLUSTER__NATS_CA", own[2].as_str()),
        ("CLUSTER__TLS_CERT", own[0].as_str()),
        ("CLUSTER__TLS_KEY", own[1].as_str()),
        ("CLUSTER__TLS_CA", own[2].as_str()),
    ];
    let cluster = Cluster::over_with(Nats::encrypted(authority.dir.path()), &more);
    assert!(cluster.nats.address.starts_with("tls://"), "{}", cluster.nats.address);
    let (others, clear) = (other.path("ca.pem"), Nats::start());
    let refused = |settings: &[(&str, &str)], code: &str| {
        let (output, answer) = cluster.init(settings);
        assert_eq!(output.status.code(), Some(1), "{settings:?}: {output:?}");
        assert_eq!(answer["error"], code, "{settings:?}: {answer}");
    };
    refused(&[("CLUSTER__NATS_CA", "")], "NATS_UNREACHABLE");
    refused(&[("CLUSTER__NATS_CA", &others)], "NATS_UNREACHABLE");
    refused(&[("CLUSTER__NATS_CA", &authority.path("missing.pem"))], "TLS");
    // The server asks for a certificate.
    let none = [("CLUSTER__TLS_CERT", ""), ("CLUSTER__TLS_KEY", ""), ("CLUSTER__TLS_CA", "")];
    refused(&none, "NATS_UNREACHABLE");
    // A server without TLS receives nothing.
    refused(&[("CLUSTER__NATS", &clear.address)], "NATS_UNREACHABLE");
    let https = clear.address.replace("nats://", "tls://");
    refused(&[("CLUSTER__NATS", &https), ("CLUSTER__NATS_CA", "")], "NATS_UNREACHABLE");
    // The pages of a monitoring address are verified too.
    let (output, _) = cluster.init(&[]);
    assert!(output.status.success(), "{output:?}");
    let node = cluster.start("pr-1");
    once(&node, "all shards", |state| state["ready"] == true).await;
    let (mut client, _) = workspace(&node, "acme").await;
    let (request, code) = send(&mut client, "+15550100001").await;
    assert_eq!(verify(&mut client, &request, &code).await.0, 200);
}

#[test]
fn tls_between_nodes_needs_all_three_files() {
    let cluster = Cluster::over_with(Nats::start(), &[]);
    for (given, missing) in [
        (&["TLS_CERT", "TLS_KEY"][..], "cluster.tls_ca"),
        (&["TLS_CERT", "TLS_CA"], "cluster.tls_key"),
        (&["TLS_CA"], "cluster.tls_cert"),
    ] {
        let names: Vec<_> = given.iter().map(|name| format!("CLUSTER__{name}")).collect();
        let settings: Vec<_> = names.iter().map(|name| (name.as_str(), "/etc/x.pem")).collect();
        let (output, _) = cluster.init(&settings);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(missing), "{given:?}: {text}");
        assert!(text.contains("all three"), "{text}");
    }
    let all = ["TLS_CERT", "TLS_KEY", "TLS_CA"].map(|name| format!("CLUSTER__{name}"));
    let all: Vec<_> = all.iter().map(|name| (name.as_str(), "/etc/x.pem")).collect();
    let (output, answer) = cluster.init(&all);
    assert_eq!(answer["error"], "TLS", "{output:?}");
    assert!(answer["message"].as_str().unwrap().contains("cluster.tls_cert"), "{answer}");
    let mixed = [("CLUSTER__NATS", "nats://127.0.0.1:4222, tls://127.0.0.1:4223")];
    let (output, _) = cluster.init(&mixed);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && text.contains("each with tls://"), "{text}");
}
