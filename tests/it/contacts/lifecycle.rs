//! Contacts: created, read, changed, deleted.

use serde_json::{Value, json};

use crate::support::{Api, Reply, TestServer, millis};

pub const CONTACTS: &str = "/v1/contacts";

/// Settings for many requests with one key and any number of contacts.
pub const UNLIMITED: [(&str, &str); 2] =
    [("LIMITS__KEY_REQUESTS_PER_HOUR", "0"), ("LIMITS__CONTACTS_PER_MINUTE", "0")];

/// Creates a contact.
pub async fn make(api: &Api, contact: Value) -> Value {
    let made = api.post(CONTACTS, contact).await;
    assert_eq!(made.status, 201, "{}", made.text());
    made.json()
}

/// Returns the path of a contact.
pub fn path(contact: &Value) -> String {
    format!("{CONTACTS}/{}", contact["id"].as_str().unwrap())
}

async fn patch(api: &Api, contact: &Value, change: Value) -> Reply {
    api.send_json("PATCH", &path(contact), &change).await
}

fn full() -> Value {
    json!({
        "name": "Ana Souza",
        "phone": "+15550123456",
        "email": "ana@example.com",
        "tags": ["vip", "b2b"],
        "custom_fields": {"plan": "gold", "n": 1, "deep": {"list": [null, true]}},
    })
}

#[tokio::test]
async fn a_contact_is_what_it_was_made_of() {
    let mut server = TestServer::start().await;
    let api = server.workspace("acme").await;
    let made = make(&api, full()).await;
    for (field, value) in full().as_object().unwrap() {
        assert_eq!(&made[field], value, "{field}");
    }
    let id = made["id"].as_str().unwrap();
    assert!(id.starts_with("con_") && id.len() == 30, "{id}");
    assert_eq!(made["created_at"], made["updated_at"]);
    millis(made["created_at"].as_str().unwrap());
    assert_eq!(made.as_object().unwrap().len(), 10);
    assert_eq!(api.get(&path(&made)).await.ok(), made);
    server.restart().await;
    assert_eq!(api.get(&path(&made)).await.ok(), made);
    let bare = make(&api, json!({"name": "Bo", "phone": null, "tags": null})).await;
    assert_eq!((&bare["phone"], &bare["email"]), (&Value::Null, &Value::Null));
    assert_eq!((&bare["tags"], &bare["custom_fields"]), (&json!([]), &json!({})));
    make(&api, json!({"name": "Bo"})).await;
}

