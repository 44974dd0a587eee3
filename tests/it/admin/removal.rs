//! Workspaces that are deleted: after their name is repeated, at once and for good.

use std::ops::ControlFlow;

use postrider_actors::store::directory::open_stopped;
use postrider_actors::store::{Direction, Table, View};
use serde_json::json;

use crate::support::{TestServer, eventually};

const ROOT: &str = "/admin/v1/workspaces";

#[tokio::test]
async fn a_deleted_workspace_is_removed_at_once_and_its_id_is_free_in_the_end() {
    let mut server = TestServer::start().await;
    let (admin, acme) = (server.admin(), server.workspace("acme").await);
    let other = server.workspace("other").await;
    acme.post("/v1/contacts", json!({"name": "Ann", "phone": "+15550000001"})).await.ok();
    other.post("/v1/contacts", json!({"name": "Ben", "phone": "+15550000001"})).await.ok();
    acme.post("/v1/webhooks", json!({"url": "http://127.0.0.1:9/hook"})).await.ok();
    acme.post("/v1/otp/send", json!({"phone": "+15550000001"})).await.ok();
    let number = json!({"kind": "cloud_api", "phone": "+15550000000", "phone_number_id": "1",
                        "account_id": "2", "token": "t", "app_secret": "s", "verify_token": "v"});
    let number = admin.post(&format!("{ROOT}/acme/numbers"), number).await.ok();
    let callback = format!(
        "{}?hub.mode=subscribe&hub.verify_token=v&hub.challenge=7",
        number["callback_path"].as_str().unwrap()
    );
    assert_eq!(server.stranger().get(&callback).await.status, 200);
    let path = format!("{ROOT}/acme");
    for (body, field) in [
        (json!({}), "confirm"),
        (json!({"confirm": "Other"}), "confirm"),
        (json!({"confirm": ""}), "confirm"),
        (json!({"name": "Other"}), "name"),
        (json!({"confirm": "acme", "name": "acme"}), "name"),
    ] {
        admin.send_json("DELETE", &path, &body).await.check_field(field);
    }
    admin.get(&path).await.ok();
    let name = json!({"confirm": "acme"});
    let nobody = format!("{ROOT}/nobody");
    admin.send_json("DELETE", &nobody, &name).await.check(404, "NOT_FOUND");
    assert_eq!(admin.send_json("DELETE", &path, &name).await.status, 202);
    acme.get("/v1/contacts").await.check(401, "UNAUTHORIZED");
    assert_eq!(server.stranger().get(&callback).await.status, 404);
    admin.get(&path).await.check(404, "NOT_FOUND");
    admin.send_json("DELETE", &path, &name).await.check(404, "NOT_FOUND");
    assert_eq!(other.get("/v1/contacts").await.ok()["total"], 1);
    let new = json!({"id": "acme", "name": "Acme"});
    let made = eventually("the id", || async {
        let made = admin.post(ROOT, &new).await;
        match made.status {
            409 => None,
            _ => Some(made.ok()),
        }
    })
    .await;
    assert_eq!((&made["counts"]["keys"], &made["counts"]["numbers"]), (&json!(0), &json!(0)));
    assert!(made["usage"]["bytes"].as_u64().unwrap() < 300, "{made}");
    server.restart().await;
    acme.get("/v1/contacts").await.check(401, "UNAUTHORIZED");
    let found = admin.get(&path).await.ok();
    assert_eq!((&found["name"], &found["credits"]), (&json!("Acme"), &json!(0)));
    let scopes = ["contacts:read", "webhooks:manage"];
    let (_, fresh) = server.key("acme", &scopes, json!({})).await;
    assert_eq!(fresh.get("/v1/contacts").await.ok()["total"], 0);
    assert_eq!(fresh.get("/v1/events").await.ok()["data"], json!([]));
    assert_eq!(other.get("/v1/contacts").await.ok()["total"], 1);
}

#[tokio::test]
async fn not_one_row_is_left_of_a_deleted_workspace() {
    let mut server = TestServer::start().await;
    for id in ["acme", "other"] {
        let api = server.workspace(id).await;
        api.post("/v1/contacts", json!({"name": "Ann", "phone": "+15550000001"})).await.ok();
        api.post("/v1/webhooks", json!({"url": "http://127.0.0.1:9/hook"})).await.ok();
    }
    let (path, name) = (format!("{ROOT}/acme"), json!({"name": "acme"}));
    assert_eq!(server.admin().send_json("DELETE", &path, &name).await.status, 204);
    let removed = async || server.log().contains("a deleted workspace is removed").then_some(());
    eventually("the last row is gone", removed).await;
    server.stop();
    assert_eq!(rows_of(&server, "acme"), [""; 0]);
    assert!(rows_of(&server, "other").contains(&"contacts".to_owned()));
}

/// Returns the tables in which a workspace has rows.
fn rows_of(server: &TestServer, id: &str) -> Vec<String> {
    let store = open_stopped(&server.data_dir()).unwrap();
    let prefix = format!("{id}\0");
    let has_rows = |table: &Table| {
        let mut found = false;
        let visit = &mut |_: &[u8], _: &[u8]| {
            found = true;
            ControlFlow::Break(())
        };
        store.scan(*table, prefix.as_bytes(), None, Direction::Forward, visit).unwrap();
        found
    };
    let tables = Table::ALL.iter().filter(|table| has_rows(table));
    tables.map(|table| table.name().to_owned()).collect()
}
