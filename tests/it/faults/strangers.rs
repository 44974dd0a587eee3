//! Strangers who take memory and descriptors: the others are served, and the store never fails.

use std::net::{Ipv4Addr, SocketAddr};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

use super::client::{Client, Outcome};
use super::process::{Process, wait_for};
use crate::fake::sign;

const APP_SECRET: &str = "app-secret-of-the-number";
/// The settings' `bodies_bytes_max`, and the memory of everything else.
const BOUND: u64 = (256 + 64) << 20;
const CALLBACK: usize = 3 << 20;
const BROADCAST: usize = 32 << 20;

/// Sends a request that lacks its last byte.
async fn half_send(server: SocketAddr, head: String, length: usize) -> Option<TcpStream> {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::new(127, 0, 0, 2), 0).into()).unwrap();
    let mut stream = socket.connect(server).await.ok()?;
    let head = format!("{head}Host: x\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.ok()?;
    let part = vec![b' '; 64 << 10];
    let mut left = length - 1;
    while left > 0 {
        let now = left.min(part.len());
        // The server may have refused it and closed.
        if stream.write_all(&part[..now]).await.is_err() {
            break;
        }
        left -= now;
    }
    Some(stream)
}

/// Returns the resident memory of a process, in bytes.
fn memory(process: &Process) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

async fn post(client: &mut Client, path: &str, body: Value) -> Value {
    match client.post(path, &body).await {
        Outcome::Answered(answer) if answer.status < 300 => answer.body,
        other => panic!("{path}: {other:?}"),
    }
}

/// Connects a number of a provider that does not exist; returns the path of its callbacks.
async fn callback_path(process: &Process) -> String {
    let number = json!({
        "kind": "cloud_api", "phone": "+15550001111", "phone_number_id": "106",
        "account_id": "107", "token": "token", "app_secret": APP_SECRET, "verify_token": "verify",
    });
    let mut admin = process.admin();
    post(&mut admin, "/admin/v1/workspaces", json!({"id": "acme", "name": "Acme"})).await;
    let made = post(&mut admin, "/admin/v1/workspaces/acme/numbers", number).await;
    made["callback_path"].as_str().unwrap().to_owned()
}

/// Posts a signed callback of this size; returns the status.
async fn signed_callback(server: SocketAddr, path: &str, size: usize) -> String {
    let body = json!({"entry": [], "filler": "x".repeat(size)}).to_string();
    let signature = sign(APP_SECRET, body.as_bytes());
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\
         X-Hub-Signature-256: {signature}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(server).await.unwrap();
    stream.write_all(&[head.as_bytes(), body.as_bytes()].concat()).await.unwrap();
    let mut status = [0; 12];
    stream.read_exact(&mut status).await.unwrap();
    String::from_utf8_lossy(&status[9..]).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_that_never_end_take_no_more_than_their_budget() {
    let dir = tempfile::tempdir().unwrap();
    let nowhere = ("CLOUD_API__BASE_URL", "http://127.0.0.1:9");
    let process = Process::start_with(dir.path(), &[nowhere]);
    let path = callback_path(&process).await;
    let mut demo = process.demo();
    let key = std::fs::read_to_string(dir.path().join("demo.key")).unwrap();
    let phone = json!({"phone": "+15550123456"});
    post(&mut demo, "/v1/otp/send", phone.clone()).await;
    let most = memory(&process) + BOUND;

    let signature = format!("X-Hub-Signature-256: sha256={}\r\n", "0".repeat(64));
    let unknown = "POST /channels/cloud-api/num_01jd3v0x5n8m7k2q4r6s8t0w2y HTTP/1.1\r\n";
    let known = format!("POST {path} HTTP/1.1\r\n");
    let broadcast = format!(
        "POST /v1/messaging/broadcasts HTTP/1.1\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\n",
        key.trim()
    );
    let mut sending = JoinSet::new();
    for _ in 0..80 {
        sending.spawn(half_send(process.address(), format!("{unknown}{signature}"), CALLBACK));
        sending.spawn(half_send(process.address(), format!("{known}{signature}"), CALLBACK));
    }
    for _ in 0..8 {
        sending.spawn(half_send(process.address(), broadcast.clone(), BROADCAST));
    }
    let mut open = Vec::new();
    while let Some(sent) = sending.join_next().await {
        open.extend(sent.unwrap());
        let now = memory(&process);
        assert!(now <= most, "{now} bytes are more than {most}");
    }
    // Other clients are served meanwhile. A connection that was idle for long may have been closed.
    demo.close();
    assert_eq!(signed_callback(process.address(), &path, 1 << 20).await, "200");
    post(&mut demo, "/v1/otp/send", phone).await;
    let now = memory(&process);
    assert!(now <= most, "{now} bytes are more than {most}");
}

/// Returns the number of descriptors that a process has open.
fn descriptors(process: &Process) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", process.id())).unwrap().count()
}

/// Returns the soft and the hard limit on descriptors.
fn limits(process: &Process) -> Vec<String> {
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", process.id())).unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    line.split_whitespace().take(2).map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_leave_the_store_its_descriptors() {
    let dir = tempfile::tempdir().unwrap();
    let process = Process::start_within(dir.path(), "-n 1024");
    let mut demo = process.demo();
    post(&mut demo, "/v1/otp/send", json!({"phone": "+15550123456"})).await;
    let key = std::fs::read_to_string(dir.path().join("demo.key")).unwrap();
    let head = format!(
        "POST /v1/otp/send HTTP/1.1\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\n",
        key.trim()
    );
    let mut sending = JoinSet::new();
    for _ in 0..1500 {
        sending.spawn(half_send(process.address(), head.clone(), 100));
    }
    // Some may have waited for so long that the server has closed the first ones again.
    let (mut open, mut most) = (Vec::new(), 0);
    while let Some(sent) = sending.join_next().await {
        open.extend(sent.unwrap());
        most = most.max(descriptors(&process));
    }
    wait_for("so many connections", || (most.max(descriptors(&process)) > 200).then_some(()));
    assert!(most <= 1024 - 128, "{most} of 1024 descriptors are taken");
    for last in 0..20 {
        let phone = format!("+1555012{last:04}");
        demo.close();
        post(&mut demo, "/v1/otp/send", json!({"phone": phone})).await;
        let taken = descriptors(&process);
        assert!(taken <= 1024 - 128, "{taken} of 1024 descriptors are taken");
    }
    let log = process.log();
    assert!(log.contains("max_connections"), "it says that it allows fewer: {log}");
    assert!(log.matches("cannot accept").count() <= 1, "{log}");
    assert!(!log.contains("Too many open files") && !log.contains("storage failed"), "{log}");
}

#[test]
fn the_soft_limit_on_descriptors_is_raised() {
    let dir = tempfile::tempdir().unwrap();
    let process = Process::start_within(dir.path(), "-S -n 512");
    let [soft, hard] = &limits(&process)[..] else { panic!("two limits") };
    assert_eq!(soft, hard);
    assert_ne!(soft, "512");
}
