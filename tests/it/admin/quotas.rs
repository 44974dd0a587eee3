//! Quotas of a workspace: the bytes and broadcasts that it may keep.

use serde_json::{Value, json};

use crate::support::{Api, Reply, TestServer, eventually};

const ROOT: &str = "/admin/v1/workspaces";
const BROADCASTS: &str = "/v1/messaging/broadcasts";
const LATER: &str = "2100-01-01T00:00:00.000Z";

async fn usage(server: &TestServer, id: &str) -> (u64, u64) {
    let found = server.admin().get(&format!("{ROOT}/{id}")).await.ok();
    let number = |name: &str| found["usage"][name].as_u64().unwrap();
    (number("bytes"), number("broadcasts"))
}

async fn set(server: &TestServer, limits: Value) {
    let set = server.admin().put(&format!("{ROOT}/demo/limits"), &limits).await.ok();
    for (name, value) in limits.as_object().unwrap() {
        assert_eq!(&set[name], value);
    }
}

fn sale(count: u32) -> Value {
    let recipients: Vec<_> = (0..count).map(|number| format!("+1555{number:07}")).collect();
    json!({"name": "Sale", "template_name": "spring_sale", "recipients": recipients,
           "schedule_at": LATER})
}

async fn keyed(api: &Api, path: &str, key: &str, body: &Value) -> Reply {
    let headers = [("Content-Type", "application/json"), ("Idempotency-Key", key)];
    api.call("POST", path, &headers, body.to_string().as_bytes()).await
}

/// Checks that the request is refused for this quota, and that the refusal contains the maximum.
fn refused(reply: &Reply, quota: &str, allowed: u64) {
    let body = reply.check(422, "UNPROCESSABLE");
    assert_eq!(body["reason"], quota);
    let message = body["message"].as_str().unwrap();
    assert!(message.contains(&format!(" {allowed}")), "{message}");
}

#[tokio::test]
async fn over_its_bytes_a_workspace_makes_nothing_more_and_all_else_goes_on() {
    let server = TestServer::start().await;
    let demo = server.demo();
    let contact = json!({"name": "Ann", "phone": "+15550000001", "tags": ["a", "b"]});
    let made = keyed(&demo, "/v1/contacts", "first", &contact).await.ok();
    let path = format!("/v1/contacts/{}", made["id"].as_str().unwrap());
    let sent = demo.post("/v1/otp/send", json!({"phone": "+15550000001"})).await.ok();
    let (allowed, _) = usage(&server, "demo").await;
    assert!(allowed > 500, "{allowed}");
    set(&server, json!({"bytes_max": allowed})).await;
    let template = json!({"name": "t", "language": "en", "category": "utility",
                          "components": [{"type": "BODY", "text": "x"}]});
    let text = json!({"to": "+15550000001", "type": "text", "text": "x"});
    for (path, body) in [
        ("/v1/contacts", json!({"name": "Bob", "phone": "+15550000002"})),
        ("/v1/contacts/batch", json!({"contacts": [{"name": "Cy", "phone": "+15550000003"}]})),
        ("/v1/segments", json!({"name": "s", "filter": {"tags_any": ["a"]}})),
        ("/v1/messaging/send", text),
        ("/v1/webhooks", json!({"url": "http://127.0.0.1:9/hook"})),
        (BROADCASTS, sale(10)),
    ] {
        refused(&demo.post(path, body).await, "quota_bytes", allowed);
    }
    let templates = format!("{ROOT}/demo/templates");
    refused(&server.admin().post(&templates, template).await, "quota_bytes", allowed);
    let longer = json!({"name": "Ann", "custom_fields": {"note": "x".repeat(200)}});
    refused(&demo.send_json("PATCH", &path, &longer).await, "quota_bytes", allowed);
    // Reads, callbacks, opt-outs, codes and changes that use fewer bytes continue.
    let shorter = json!({"name": "A", "tags": []});
    demo.send_json("PATCH", &path, &shorter).await.ok();
    assert_eq!(demo.get("/v1/contacts").await.ok()["total"], 1);
    demo.post("/v1/suppressions", json!({"phone": "+15550000009"})).await.ok();
    demo.post("/v1/sandbox/inbound", json!({"from": "+15550000001", "text": "hi"})).await.ok();
    let code = server.code(&demo, "+15550000001").await;
    let verify = json!({"request_id": sent["request_id"], "otp": code});
    assert_eq!(demo.post("/v1/otp/verify", verify).await.ok()["verified"], true);
    demo.post("/v1/otp/send", json!({"phone": "+15550000001"})).await.ok();
    let again = keyed(&demo, "/v1/contacts", "first", &contact).await;
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(demo.delete(&path).await.status, 204);
    set(&server, json!({"bytes_max": 0})).await;
    demo.post("/v1/contacts", contact).await.ok();
}

