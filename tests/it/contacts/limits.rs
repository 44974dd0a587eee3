//! Limits on the creation of contacts.

use serde_json::{Value, json};

use crate::contacts::{CONTACTS, make};
use crate::support::{Api, TestServer};

async fn limit(server: &TestServer, workspace: &str, limit: u32) {
    let path = format!("/admin/v1/workspaces/{workspace}/limits");
    server.admin().put(&path, json!({"contacts_per_minute": limit})).await.ok();
}

async fn refused(api: &Api) -> u64 {
    let refused = api.post(CONTACTS, json!({"name": "one too many"})).await;
    refused.check(429, "RATE_LIMITED");
    refused.number("retry-after")
}

#[tokio::test]
async fn five_hundred_a_minute_by_default() {
    let server = TestServer::start().await;
    server.workspace("acme").await;
    let info = server.admin().get("/admin/v1/workspaces/acme").await.ok();
    assert_eq!(info["limits"]["contacts_per_minute"], 500);
}

#[tokio::test]
async fn the_limit_is_the_workspaces_and_fills_again() {
    let server = TestServer::start().await;
    let (api, other) = (server.workspace("acme").await, server.workspace("other").await);
    let (_, second_key) = server.key("acme", &["contacts:write"], json!({})).await;
    limit(&server, "acme", 3).await;
    let first = make(&api, json!({"name": "a", "phone": "+15550123456"})).await;
    let taken = api.post(CONTACTS, json!({"name": "a", "phone": "+15550123456"})).await;
    taken.check(409, "CONFLICT");
    api.post(CONTACTS, json!({"name": ""})).await.check_field("name");
    make(&second_key, json!({"name": "b"})).await;
    make(&api, json!({"name": "c"})).await;
    assert!((15..=20).contains(&refused(&api).await), "a third of a minute for one of three");
    refused(&second_key).await;
    make(&other, json!({"name": "d"})).await;
    // Only new contacts count.
    let path = crate::contacts::path(&first);
    api.send_json("PATCH", &path, &json!({"name": "e"})).await.ok();
    api.delete(&path).await.ok();
    server.advance(21).await;
    make(&api, json!({"name": "f"})).await;
    refused(&api).await;
    limit(&server, "acme", 0).await;
    for _ in 0..5 {
        make(&api, json!({"name": "g"})).await;
    }
}

#[tokio::test]
async fn a_restart_does_not_refill_it() {
    let mut server = TestServer::start().await;
    let api = server.workspace("acme").await;
    limit(&server, "acme", 2).await;
    for _ in 0..2 {
        make(&api, json!({"name": "a"})).await;
    }
    refused(&api).await;
    server.restart().await;
    refused(&api).await;
    server.advance(60).await;
    make(&api, json!({"name": "b"})).await;
}

#[tokio::test]
async fn a_batch_counts_once() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    limit(&server, "acme", 2).await;
    let contacts: Vec<Value> = (0..200).map(|n| json!({"name": format!("n{n}")})).collect();
    let batch = json!({ "contacts": contacts });
    for total in [200, 400] {
        api.post("/v1/contacts/batch", &batch).await.ok();
        assert_eq!(api.get(CONTACTS).await.ok()["total"], total);
    }
    api.post("/v1/contacts/batch", &batch).await.check(429, "RATE_LIMITED");
    refused(&api).await;
    assert_eq!(api.get(CONTACTS).await.ok()["total"], 400);
}
