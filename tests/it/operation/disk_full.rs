//! A disk that fills up: first nothing more is created, then nothing is written.

use serde_json::{Value, json};

use crate::support::{Reply, TestServer, eventually};

fn full(reply: &Reply) {
    let body = reply.check(503, "SERVICE_UNAVAILABLE");
    assert_eq!(body["reason"], "disk_full");
}

/// Returns the free bytes of the disk with the server's data.
fn free(server: &TestServer) -> u64 {
    let found = rustix::fs::statvfs(server.data_dir().as_path()).unwrap();
    found.f_bavail * found.f_frsize
}

async fn warnings(server: &TestServer) -> Value {
    server.stranger().get("/readyz").await.ok()["warnings"].clone()
}

#[tokio::test]
async fn below_the_first_mark_nothing_is_made_and_below_the_second_nothing_is_written() {
    let mut server = TestServer::start().await;
    let (demo, admin) = (server.demo(), server.admin());
    let sent = demo.post("/v1/otp/send", json!({"phone": "+15550000001"})).await.ok();
    let verify = json!({"request_id": sent["request_id"], "otp": "x"});
    assert_eq!(warnings(&server).await, Value::Null);
    // The mark is above the free bytes, and half of it is below, whatever else the machine does.
    let mark = free(&server) / 2 * 3;
    server.set("STORAGE__FREE_BYTES_MIN", &mark.to_string());
    server.restart().await;
    full(&demo.post("/v1/otp/send", json!({"phone": "+15550000002"})).await);
    full(&demo.post("/v1/contacts", json!({"name": "Ann"})).await);
    let text = json!({"to": "+15550000001", "type": "text", "text": "x"});
    full(&demo.post("/v1/messaging/send", text).await);
    full(&admin.post("/admin/v1/workspaces", json!({"id": "acme", "name": "Acme"})).await);
    assert_eq!(demo.post("/v1/otp/verify", &verify).await.ok()["attempts_remaining"], 4);
    demo.post("/v1/sandbox/inbound", json!({"from": "+15550000001", "text": "hi"})).await.ok();
    demo.get("/v1/contacts").await.ok();
    let warned = warnings(&server).await;
    assert!(warned[0].as_str().unwrap().starts_with("disk: "), "{warned}");
    eventually("the figure", || async {
        let text = server.stranger().get("/metrics").await.text();
        let line = text.lines().find_map(|it| it.strip_prefix("postrider_storage_free_bytes "));
        line.and_then(|free| free.parse::<f64>().ok()).filter(|free| *free > 0.0)
    })
    .await;
    server.set("STORAGE__FREE_BYTES_MIN", &(mark * 4).to_string());
    server.restart().await;
    full(&demo.post("/v1/otp/verify", &verify).await);
    full(&demo.post("/v1/sandbox/inbound", json!({"from": "+15550000001", "text": "hi"})).await);
    demo.get("/v1/contacts").await.ok();
    server.set("STORAGE__FREE_BYTES_MIN", "0");
    server.restart().await;
    assert_eq!(demo.post("/v1/otp/verify", &verify).await.ok()["attempts_remaining"], 3);
    demo.post("/v1/otp/send", json!({"phone": "+15550000002"})).await.ok();
}
