//! Many contacts are created with one call.

use serde_json::{Value, json};

use crate::contacts::{CONTACTS, UNLIMITED, make};
use crate::support::TestServer;

const BATCH: &str = "/v1/contacts/batch";

#[tokio::test]
async fn each_contact_is_made_or_refused_by_itself() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    make(&api, json!({"name": "first", "phone": "+15550000001"})).await;
    let batch = json!({"contacts": [
        {"name": "taken", "phone": "+15550000001"},
        {"name": "a", "phone": "+15550000002", "tags": ["x"]},
        {"name": "twice", "phone": "+15550000002"},
        {"name": ""},
        {"phone": "+15550000003"},
        {"name": "b", "phone": "0049"},
        7,
        null,
        ["name"],
        {"name": "no phone"},
    ]});
    let answer = api.post(BATCH, batch).await;
    assert_eq!(answer.status, 200);
    let answer = answer.ok();
    let rows = answer["data"].as_array().unwrap();
    let statuses: Vec<_> = rows.iter().map(|row| row["status"].as_u64().unwrap()).collect();
    assert_eq!(statuses, [409, 201, 409, 400, 400, 400, 400, 400, 400, 201]);
    assert_eq!(rows[1]["contact"]["name"], "a");
    assert_eq!(rows[9]["contact"]["phone"], Value::Null);
    for (row, code) in [(0, "CONFLICT"), (3, "VALIDATION_ERROR"), (6, "VALIDATION_ERROR")] {
        assert_eq!(rows[row]["error"]["code"], code);
        assert!(rows[row]["contact"].is_null());
    }
    for (row, field) in [(3, "`name`"), (4, "`name`"), (5, "`phone`")] {
        let message = rows[row]["error"]["message"].as_str().unwrap();
        assert!(message.contains(field), "{message}");
    }
    let listed = api.get(CONTACTS).await.ok();
    assert_eq!(listed["total"], 3);
    assert_eq!(listed["data"][0], rows[9]["contact"]);
}

#[tokio::test]
async fn a_batch_has_its_bounds() {
    let server = TestServer::with(&UNLIMITED).await;
    let api = server.workspace("acme").await;
    let contacts = |count: usize| {
        let contacts: Vec<_> =
            (0..count).map(|number| json!({"name": format!("n{number}")})).collect();
        json!({ "contacts": contacts })
    };
    for bad in
        [json!({}), json!({"contacts": null}), json!({"contacts": {}}), contacts(0), contacts(1001)]
    {
        api.post(BATCH, &bad).await.check_field("contacts");
    }
    let answer = api.post(BATCH, contacts(1000)).await.ok();
    let rows = answer["data"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["status"] == 201));
    let names = rows.iter().map(|row| row["contact"]["name"].as_str().unwrap());
    assert!(names.eq((0..1000).map(|number| format!("n{number}"))));
    let events = api.get("/v1/events?type=contact.created&limit=200").await.ok();
    assert_eq!(events["data"].as_array().unwrap().len(), 200);
}

#[tokio::test]
async fn a_batch_may_be_larger_than_other_bodies() {
    let server = TestServer::with(&UNLIMITED).await;
    let api = server.workspace("acme").await;
    let large = |count: usize| {
        let fields = json!({"x": "y".repeat(16_000)});
        let contact =
            |number: usize| json!({"name": format!("n{number}"), "custom_fields": fields});
        json!({"contacts": (0..count).map(contact).collect::<Vec<_>>()})
    };
    let answer = api.post(BATCH, large(500)).await.ok();
    assert!(answer["data"].as_array().unwrap().iter().all(|row| row["status"] == 201));
    assert_eq!(api.get(CONTACTS).await.ok()["total"], 500);
    api.post(BATCH, large(600)).await.check(413, "PAYLOAD_TOO_LARGE");
    api.post(CONTACTS, large(100)).await.check(413, "PAYLOAD_TOO_LARGE");
}