#[tokio::test]
async fn bad_fields_are_named() {
    let server = TestServer::with(&UNLIMITED).await;
    let api = server.workspace("acme").await;
    let made = make(&api, json!({"name": "x"})).await;
    let nested = |levels: usize| (1..levels).fold(json!({}), |inner, _| json!({ "x": inner }));
    for (field, bad) in [
        ("name", json!(null)),
        ("name", json!("")),
        ("name", json!("  ")),
        ("name", json!("é".repeat(201))),
        ("name", json!(1)),
        ("phone", json!("")),
        ("phone", json!("15550123456")),
        ("phone", json!("+0555012345")),
        ("phone", json!("+155501")),
        ("phone", json!("+1234567890123456")),
        ("phone", json!("+1 555 0123456")),
        ("phone", json!(15_550_123_456_u64)),
        ("email", json!("")),
        ("email", json!("ana")),
        ("email", json!("ana@example")),
        ("email", json!(["a@b.co"])),
        ("tags", json!("vip")),
        ("tags", json!([""])),
        ("tags", json!(["é".repeat(65)])),
        ("tags", json!((0..51).map(|n| n.to_string()).collect::<Vec<_>>())),
        ("custom_fields", json!([])),
        ("custom_fields", json!("x")),
        ("custom_fields", nested(9)),
        ("custom_fields", json!({"x": "y".repeat(16 * 1024)})),
    ] {
        let mut body = json!({"name": "Ana"});
        body[field] = bad;
        api.post(CONTACTS, &body).await.check_field(field);
        patch(&api, &made, body).await.check_field(field);
    }
    let bad = json!({"name": "Ana", "tags": ["a", 1]});
    assert!(api.post(CONTACTS, bad).await.check_field("tags[1]")["message"].is_string());
    api.post(CONTACTS, json!({})).await.check_field("name");
    let deep =
        format!(r#"{{"name":"a","custom_fields":{}{}}}"#, "{\"x\":".repeat(5000), "}".repeat(5000));
    let json_type = [("Content-Type", "application/json")];
    api.call("POST", CONTACTS, &json_type, deep.as_bytes()).await.check(400, "VALIDATION_ERROR");
    make(&api, json!({"name": "é".repeat(200), "custom_fields": nested(8)})).await;
    assert_eq!(api.get(CONTACTS).await.ok()["total"], 2, "no refused one was made");
}

#[tokio::test]
async fn a_phone_belongs_to_one_contact() {
    let server = TestServer::start().await;
    let (api, other) = (server.workspace("acme").await, server.workspace("other").await);
    let ana = make(&api, full()).await;
    let taken = api.post(CONTACTS, json!({"name": "Bo", "phone": "+15550123456"})).await;
    taken.check(409, "CONFLICT");
    make(&other, full()).await;
    let bo = make(&api, json!({"name": "Bo", "phone": "+15550123457"})).await;
    let to = |phone: &str| json!({"name": "Bo", "phone": phone});
    patch(&api, &bo, to("+15550123456")).await.check(409, "CONFLICT");
    assert_eq!(api.get(&path(&bo)).await.ok(), bo, "a refused change changes nothing");
    assert_eq!(patch(&api, &bo, to("+15550123457")).await.ok()["phone"], "+15550123457");
    patch(&api, &bo, to("+15550123458")).await.ok();
    let cy = make(&api, json!({"name": "Cy", "phone": "+15550123457"})).await;
    api.delete(&path(&ana)).await.ok();
    patch(&api, &cy, to("+15550123456")).await.ok();
    make(&api, json!({"name": "Di", "phone": "+15550123457"})).await;
    patch(&api, &cy, json!({"name": "Cy", "phone": null})).await.ok();
    make(&api, full()).await;
}

#[tokio::test]
async fn of_fifty_at_once_one_gets_the_phone() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    let tasks: Vec<_> = (0..50)
        .map(|number| {
            let api = api.clone();
            let body = json!({"name": format!("n{number}"), "phone": "+15550123456"});
            tokio::spawn(async move { api.post(CONTACTS, body).await })
        })
        .collect();
    let mut made = Vec::new();
    for task in tasks {
        let reply = task.await.unwrap();
        match reply.status {
            201 => made.push(reply.json()),
            _ => drop(reply.check(409, "CONFLICT")),
        }
    }
    assert_eq!(made.len(), 1);
    let listed = api.get(CONTACTS).await.ok();
    assert_eq!((&listed["total"], &listed["data"]), (&json!(1), &json!(made)));
    let events = api.get("/v1/events?type=contact.created").await.ok();
    assert_eq!(events["data"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_change_keeps_what_it_leaves_out_and_null_clears() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    let made = make(&api, full()).await;
    server.advance(5).await;
    patch(&api, &made, json!({"name": "Ana Maria", "tag": ["x"]})).await.check_field("tag");
    let renamed = patch(&api, &made, json!({"name": "Ana Maria"})).await.ok();
    assert!(renamed["updated_at"].as_str() > made["updated_at"].as_str());
    let mut expected = made.clone();
    expected["name"] = json!("Ana Maria");
    expected["updated_at"] = renamed["updated_at"].clone();
    assert_eq!(renamed, expected);
    let change = json!({"name": "Ana", "email": null, "tags": ["x"], "custom_fields": {"a": 1}});
    let changed = patch(&api, &made, change).await.ok();
    assert_eq!((&changed["email"], &changed["tags"]), (&Value::Null, &json!(["x"])));
    assert_eq!(changed["custom_fields"], json!({"a": 1}), "replaced, not joined");
    assert_eq!(changed["phone"], made["phone"]);
    let clear = json!({"name": "Ana", "phone": null, "tags": null, "custom_fields": null});
    let cleared = patch(&api, &made, clear).await.ok();
    assert_eq!((&cleared["phone"], &cleared["tags"]), (&Value::Null, &json!([])));
    assert_eq!(cleared["custom_fields"], json!({}));
    assert_eq!(api.get(&path(&made)).await.ok(), cleared);
    let nameless = patch(&api, &made, json!({"email": "a@b.co"})).await;
    nameless.check_field("name");
}

#[tokio::test]
async fn what_is_not_there_is_not_found() {
    let server = TestServer::start().await;
    let (api, other) = (server.workspace("acme").await, server.workspace("other").await);
    let made = make(&api, full()).await;
    let theirs = make(&other, json!({"name": "Bo"})).await;
    let id = made["id"].as_str().unwrap();
    let deleted = make(&api, json!({"name": "gone"})).await;
    assert_eq!(api.delete(&path(&deleted)).await.status, 204);
    for missing in [
        path(&theirs),
        path(&deleted),
        format!("{CONTACTS}/con_00000000000000000000000000"),
        format!("{CONTACTS}/{}", id.replace("con_", "key_")),
        format!("{CONTACTS}/{}", id.to_uppercase()),
        format!("{CONTACTS}/{id}x"),
        format!("{CONTACTS}/%00"),
    ] {
        api.get(&missing).await.check(404, "NOT_FOUND");
        let change = json!({"name": "x"});
        api.send_json("PATCH", &missing, &change).await.check(404, "NOT_FOUND");
        api.delete(&missing).await.check(404, "NOT_FOUND");
    }
    assert_eq!(other.get(&path(&theirs)).await.ok(), theirs);
}

#[tokio::test]
async fn each_change_has_an_event() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    let made = make(&api, full()).await;
    let changed = patch(&api, &made, json!({"name": "Ana"})).await.ok();
    api.delete(&path(&made)).await.ok();
    let events = api.get("/v1/events").await.ok();
    let events = events["data"].as_array().unwrap();
    let kinds: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["contact.created", "contact.updated", "contact.deleted"]);
    for (event, contact) in events.iter().zip([&made, &changed, &changed]) {
        let mut shown = contact.clone();
        let id = shown.as_object_mut().unwrap().remove("id").unwrap();
        shown["contact_id"] = id;
        assert_eq!(event["data"], shown);
    }
}

