//! Under overload, requests get 503 with the time of the next try, and cost nothing.

use std::time::Duration;

use postrider_actors::clock::Stopwatch;
use serde_json::{Value, json};

use crate::messages::{text, write};
use crate::support::{Api, Connection, Reply, TestServer, eventually};

const SEND: &str = "/v1/otp/send";

/// Checks a refusal whose shape and headers `check` has already checked.
fn is_overload(refused: &Reply) {
    assert!(refused.number("retry-after") >= 1, "{refused:?}");
    let body = refused.check(503, "SERVICE_UNAVAILABLE");
    assert_eq!(body["retry_after"], refused.number("retry-after"));
    assert_eq!(body["reason"], "overloaded");
}

async fn credits(server: &TestServer) -> Value {
    server.admin().get("/admin/v1/workspaces/acme").await.ok()["credits"].clone()
}

async fn send(api: &Api, last: u32) -> Reply {
    api.post(SEND, json!({"phone": format!("+1555{last:07}")})).await
}

#[tokio::test]
async fn a_workspace_that_holds_all_it_may_takes_no_more_codes() {
    let server = TestServer::with(&[("ADMISSION__OTPS_PER_WORKSPACE_MAX", "2")]).await;
    let api = server.workspace("acme").await;
    for last in 0..2 {
        send(&api, last).await.ok();
    }
    is_overload(&send(&api, 3).await);
    assert_eq!(credits(&server).await, 99_998);
    let other = server.workspace("other").await;
    send(&other, 3).await.ok();
    // Codes that ended long ago make room.
    server.advance(2 * 3600).await;
    send(&api, 3).await.ok();
}

/// Only the lower bound of a time is checked: a slow machine cannot fail it.
#[tokio::test]
async fn who_asks_again_too_early_is_refused_later() {
    let server = TestServer::with(&[("ADMISSION__OTPS_PER_WORKSPACE_MAX", "1")]).await;
    let api = server.workspace("acme").await;
    send(&api, 0).await.ok();
    let request = |last| {
        let body = json!({"phone": format!("+1555000000{last}")}).to_string();
        api.request("POST", SEND, &[("Content-Type", "application/json")], body.as_bytes())
    };
    let mut connection = Connection::open(server.address()).await;
    let watch = Stopwatch::start();
    connection.send([request(1), request(2), request(3)].concat()).await;
    for _ in 0..3 {
        is_overload(&connection.reply().await.unwrap());
    }
    let elapsed = watch.elapsed();
    assert!(elapsed >= Duration::from_millis(100), "two of three waited: {elapsed:?}");
}

#[tokio::test]
async fn a_workspace_whose_messages_wait_takes_no_more_of_them() {
    let server = TestServer::with(&[("MESSAGES__UNSENT_PER_WORKSPACE_MAX", "2")]).await;
    let api = server.workspace("acme").await;
    let phone = "+15550123456";
    write(&api, phone).await;
    api.post("/v1/sandbox/outcomes", json!({"to": "*", "outcome": "slow"})).await.ok();
    let send = async || api.post("/v1/messaging/send", text(phone)).await;
    send().await.ok();
    send().await.ok();
    is_overload(&send().await);
    assert_eq!(credits(&server).await, 99_998);
    server.advance(6).await;
    let taken = async || (send().await.status == 200).then_some(());
    eventually("there is room again", taken).await;
}

#[tokio::test]
async fn more_at_a_time_than_may_be_are_refused_and_change_nothing() {
    let server = TestServer::with(&[("ADMISSION__IN_FLIGHT_PER_WORKSPACE", "1")]).await;
    let api = server.workspace("acme").await;
    let mut connections = Vec::new();
    for _ in 0..32 {
        connections.push(Connection::open(server.address()).await);
    }
    let (mut sent, mut refused) = (0, 0);
    // All requests usually reach the server before the first commit is over.
    for round in 0..6 {
        for (connection, last) in connections.iter_mut().zip(round * 100..) {
            let body = json!({"phone": format!("+1555{last:07}")}).to_string();
            let json = [("Content-Type", "application/json")];
            connection.send(api.request("POST", SEND, &json, body.as_bytes())).await;
        }
        for connection in &mut connections {
            let reply = connection.reply().await.unwrap();
            match reply.status {
                200 => sent += 1,
                _ => {
                    is_overload(&reply);
                    refused += 1;
                }
            }
        }
        if refused > 0 {
            break;
        }
    }
    assert!(sent > 0 && refused > 0, "{sent} sent, {refused} refused");
    assert_eq!(credits(&server).await, 100_000 - sent);
    let emitted = api.get("/v1/events?type=otp.sent&limit=200").await.ok();
    assert_eq!(emitted["data"].as_array().unwrap().len(), sent);
}