#[tokio::test]
async fn an_idempotency_key_makes_a_batch_once() {
    let mut server = TestServer::with(&UNLIMITED).await;
    let api = server.workspace("acme").await;
    make(&api, json!({"name": "there", "phone": "+15550000001"})).await;
    let mut rows: Vec<_> = (0..150).map(|number| json!({"name": format!("n{number}")})).collect();
    rows.push(json!({"name": "taken", "phone": "+15550000001"}));
    rows.push(json!({"name": ""}));
    let body = json!({ "contacts": rows }).to_string();
    let send = async |key: &str, body: &str| {
        let headers = [("Content-Type", "application/json"), ("Idempotency-Key", key)];
        api.call("POST", BATCH, &headers, body.as_bytes()).await
    };
    let first = send("k", &body).await;
    assert_eq!((first.status, first.header("idempotency-replayed")), (200, None));
    server.restart().await;
    let again = send("k", &body).await;
    assert_eq!((again.status, again.header("idempotency-replayed")), (200, Some("true")));
    assert_eq!(again.json(), first.json());
    let refused = send("k", r#"{"contacts":[{"name":"x"}]}"#).await;
    assert_eq!(refused.check(422, "UNPROCESSABLE")["reason"], "idempotency_mismatch");
    assert_eq!(api.get(CONTACTS).await.ok()["total"], 151);
    send("other", &body).await.ok();
    assert_eq!(api.get(CONTACTS).await.ok()["total"], 301);
}

#[tokio::test]
async fn who_has_the_phone_already_is_left_alone_or_changed() {
    let mut server = TestServer::with(&UNLIMITED).await;
    let api = server.workspace("acme").await;
    let there = json!({"name": "there", "phone": "+15550000001", "email": "a@b.com",
        "tags": ["old"], "custom_fields": {"plan": "gold"}});
    let there = make(&api, there).await;
    let row = |name: &str| json!({"name": name, "phone": "+15550000001", "tags": ["new"]});
    let batch = |how: &str| {
        let new = json!({"name": "new", "phone": "+15550000002"});
        json!({"on_conflict": how, "contacts": [row("again"), new, new, {"name": ""}]})
    };
    api.post(BATCH, json!({"on_conflict": "no", "contacts": [row("x")]}))
        .await
        .check_field("on_conflict");
    let rows = async |how: &str| {
        let answer = api.post(BATCH, batch(how)).await.ok();
        let outcomes = |row: &Value| (row["status"].as_u64().unwrap(), row["outcome"].clone());
        let rows = answer["data"].as_array().unwrap().clone();
        (rows.iter().map(outcomes).collect::<Vec<_>>(), rows)
    };
    let (outcomes, rows_of_skip) = rows("skip").await;
    let expected = [(200, "skipped"), (201, "created"), (200, "skipped"), (400, "refused")];
    assert_eq!(outcomes, expected.map(|(status, outcome)| (status, json!(outcome))));
    assert_eq!(rows_of_skip[0]["contact"], there);
    let (outcomes, _) = rows("refuse").await;
    assert!(outcomes.iter().all(|(status, outcome)| *status >= 400 && outcome == "refused"));
    let (outcomes, rows_of_update) = rows("update").await;
    assert_eq!(outcomes[0], (200, json!("updated")));
    let changed = &rows_of_update[0]["contact"];
    assert_eq!((&changed["id"], &changed["name"]), (&there["id"], &json!("again")));
    assert_eq!((&changed["tags"], &changed["email"]), (&json!(["new"]), &json!("a@b.com")));
    assert_eq!(changed["custom_fields"], json!({"plan": "gold"}), "left out, it stays");
    let id = there["id"].as_str().unwrap();
    assert_eq!(api.get(&format!("{CONTACTS}/{id}")).await.ok(), *changed);
    let updated = api.get("/v1/events?type=contact.updated").await.ok();
    assert_eq!(updated["data"].as_array().unwrap().len(), 3);
    // Large existing contacts may exceed one commit; a repeated call still changes them once.
    let large = |number: usize| {
        json!({"name": format!("n{number}"), "phone": format!("+1555100{number:04}"),
            "custom_fields": {"x": "y".repeat(15_000)}})
    };
    let all = json!({"contacts": (0..40).map(large).collect::<Vec<_>>()});
    api.post(BATCH, &all).await.ok();
    let small = |number: usize| json!({"name": format!("m{number}"), "phone": format!("+1555100{number:04}")});
    let all = (0..40).map(small).collect::<Vec<_>>();
    let body = json!({"on_conflict": "update", "contacts": all}).to_string();
    let headers = [("Content-Type", "application/json"), ("Idempotency-Key", "k")];
    let first = api.call("POST", BATCH, &headers, body.as_bytes()).await;
    let names = first.ok()["data"].as_array().unwrap().clone();
    let names: Vec<_> = names.iter().map(|row| row["contact"]["name"].clone()).collect();
    assert_eq!(names, (0..40).map(|number| json!(format!("m{number}"))).collect::<Vec<_>>());
    server.restart().await;
    let again = api.call("POST", BATCH, &headers, body.as_bytes()).await;
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(again.json(), first.json());
}
