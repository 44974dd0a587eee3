//! A workspace's webhooks, administered over HTTP and on the command line.

use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Sink, TestServer};
use crate::webhooks::{events, server, verify};

const ROOT: &str = "/admin/v1/workspaces";

#[tokio::test]
async fn an_administrator_sees_to_a_workspaces_webhooks() {
    let server = server().await;
    let (api, admin, sink) = (server.workspace("acme").await, server.admin(), Sink::start());
    let all = format!("{ROOT}/acme/webhooks");
    let body = json!({"url": sink.url("/"), "events": ["otp.sent"], "description": "ours"});
    let made = admin.post(&all, body).await;
    assert_eq!(made.status, 201);
    let made = made.json();
    let (id, secret) = (made["id"].as_str().unwrap(), made["secret"].as_str().unwrap());
    let one = format!("{all}/{id}");
    // It is the webhook that the workspace has.
    assert_eq!(api.get(&format!("/v1/webhooks/{id}")).await.ok(), admin.get(&one).await.ok());
    assert_eq!(admin.get(&all).await.ok()["total"], 1);
    events(&api, 1).await;
    verify(secret, &sink.wait("/", 1).await[0]);
    let disabled = admin.send_json("PATCH", &one, &json!({"enabled": false})).await.ok();
    assert_eq!(disabled["disabled_reason"], "administrator");
    let own = format!("/v1/webhooks/{id}");
    assert_eq!(api.get(&own).await.ok()["disabled_reason"], "administrator");
    let enabled = api.send_json("PATCH", &own, &json!({"enabled": true})).await.ok();
    assert!(enabled["disabled_reason"].is_null());
    let disabled = api.send_json("PATCH", &own, &json!({"enabled": false})).await.ok();
    assert!(disabled["disabled_reason"].is_null(), "it was its owner");
    let rotated = admin.post(&format!("{one}/rotate-secret"), json!({})).await.ok();
    assert_ne!(rotated["secret"], secret);

    admin.post(&all, json!({"url": "ftp://example.com"})).await.check_field("url");
    admin.send_json("PATCH", &one, &json!({"events": ["no"]})).await.check_field("events");
    for path in [format!("{ROOT}/none/webhooks"), format!("{ROOT}/none/webhooks/{id}")] {
        admin.get(&path).await.check(404, "NOT_FOUND");
    }
    server.workspace("other").await;
    admin.get(&format!("{ROOT}/other/webhooks/{id}")).await.check(404, "NOT_FOUND");
    api.get(&all).await.check(401, "UNAUTHORIZED");
    assert_eq!(admin.delete(&one).await.status, 204);
    admin.delete(&one).await.check(404, "NOT_FOUND");
}

/// Runs a command, which must succeed, and returns its output.
fn run(server: &TestServer, args: &[&str]) -> String {
    let admin = server.admin();
    let mut command = Command::new(env!("CARGO_BIN_EXE_postrider"));
    command.arg("webhooks").args(args).args(["--workspace", "acme"]);
    command.args(["--server", &format!("http://{}", server.address()), "--token", admin.token()]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn the_command_line_sees_to_webhooks() {
    let server = server().await;
    let api = server.workspace("acme").await;
    let url = "https://example.com/hooks";
    let added =
        run(&server, &["create", url, "--event", "otp.sent,otp.failed", "--ordered", "--json"]);
    let added: Value = serde_json::from_str(&added).unwrap();
    let id = added["id"].as_str().unwrap();
    assert!(added["secret"].as_str().unwrap().starts_with("whsec_"));
    assert_eq!((&added["ordered"], &added["batch"]), (&json!(true), &json!(false)));
    assert_eq!(added["events"], json!(["otp.failed", "otp.sent"]));
    let enabled = async || api.get(&format!("/v1/webhooks/{id}")).await.ok()["enabled"].clone();
    assert!(run(&server, &["disable", id]).contains("administrator"));
    assert_eq!(enabled().await, false);
    run(&server, &["enable", id]);
    assert_eq!(enabled().await, true);
    assert!(run(&server, &["list"]).contains(url));
    let rotated = run(&server, &["rotate", id]);
    assert!(rotated.contains("whsec_") && !rotated.contains(added["secret"].as_str().unwrap()));
    assert!(run(&server, &["delete", id]).contains("deleted"));
    assert_eq!(api.get("/v1/webhooks").await.ok()["total"], 0);
}
