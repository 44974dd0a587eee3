//! Nodes that do not reach NATS, each cut off in another direction, while another one does.

use std::net::SocketAddr;

use postrider_actors::clock::Stopwatch;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::nodes::{Cluster, send, verify, workspace};
use super::state::{is_spread, once, owned};
use crate::faults::{Client, Outcome, Process};

/// A way to a server on which either direction can be cut: what is sent then waits, and connections
/// stay open.
struct Way {
    address: SocketAddr,
    cut: [watch::Sender<bool>; 2],
}

impl Way {
    async fn to(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let cut: [watch::Sender<bool>; 2] = Default::default();
        let [there, back] = cut.each_ref().map(watch::Sender::subscribe);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(&server).await else { continue };
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = server.into_split();
                tokio::spawn(pass(from_client, to_server, there.clone()));
                tokio::spawn(pass(from_server, to_client, back.clone()));
            }
        });
        Self { address, cut }
    }

    fn url(&self) -> String {
        format!("nats://{}", self.address)
    }

    fn set(&self, direction: usize, is_cut: bool) {
        self.cut[direction].send_replace(is_cut);
    }
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut is_cut: watch::Receiver<bool>) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        if is_cut.wait_for(|is_cut| !is_cut).await.is_err() {
            break;
        }
        if to.write_all(&buffer[..count]).await.is_err() {
            break;
        }
    }
}

/// What a node says of a code whose use another node has told; it must never say that it is open.
async fn is_not_accepted(node: &Process, key: &str, request: &str, code: &str) -> Option<u16> {
    let mut client = Client::new(node.address(), key);
    let body = json!({"request_id": request, "otp": code});
    match client.post("/v1/otp/verify", &body).await {
        Outcome::Answered(answer) => {
            assert!([422, 503].contains(&answer.status), "accepted twice: {answer:?}");
            Some(answer.status)
        }
        Outcome::Lost | Outcome::Refused => None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_cut_off_from_nats_gives_up_in_time_whichever_way_is_cut() {
    let cluster = Cluster::made();
    let server = cluster.nats.address.strip_prefix("nats://").unwrap().to_owned();
    let ways = [Way::to(server.clone()).await, Way::to(server).await];
    let start = |name: &str, way: &Way| {
        let own = [("CLUSTER__NATS", way.url())];
        let own = own.each_ref().map(|(name, value)| (*name, value.as_str()));
        cluster.start_with(name, &cluster.directory(name), &own).unwrap()
    };
    let (first, second) = (start("pr-1", &ways[0]), start("pr-2", &ways[1]));
    let third = cluster.start("pr-3");
    once(&third, "shards for each", is_spread).await;
    let mut codes = Vec::new();
    for id in ["acme", "globex", "initech", "umbrella"] {
        let (mut client, key) = workspace(&third, id).await;
        let code = send(&mut client, "+15550100001").await;
        codes.push((key, code, send(&mut client, "+15550100002").await));
    }
    // One cannot tell NATS anything, and the other hears nothing.
    ways[0].set(0, true);
    ways[1].set(1, true);
    let clock = Stopwatch::start();
    let alone = |it: &Value| it["ready"] == true && owned(it, "pr-3") == 4;
    once(&third, "all shards of the node that reaches NATS", alone).await;
    println!("taken over {:?} after the cut", clock.elapsed());
    for (key, (request, code), _) in &codes {
        let mut client = Client::new(third.address(), key);
        assert_eq!(verify(&mut client, request, code).await.0, 200);
        for node in [&first, &second] {
            is_not_accepted(node, key, request, code).await;
        }
    }
    ways[0].set(0, false);
    ways[1].set(1, false);
    once(&third, "shards for each again", is_spread).await;
    for (key, (request, code), (other, other_code)) in &codes {
        for node in [&first, &second] {
            is_not_accepted(node, key, request, code).await;
        }
        let mut client = Client::new(first.address(), key);
        assert_eq!(verify(&mut client, other, other_code).await.0, 200, "nothing was lost");
    }
}