#[tokio::test]
async fn used_bytes_follow_what_is_written_and_deleted_and_outlive_restarts() {
    let mut server = TestServer::start().await;
    let demo = server.demo();
    let (before, _) = usage(&server, "demo").await;
    let contacts: Vec<_> = (0..200)
        .map(|number| {
            json!({"name": format!("n{number}"), "phone": format!("+1555{number:07}"),
                             "custom_fields": {"note": "x".repeat(500)}})
        })
        .collect();
    demo.post("/v1/contacts/batch", json!({"contacts": contacts})).await.ok();
    let (full, _) = usage(&server, "demo").await;
    // Each contact is written twice: as a contact, and in the event that reports it.
    assert!((200_000..600_000).contains(&(full - before)), "{before} {full}");
    server.crash().await;
    assert_eq!(usage(&server, "demo").await.0, full);
    let ids = demo.get("/v1/contacts?limit=200").await.ok();
    for contact in ids["data"].as_array().unwrap() {
        let path = format!("/v1/contacts/{}", contact["id"].as_str().unwrap());
        assert_eq!(demo.delete(&path).await.status, 204);
    }
    // Each contact that was created and deleted has an event, until the event ends by age.
    server.advance(31 * 24 * 3600).await;
    let less = eventually("the end of the events", || async {
        server.advance(61).await;
        let (bytes, _) = usage(&server, "demo").await;
        (bytes < before + 10_000).then_some(bytes)
    })
    .await;
    server.restart().await;
    assert!(usage(&server, "demo").await.0.abs_diff(less) < 1000);
}

#[tokio::test]
async fn a_workspace_keeps_so_many_broadcasts_and_no_more() {
    let server = TestServer::start().await;
    let demo = server.demo();
    set(&server, json!({"broadcasts_kept_max": 2})).await;
    let first = keyed(&demo, BROADCASTS, "first", &sale(3)).await.ok();
    demo.post(BROADCASTS, sale(3)).await.ok();
    assert_eq!(usage(&server, "demo").await.1, 2);
    refused(&demo.post(BROADCASTS, sale(3)).await, "quota_broadcasts", 2);
    let again = keyed(&demo, BROADCASTS, "first", &sale(3)).await;
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(again.ok()["broadcast_id"], first["broadcast_id"]);
    // A cancelled broadcast is kept, too.
    let id = first["broadcast_id"].as_str().unwrap();
    demo.call("POST", &format!("{BROADCASTS}/{id}/cancel"), &[], b"").await.ok();
    refused(&demo.post(BROADCASTS, sale(3)).await, "quota_broadcasts", 2);
    // Codes continue, and without a maximum broadcasts do too.
    demo.post("/v1/otp/send", json!({"phone": "+15550000001"})).await.ok();
    set(&server, json!({"broadcasts_kept_max": 0})).await;
    demo.post(BROADCASTS, sale(3)).await.ok();
}

#[tokio::test]
async fn a_broadcast_that_is_cancelled_unsent_keeps_its_counts_and_not_its_recipients() {
    let server = TestServer::start().await;
    let demo = server.demo();
    demo.post("/v1/suppressions", json!({"phone": "+15550000007"})).await.ok();
    let (before, _) = usage(&server, "demo").await;
    let made = demo.post(BROADCASTS, sale(20_000)).await.ok();
    let path = format!("{BROADCASTS}/{}", made["broadcast_id"].as_str().unwrap());
    let (with, _) = usage(&server, "demo").await;
    assert!(with > before + 160_000, "{before} {with}");
    let listed = demo.get(&format!("{path}/recipients")).await.ok();
    assert_eq!(listed["total"], 20_000);
    demo.call("POST", &format!("{path}/cancel"), &[], b"").await.ok();
    let listed = demo.get(&format!("{path}/recipients")).await.ok();
    assert_eq!((&listed["total"], &listed["data"]), (&json!(0), &json!([])));
    eventually("the end of the recipients", || async {
        server.advance(1).await;
        (usage(&server, "demo").await.0 < before + 10_000).then_some(())
    })
    .await;
    let found = demo.get(&path).await.ok();
    assert_eq!(
        (&found["status"], &found["total_recipients"]),
        (&json!("cancelled"), &json!(20_000))
    );
    let counts = &found["counts"];
    assert_eq!((&counts["cancelled"], &counts["suppressed"]), (&json!(19_999), &json!(1)));
    demo.call("POST", &format!("{path}/retry"), &[], b"").await.check(409, "CONFLICT");
}
