//! A workspace as all its members see it, and the right to rename it.

use serde_json::{Value, json};

use super::member;
use crate::support::TestServer;

#[tokio::test]
async fn everybody_reads_what_is_used_of_the_limits() {
    let server = TestServer::start().await;
    let acme = server.workspace("acme").await;
    let fresh = acme.get("/v1/workspace").await.ok();
    assert_eq!((&fresh["id"], &fresh["name"]), (&json!("acme"), &json!("acme")));
    let unused = json!({"otp_hour": 0, "otp_hour_resets_at": null, "contacts_minute": 0});
    assert_eq!(fresh["usage"], unused);
    assert_eq!(fresh["limits"]["otp_per_workspace_hour"], 1000);
    assert_eq!(fresh["otp_template"], json!({"name": "otp_code", "language": "en"}));
    assert_eq!((&fresh["require_totp"], &fresh["numbers"]), (&json!(false), &json!(1)));
    // With this limit, the use of a contact lasts for half a minute.
    let limits = json!({"contacts_per_minute": 2});
    server.admin().put("/admin/v1/workspaces/acme/limits", limits).await.ok();
    acme.post("/v1/otp/send", json!({"phone": "+15550123456"})).await.ok();
    acme.post("/v1/contacts", json!({"phone": "+15550001111", "name": "Ada"})).await.ok();
    let analyst = member(&server, "acme", "analyst").await;
    let used = analyst.get("/v1/workspace").await.ok();
    assert_eq!(
        (&used["usage"]["otp_hour"], &used["usage"]["contacts_minute"]),
        (&json!(1), &json!(1))
    );
    assert!(used["usage"]["otp_hour_resets_at"].is_string());
    let price = used["prices"]["otp"].as_u64().unwrap();
    assert_eq!(used["credits"].as_u64(), fresh["credits"].as_u64().map(|before| before - price));
    server.advance(3601).await;
    assert_eq!(acme.get("/v1/workspace").await.ok()["usage"], unused);
}

#[tokio::test]
async fn who_may_change_settings_renames_it() {
    let server = TestServer::start().await;
    let acme = server.workspace("acme").await;
    let name = |name: &str| json!({ "name": name });
    acme.send_json("PATCH", "/v1/workspace", &name("Mine")).await.check(403, "FORBIDDEN");
    let developer = member(&server, "acme", "developer").await;
    developer.patch("/v1/workspace", name("Mine")).await.check(403, "FORBIDDEN");
    let admin = member(&server, "acme", "admin").await;
    for bad in [json!(""), json!("a\u{7}"), json!("n".repeat(101)), json!(7)] {
        let refusal = admin.patch("/v1/workspace", json!({ "name": bad })).await;
        let refusal = refusal.check(400, "VALIDATION_ERROR");
        assert!(refusal["message"].as_str().unwrap().contains("name"), "{refusal}");
    }
    let renamed: Value = admin.patch("/v1/workspace", name("Acme Ltd")).await.ok();
    assert_eq!(renamed["name"], "Acme Ltd");
    assert_eq!(admin.patch("/v1/workspace", json!({})).await.ok()["name"], "Acme Ltd");
    assert_eq!(admin.get("/v1/me").await.ok()["workspace"]["name"], "Acme Ltd");
    let audit = server.admin().get("/admin/v1/audit?action=workspace.rename").await.ok();
    let [row] = audit["data"].as_array().unwrap().as_slice() else { panic!("{audit}") };
    assert_eq!(row["actor"]["name"], "admin@acme.example.com");
    assert_eq!(row["workspace"], "acme");
}
