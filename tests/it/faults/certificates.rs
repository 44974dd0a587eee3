//! A certificate is renewed by a signal to the process.

use std::path::Path;

use rustls::pki_types::CertificateDer;

use super::process::{Process, signal, wait_for};
use crate::operation::tls::{connect_to, health, write_pair};

async fn is_served(process: &Process, root: &CertificateDer<'static>) -> bool {
    match connect_to(process.address(), root, None).await {
        Ok(mut stream) => health(&mut stream).await == "200",
        Err(_) => false,
    }
}

/// Sends SIGHUP, and waits for its line in the log.
fn hang_up(process: &Process, line: &str) {
    let lines = || process.log().matches(line).count();
    let before = lines();
    signal(process.id(), "HUP");
    wait_for(line, || (lines() > before).then_some(()));
}

#[tokio::test]
async fn a_signal_renews_the_certificate_and_a_bad_pair_keeps_the_old_one() {
    let (dir, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let first = write_pair(dir.path());
    let path = |name: &str| Path::new(dir.path()).join(name).to_str().unwrap().to_owned();
    let settings = [
        ("SERVER__TLS_CERTIFICATE_FILE", path("cert.pem")),
        ("SERVER__TLS_KEY_FILE", path("key.pem")),
        ("LOG__FORMAT", "text".to_owned()),
    ];
    let settings = settings.each_ref().map(|(key, value)| (*key, value.as_str()));
    let mut process = Process::start_with(data.path(), &settings);
    let mut early = connect_to(process.address(), &first, None).await.unwrap();
    assert_eq!(health(&mut early).await, "200");

    let second = write_pair(dir.path());
    assert!(!is_served(&process, &second).await, "nobody has asked it to");
    hang_up(&process, "the certificate was read anew");
    assert!(is_served(&process, &second).await && !is_served(&process, &first).await);
    assert_eq!(health(&mut early).await, "200", "a connection from before goes on");

    std::fs::write(path("key.pem"), "no key").unwrap();
    hang_up(&process, "the certificate stays as it is");
    let log = process.log();
    let line = log.lines().find(|line| line.contains("stays as it is")).unwrap();
    assert!(line.contains("ERROR") && line.contains("key.pem"), "{line}");
    assert!(is_served(&process, &second).await && process.runs());
}
