//! The newest requests of a workspace, for its permitted readers.

use serde_json::{Value, json};

use super::{member, owner};
use crate::support::TestServer;

fn rows(answer: &Value) -> Vec<&Value> {
    answer["data"].as_array().unwrap().iter().collect()
}

#[tokio::test]
async fn developers_see_what_was_asked_and_what_came_of_it() {
    let server = TestServer::start().await;
    let acme = server.workspace("acme").await;
    let sent = acme.post("/v1/otp/send", json!({"phone": "+15550123456"})).await;
    let id = sent.header("x-request-id").unwrap().to_owned();
    sent.ok();
    acme.get("/v1/otp/otp_01jd3v0x5n8m7k2q4r6s8t0w2y").await.check(404, "NOT_FOUND");
    acme.get("/v1/%2B15550123456").await.check(404, "NOT_FOUND");
    let (key_id, narrow) = server.key("acme", &["contacts:read"], json!({})).await;
    narrow.get("/v1/events").await.check(403, "FORBIDDEN");
    server.stranger().get("/v1/contacts").await.check(401, "UNAUTHORIZED");
    server.demo().get("/v1/contacts").await.ok();
    let developer = member(&server, "acme", "developer").await;
    let listed = developer.get("/v1/requests").await.ok();
    let found: Vec<_> = rows(&listed)
        .iter()
        .map(|row| format!("{} {} {}", row["method"], row["route"], row["status"]))
        .collect();
    let expected = [
        r#""GET" "/v1/events" 403"#,
        r#""any" "(none)" 404"#,
        r#""GET" "/v1/otp/{request_id}" 404"#,
        r#""POST" "/v1/otp/send" 200"#,
    ];
    assert_eq!(found, expected, "neither what has no key nor another workspace is in it");
    let [refused, .., first] = rows(&listed)[..] else { panic!("{listed}") };
    assert_eq!(refused["principal"]["id"], key_id);
    assert_eq!(refused["principal"]["kind"], "key");
    assert!(!refused["principal"]["name"].as_str().unwrap().is_empty());
    assert_eq!((&refused["code"], &refused["reason"]), (&json!("FORBIDDEN"), &Value::Null));
    assert_eq!((&first["code"], &first["reason"]), (&Value::Null, &Value::Null));
    assert_eq!(first["request_id"], id);
    assert!(first["ms"].as_f64().unwrap() > 0.0 && first["at"].is_string(), "{first}");
    assert!(!listed.to_string().contains("5550123"), "a phone is in it: {listed}");
    // The list contains people's own requests too, even refused ones.
    let agent = member(&server, "acme", "agent").await;
    agent.get("/v1/requests").await.check(403, "FORBIDDEN");
    let listed = developer.get("/v1/requests?limit=1").await.ok();
    let row = &listed["data"][0];
    assert_eq!((&row["route"], &row["status"]), (&json!("/v1/requests"), &json!(403)));
    assert_eq!(row["principal"]["kind"], "user");
    assert_eq!(row["principal"]["name"], "agent@acme.example.com");
    // The id of a refusal leads to its reason.
    let destinations = "/admin/v1/workspaces/acme/destinations";
    server.admin().put(destinations, json!({"deny": ["49"]})).await.ok();
    let blocked = acme.post("/v1/otp/send", json!({"phone": "+4915112345678"})).await;
    let id = blocked.check(422, "UNPROCESSABLE")["request_id"].clone();
    let listed = developer.get("/v1/requests?status=422").await.ok();
    let row = &listed["data"][0];
    let shown = [&row["request_id"], &row["code"], &row["reason"]];
    assert_eq!(shown, [&id, &json!("UNPROCESSABLE"), &json!("destination_blocked")]);
    // No key may read it.
    acme.get("/v1/requests").await.check(403, "FORBIDDEN");
}

#[tokio::test]
async fn the_list_goes_on_by_its_cursor_and_has_one_status() {
    let server = TestServer::start().await;
    let acme = server.workspace("acme").await;
    for number in 0..7 {
        acme.get(&format!("/v1/contacts?page={number}")).await;
    }
    let admin = member(&server, "acme", "admin").await;
    let mut ids = Vec::new();
    let mut next = String::new();
    loop {
        let part = admin.get(&format!("/v1/requests?status=200&limit=4{next}")).await.ok();
        for row in rows(&part) {
            assert_eq!(row["status"], 200);
            if row["route"] == "/v1/contacts" {
                ids.push(row["request_id"].as_str().unwrap().to_owned());
            }
        }
        let Some(cursor) = part["next_cursor"].as_str() else { break };
        next = format!("&cursor={cursor}");
    }
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 6, "each once, though more came in between");
    let bad = admin.get("/v1/requests?status=400").await.ok();
    assert_eq!(rows(&bad).len(), 1, "page 0");
    for (query, field) in [("status=9", "status"), ("status=x", "status"), ("cursor=x", "cursor")] {
        admin.get(&format!("/v1/requests?{query}")).await.check_field(field);
    }
    // Another workspace of the same id starts without them.
    let confirm = json!({"name": "acme"});
    server.admin().send_json("DELETE", "/admin/v1/workspaces/acme", &confirm).await.ok();
    let owner = owner(&server).await.with("Postrider-Workspace", "acme");
    crate::support::eventually("the old workspace is gone", || async {
        let new = json!({"id": "acme", "name": "acme"});
        let made = server.admin().post("/admin/v1/workspaces", new).await;
        (made.status == 201).then_some(())
    })
    .await;
    assert_eq!(rows(&owner.get("/v1/requests").await.ok()).len(), 0);
}