#[tokio::test]
async fn scopes_are_needed() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    let made = make(&api, full()).await;
    let (_, reader) = server.key("acme", &["contacts:read"], json!({})).await;
    let (_, writer) = server.key("acme", &["contacts:write"], json!({})).await;
    let body = json!({"name": "x"});
    let lacks = |reply: Reply, scope: &str| {
        let message = reply.check(403, "FORBIDDEN")["message"].clone();
        assert!(message.as_str().unwrap().contains(scope), "{message}");
    };
    for get in [CONTACTS.to_owned(), path(&made)] {
        reader.get(&get).await.ok();
        lacks(writer.get(&get).await, "contacts:read");
    }
    lacks(reader.post(CONTACTS, &body).await, "contacts:write");
    lacks(reader.post("/v1/contacts/batch", json!({"contacts": []})).await, "contacts:write");
    lacks(patch(&reader, &made, body.clone()).await, "contacts:write");
    lacks(reader.delete(&path(&made)).await, "contacts:write");
    patch(&writer, &made, body).await.ok();
    writer.delete(&path(&made)).await.ok();
    server.stranger().get(CONTACTS).await.check(401, "UNAUTHORIZED");
}

#[tokio::test]
async fn an_idempotency_key_makes_one_contact() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    server
        .admin()
        .put("/admin/v1/workspaces/acme/limits", json!({"contacts_per_minute": 1}))
        .await
        .ok();
    let send = async |body: &Value| {
        let headers = [("Content-Type", "application/json"), ("Idempotency-Key", "k")];
        api.call("POST", CONTACTS, &headers, body.to_string().as_bytes()).await
    };
    let first = send(&full()).await;
    assert_eq!((first.status, first.header("idempotency-replayed")), (201, None));
    let again = send(&full()).await;
    assert_eq!((again.status, again.header("idempotency-replayed")), (201, Some("true")));
    assert_eq!(again.json(), first.json());
    let refused = send(&json!({"name": "x"})).await;
    assert_eq!(refused.check(422, "UNPROCESSABLE")["reason"], "idempotency_mismatch");
    assert_eq!(api.get(CONTACTS).await.ok()["total"], 1);
}
