//! The audit log records each read of everything, and the phones that a change affects.

use serde_json::json;

use super::audit::records;
use crate::support::{TestServer, eventually};

#[tokio::test]
async fn reading_everything_is_recorded() {
    let server = TestServer::start().await;
    let (admin, demo) = (server.admin(), server.demo());
    demo.get("/v1/contacts/export").await.ok();
    for path in [
        "archive",
        "archive",
        "archive/log",
        "archive/log?after=0",
        "archive/files",
        "archive/log?after=1",
        "archive/log?after=2",
    ] {
        // Reads come one at a time, and the one before may hold its place for a moment longer.
        eventually("it is read", async || {
            let reply = admin.get(&format!("/admin/v1/{path}")).await;
            (reply.status == 200).then_some(())
        })
        .await;
    }
    for _ in 0..2 {
        let accept = [("Accept", "application/x-ndjson")];
        demo.call("GET", "/v1/events", &accept, &[]).await.ok();
    }
    assert_eq!(records(&admin, "action=events.export").await.len(), 1);
    let exports = records(&admin, "action=contacts.export").await;
    assert_eq!(exports.len(), 1, "{exports:?}");
    assert_eq!(
        (&exports[0]["workspace"], &exports[0]["actor"]["kind"]),
        (&json!("demo"), &json!("key"))
    );
    let parts = async || {
        let read = records(&admin, "action=archive.read").await;
        read.iter().map(|it| it["changes"]["part"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(parts().await, ["archive", "archive", "whole_log", "whole_log", "files", "log"]);
    server.advance(3600).await;
    admin.get("/admin/v1/archive/log?after=1").await.ok();
    assert_eq!(parts().await.len(), 7, "once an hour");
    let path = "/admin/v1/workspaces/demo/test-phones";
    for phones in [json!({"+15550100001": "123456"}), json!({"+15550100002": "654321"})] {
        admin.put(path, json!({ "phones": phones })).await.ok();
    }
    let set = records(&admin, "action=test_phones.set").await;
    let phones = json!({"from": ["+15550100001"], "to": ["+15550100002"]});
    assert_eq!(set[1]["changes"], json!({"codes": "changed", "phones": phones}));
}
