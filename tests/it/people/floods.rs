//! Strangers who try passwords do not keep the people of a workspace out.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use super::{OWN, owner};
use crate::support::{Connection, TestServer};

const PASSWORD: &str = "correct horse battery staple";
const SESSION: &str = "/ui/api/session";

/// Tries passwords from an address until it has to stop.
async fn flood(server: &TestServer, from: Ipv4Addr, email: String, stop: Arc<AtomicBool>) {
    let body = json!({"email": email, "password": "not the right one"});
    let request = server.browser().request("POST", SESSION, &[OWN], Some(&body));
    let mut connection = Connection::open_from(from, server.address()).await;
    while !stop.load(Ordering::Relaxed) {
        connection.send(&request).await;
        if connection.reply().await.is_none() {
            connection = Connection::open_from(from, server.address()).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn right_passwords_are_taken_beside_floods_of_wrong_ones() {
    let server = Arc::new(TestServer::start().await);
    let owner = owner(&server).await;
    let email = "owner@localhost".to_owned();
    owner.put("/ui/api/password", json!({"new": PASSWORD})).await.ok();
    let stop = Arc::new(AtomicBool::new(false));
    let mut floods = Vec::new();
    for number in 0..24_u8 {
        // Made-up accounts from one address, and the owner's from others.
        let (from, tried) = match number {
            0..20 => (Ipv4Addr::new(127, 0, 0, 2), format!("{number}@example.com")),
            _ => (Ipv4Addr::new(127, 0, 0, number), email.clone()),
        };
        let (server, stop) = (Arc::clone(&server), Arc::clone(&stop));
        floods.push(tokio::spawn(async move { flood(&server, from, tried, stop).await }));
    }
    let body = json!({"email": email, "password": PASSWORD});
    for turn in 0..40 {
        let mut browser = server.browser();
        let reply = browser.sign_in(body.clone()).await;
        assert_eq!(reply.status, 200, "{turn}: {}", reply.text());
        let confirmed = owner.post("/ui/api/session/elevate", json!({"password": PASSWORD})).await;
        assert_eq!(confirmed.status, 200, "{turn}: {}", confirmed.text());
    }
    stop.store(true, Ordering::Relaxed);
    for flood in floods {
        flood.await.unwrap();
    }
}
