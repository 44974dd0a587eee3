//! Each operation names an unknown field of its body.

use serde_json::{Value, json};

use super::permissions::filled;
use super::{OWN, owner};
use crate::support::TestServer;

/// Each session makes more requests here than people do.
const MANY: &[(&str, &str)] = &[("LIMITS__SESSION_REQUESTS_PER_MINUTE", "100000")];

/// The prefix of providers' paths, whose bodies may have any field.
const OF_PROVIDERS: &str = "/channels/";
/// The path of texts by language: each field is a language.
const OF_LANGUAGES: &str = "/otp-texts";

/// Returns the operations that take a JSON object, by method and path.
fn operations() -> Vec<(String, String)> {
    let document = serde_json::to_value(postrider::openapi_document()).unwrap();
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let body = &operation["requestBody"]["content"]["application/json"];
            let is_named = !path.starts_with(OF_PROVIDERS) && !path.ends_with(OF_LANGUAGES);
            if is_named && body.is_object() {
                found.push((method.to_uppercase(), path.clone()));
            }
        }
    }
    found
}

#[tokio::test]
async fn every_operation_names_a_field_that_it_does_not_know() {
    let server = TestServer::with(MANY).await;
    let who = owner(&server).await;
    let operations = operations();
    assert!(operations.len() > 60, "{}", operations.len());
    let mut silent = Vec::new();
    for (method, path) in operations {
        let body = json!({"scheduled_att": 1});
        let reply = who.send(&method, &filled(&path), &[OWN], Some(&body)).await;
        if reply.status != 400 || !reply.text().contains("`scheduled_att` is not known") {
            silent.push(format!("{method} {path}: {} {}", reply.status, reply.text()));
        }
    }
    assert!(silent.is_empty(), "{}", silent.join("\n"));
}

/// The same row that was read is also a valid change.
#[tokio::test]
async fn what_was_read_may_be_sent_back() {
    let server = TestServer::start().await;
    let who = owner(&server).await;
    for (path, new) in [
        ("/v1/contacts", json!({"name": "Ana", "custom_fields": {"plan": 3}})),
        ("/v1/segments", json!({"name": "All", "filter": {"tags_any": ["vip"]}})),
        ("/v1/webhooks", json!({"url": "https://example.com/hook"})),
        ("/admin/v1/workspaces/demo/keys", json!({"name": "a", "scopes": ["contacts:read"]})),
    ] {
        let made = who.post(path, new).await;
        assert!([200, 201].contains(&made.status), "{path}: {}", made.text());
        let mut row = made.json();
        let id = row["id"].as_str().unwrap().to_owned();
        // They are shown once.
        row.as_object_mut().unwrap().retain(|name, _| !["secret", "key"].contains(&&**name));
        let changed = who.patch(&format!("{path}/{id}"), row).await;
        assert_eq!(changed.status, 200, "{path}: {}", changed.text());
    }
}

#[tokio::test]
async fn what_stays_as_it_was_made_is_not_changed_behind_an_answer() {
    let server = TestServer::start().await;
    let who = owner(&server).await;
    let (keys, sends) = ("/admin/v1/workspaces/demo/keys", "/v1/messaging/broadcasts");
    let key = json!({"name": "a", "scopes": ["contacts:read"]});
    let key = who.post(keys, key).await.json();
    let contact = who.post("/v1/contacts", json!({"name": "Ana"})).await.json();
    let later = json!({"name": "Later", "template_name": "welcome", "schedule_at": "2099-01-01T00:00:00Z",
        "recipients": ["+15550120000"]});
    let later = who.post(sends, later).await.json();
    let id = |row: &Value, name: &str| row[name].as_str().unwrap().to_owned();
    let key_path = format!("{keys}/{}", id(&key, "id"));
    let contact_path = format!("/v1/contacts/{}", id(&contact, "id"));
    let send_path = format!("{sends}/{}", id(&later, "broadcast_id"));
    let numbers = "/admin/v1/workspaces/demo/numbers";
    let number = who.get(numbers).await.json()["data"][0].clone();
    let number_path = format!("{numbers}/{}", id(&number, "id"));
    for (path, change, field) in [
        (&key_path, json!({"scopes": ["messaging:send"]}), "scopes"),
        (&key_path, json!({"allowed_subnets": ["10.0.0.0/8"]}), "allowed_subnets"),
        (&contact_path, json!({"name": "Ana", "user_id": "US.1"}), "user_id"),
        (&send_path, json!({"template_name": "other"}), "template_name"),
        (&send_path, json!({"status": "paused"}), "status"),
        (&number_path, json!({"phone": "+15550009999"}), "phone"),
        (&"/v1/workspace".to_owned(), json!({"limits": {"bytes_max": 1}}), "limits"),
    ] {
        who.patch(path, change).await.check_field(field);
    }
    // The present values may be sent back.
    let row = who.get(&send_path).await.json();
    who.patch(&send_path, row).await.ok();
    who.patch(&key_path, json!({"scopes": ["contacts:read"]})).await.ok();
}
