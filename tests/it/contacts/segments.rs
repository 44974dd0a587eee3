//! Segments: saved filters of contacts.

use serde_json::{Value, json};

use crate::contacts::{UNLIMITED, make, path};
use crate::support::{Api, TestServer};

const SEGMENTS: &str = "/v1/segments";

async fn save(api: &Api, filter: Value) -> String {
    let made = api.post(SEGMENTS, json!({"name": "s", "filter": filter})).await;
    assert_eq!(made.status, 201, "{}", made.text());
    made.json()["id"].as_str().unwrap().to_owned()
}

/// Returns the names of a segment's contacts, newest first. Every way of counting them must agree.
async fn members(api: &Api, id: &str) -> Vec<String> {
    let listed = api.get(&format!("{SEGMENTS}/{id}/contacts?limit=200")).await.ok();
    let rows = listed["data"].as_array().unwrap();
    assert_eq!(listed["total"], rows.len());
    assert_eq!(api.get(&format!("{SEGMENTS}/{id}")).await.ok()["contacts_count"], rows.len());
    rows.iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect()
}

async fn people(api: &Api) -> Vec<Value> {
    let mut made = Vec::new();
    for contact in [
        json!({"name": "ana", "tags": ["vip", "br"], "custom_fields": {"plan": "gold", "n": 1}}),
        json!({"name": "bo", "tags": ["vip"], "custom_fields": {"plan": "free", "n": 1.5}}),
        json!({"name": "cy", "tags": ["br", "churned"], "phone": "+15550123456"}),
        json!({"name": "di", "custom_fields": {"plan": null, "deep": {"a": [1, {"b": 2}]}}}),
        json!({"name": "ed", "tags": ["VIP"], "custom_fields": {"plan": "gold"}}),
    ] {
        made.push(make(api, contact).await);
    }
    made
}

#[tokio::test]
async fn each_part_of_a_filter_narrows_it() {
    let server = TestServer::with(&UNLIMITED).await;
    let (api, other) = (server.workspace("acme").await, server.workspace("other").await);
    people(&api).await;
    make(&other, json!({"name": "else", "tags": ["vip"]})).await;
    for (filter, expected) in [
        (json!({}), vec!["ed", "di", "cy", "bo", "ana"]),
        (json!({"tags_any": ["vip"]}), vec!["bo", "ana"]),
        (json!({"tags_any": ["vip", "churned"]}), vec!["cy", "bo", "ana"]),
        (json!({"tags_all": ["vip", "br"]}), vec!["ana"]),
        (json!({"tags_none": ["vip"]}), vec!["ed", "di", "cy"]),
        (json!({"tags_any": ["vip", "br"], "tags_none": ["churned", "x"]}), vec!["bo", "ana"]),
        (json!({"tags_any": ["nobody"]}), vec![]),
        (json!({"custom_fields": {"plan": "gold"}}), vec!["ed", "ana"]),
        (json!({"custom_fields": {"plan": "gold", "n": 1}}), vec!["ana"]),
        (json!({"custom_fields": {"n": 1.5}}), vec!["bo"]),
        (json!({"custom_fields": {"n": "1"}}), vec!["ana"]),
        (json!({"custom_fields": {"plan": null}}), vec!["di"]),
        (json!({"custom_fields": {"deep": {"a": [1, {"b": 2}]}}}), vec!["di"]),
        (json!({"custom_fields": {"deep": {"a": [1]}}}), vec![]),
        (json!({"custom_fields_exist": ["plan"]}), vec!["ed", "di", "bo", "ana"]),
        (json!({"custom_fields_exist": ["n", "plan"]}), vec!["bo", "ana"]),
        (json!({"search": "O"}), vec!["bo"]),
        (json!({"search": "5550"}), vec!["cy"]),
        (json!({"search": "a", "tags_any": ["br"]}), vec!["ana"]),
        (json!({"search": "a", "tags_any": ["churned"]}), vec![]),
        (json!({"search": "d", "custom_fields": {"plan": "gold"}}), vec!["ed"]),
    ] {
        let id = save(&api, filter.clone()).await;
        assert_eq!(members(&api, &id).await, expected, "{filter}");
    }
}

/// Nobody means every contact by that.
#[tokio::test]
async fn no_part_of_a_filter_is_empty() {
    let server = TestServer::with(&UNLIMITED).await;
    let api = server.workspace("acme").await;
    people(&api).await;
    for (part, value) in [
        ("tags_any", json!([])),
        ("tags_all", json!([])),
        ("tags_none", json!([])),
        ("custom_fields_exist", json!([])),
        ("custom_fields", json!({})),
        ("search", json!("")),
        ("search", json!(" \t ")),
    ] {
        let (filter, field) = (json!({ part: value }), format!("filter.{part}"));
        let bulk = json!({"filter": filter, "delete": true});
        api.post("/v1/contacts/bulk", bulk).await.check_field(&field);
        let segment = json!({"name": "s", "filter": filter});
        api.post("/v1/segments", segment).await.check_field(&field);
        api.post("/v1/segments/count", json!({ "filter": filter })).await.check_field(&field);
    }
    assert_eq!(api.get("/v1/contacts").await.ok()["total"], 5);
}

#[tokio::test]
async fn a_segment_follows_its_contacts() {
    let mut server = TestServer::with(&UNLIMITED).await;
    let api = server.workspace("acme").await;
    let people = people(&api).await;
    let id = save(&api, json!({"tags_all": ["vip"], "custom_fields": {"plan": "gold"}})).await;
    assert_eq!(members(&api, &id).await, ["ana"]);
    let change = json!({"name": "bo", "custom_fields": {"plan": "gold"}});
    api.send_json("PATCH", &path(&people[1]), &change).await.ok();
    assert_eq!(members(&api, &id).await, ["bo", "ana"]);
    api.send_json("PATCH", &path(&people[0]), &json!({"name": "ana", "tags": []})).await.ok();
    server.restart().await;
    assert_eq!(members(&api, &id).await, ["bo"]);
    api.delete(&path(&people[1])).await.ok();
    assert_eq!(members(&api, &id).await, Vec::<String>::new());
}

#[tokio::test]
async fn contacts_with_many_fields_are_found_by_each() {
    let server = TestServer::with(&UNLIMITED).await;
    let api = server.workspace("acme").await;
    let fields = |skip: usize| -> Value {
        (0..500)
            .filter(|n| *n != skip)
            .map(|n| (format!("f{n:03}"), json!(n)))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    make(&api, json!({"name": "all", "tags": ["x"], "custom_fields": fields(1000)})).await;
    make(&api, json!({"name": "some", "custom_fields": fields(450)})).await;
    for (filter, expected) in [
        (json!({"custom_fields": {"f001": 1}}), vec!["some", "all"]),
        (json!({"custom_fields": {"f499": 499}}), vec!["some", "all"]),
        (json!({"custom_fields": {"f450": 450}}), vec!["all"]),
        (json!({"custom_fields": {"f450": 451}}), vec![]),
        (json!({"custom_fields_exist": ["f450", "f000"]}), vec!["all"]),
        (json!({"custom_fields_exist": ["f500"]}), vec![]),
        (json!({"custom_fields_exist": ["f499"], "tags_none": ["x"]}), vec!["some"]),
    ] {
        let id = save(&api, filter.clone()).await;
        assert_eq!(members(&api, &id).await, expected, "{filter}");
    }
}

#[tokio::test]
async fn segments_are_saved_listed_and_deleted() {
    let mut server = TestServer::with(&UNLIMITED).await;
    let (api, other) = (server.workspace("acme").await, server.workspace("other").await);
    let filter = json!({
        "tags_any": ["a"], "tags_all": ["b"], "tags_none": ["c"], "search": "d",
        "custom_fields": {"e": {"f": null}}, "custom_fields_exist": ["g"],
    });
    let made = api.post(SEGMENTS, json!({"name": "first", "filter": filter})).await;
    assert_eq!(made.status, 201);
    let made = made.json();
    assert_eq!((&made["name"], &made["filter"]), (&json!("first"), &filter));
    let id = made["id"].as_str().unwrap().to_owned();
    assert!(id.starts_with("seg_") && id.len() == 30, "{id}");
    server.advance(1).await;
    let second = save(&api, json!({})).await;
    server.restart().await;
    let listed = api.get(SEGMENTS).await.ok();
    assert_eq!((&listed["total"], &listed["page"]), (&json!(2), &json!(1)));
    assert_eq!(listed["data"][1], made);
    assert_eq!(
        (&listed["data"][0]["id"], &listed["data"][0]["filter"]),
        (&json!(second), &json!({}))
    );
    assert_eq!(api.get(&format!("{SEGMENTS}?limit=1&page=2")).await.ok()["data"], json!([made]));
    let mut read = api.get(&format!("{SEGMENTS}/{id}")).await.ok();
    assert_eq!(read.as_object_mut().unwrap().remove("contacts_count"), Some(json!(0)));
    assert_eq!(read, made);
    let another = format!("{}{}", &id[..29], if id.ends_with('0') { '1' } else { '0' });
    for missing in [id.replace("seg_", "con_"), another, "x".to_owned()] {
        for below in ["", "/contacts"] {
            api.get(&format!("{SEGMENTS}/{missing}{below}")).await.check(404, "NOT_FOUND");
        }
        api.delete(&format!("{SEGMENTS}/{missing}")).await.check(404, "NOT_FOUND");
    }
    let theirs = format!("{SEGMENTS}/{id}");
    other.get(&theirs).await.check(404, "NOT_FOUND");
    other.get(&format!("{theirs}/contacts")).await.check(404, "NOT_FOUND");
    other.delete(&theirs).await.check(404, "NOT_FOUND");
    assert_eq!(api.delete(&theirs).await.status, 204);
    api.get(&theirs).await.check(404, "NOT_FOUND");
    assert_eq!(api.get(SEGMENTS).await.ok()["total"], 1);
    api.get(&format!("{SEGMENTS}/{second}/contacts?limit=0")).await.check_field("limit");
}

#[tokio::test]
async fn bad_filters_are_named() {
    let server = TestServer::with(&UNLIMITED).await;
    let api = server.workspace("acme").await;
    let good = json!({});
    for (field, body) in [
        ("name", json!({"filter": good})),
        ("name", json!({"name": " ", "filter": good})),
        ("name", json!({"name": "x".repeat(201), "filter": good})),
        ("filter", json!({"name": "x"})),
        ("filter", json!({"name": "x", "filter": null})),
        ("filter", json!({"name": "x", "filter": "vip"})),
        ("filter.tags_any", json!({"name": "x", "filter": {"tags_any": "vip"}})),
        ("filter.tags_all", json!({"name": "x", "filter": {"tags_all": [""]}})),
        ("filter.tags_none", json!({"name": "x", "filter": {"tags_none": vec!["t"; 51]}})),
        ("filter.search", json!({"name": "x", "filter": {"search": "x".repeat(201)}})),
        ("filter.custom_fields", json!({"name": "x", "filter": {"custom_fields": []}})),
        (
            "filter.custom_fields_exist",
            json!({"name": "x", "filter": {"custom_fields_exist": vec!["t"; 51]}}),
        ),
        (
            "filter.custom_fields_exist",
            json!({"name": "x", "filter": {"custom_fields_exist": ["t".repeat(201)]}}),
        ),
    ] {
        api.post(SEGMENTS, body).await.check_field(field);
    }
    assert_eq!(api.get(SEGMENTS).await.ok()["total"], 0);
}

#[tokio::test]
async fn a_workspace_has_only_so_many_segments() {
    let server = TestServer::with(&UNLIMITED).await;
    let api = server.workspace("acme").await;
    let first = save(&api, json!({})).await;
    for _ in 1..1000 {
        save(&api, json!({})).await;
    }
    let refused = api.post(SEGMENTS, json!({"name": "x", "filter": {}})).await;
    assert_eq!(refused.check(422, "UNPROCESSABLE")["reason"], "segment_limit");
    assert_eq!(api.delete(&format!("{SEGMENTS}/{first}")).await.status, 204);
    save(&api, json!({})).await;
    let last = api.get(&format!("{SEGMENTS}?limit=200&page=5")).await.ok();
    assert_eq!((last["total"].as_u64(), last["data"].as_array().unwrap().len()), (Some(1000), 200));
}

#[tokio::test]
async fn numbers_are_equal_however_they_are_written() {
    let server = TestServer::with(&UNLIMITED).await;
    let api = server.workspace("acme").await;
    let json_type = [("Content-Type", "application/json")];
    for n in ["100", "1e2", "100.0", "100.5", "\"100\""] {
        let body = format!(r#"{{"name": "x", "custom_fields": {{"n": {n}}}}}"#);
        api.call("POST", "/v1/contacts", &json_type, body.as_bytes()).await.ok();
    }
    // A text in a filter is literal: every place for a filter finds the same contacts.
    for n in [json!(100), json!("100"), json!("1e2")] {
        let filter = json!({"custom_fields": {"n": n}});
        let segment = save(&api, filter.clone()).await;
        let read = api.get(&format!("{SEGMENTS}/{segment}")).await.ok();
        let counted = api.post("/v1/segments/count", json!({"filter": filter})).await.ok();
        let text = n.as_str().map_or_else(|| n.to_string(), str::to_owned);
        let listed = api.get(&format!("/v1/contacts?custom_fields.n={text}")).await.ok();
        let expected = if text == "1e2" { 3 } else { 4 };
        let found = [&read["contacts_count"], &counted["contacts"], &listed["total"]];
        assert_eq!(found, [expected; 3].map(|it| json!(it)).each_ref(), "{n}");
    }
    let body = br#"{"name": "x", "custom_fields": {"n": 12345678901234567890123}}"#;
    let refused = api.call("POST", "/v1/contacts", &json_type, body).await;
    refused.check_field("custom_fields");
}

#[tokio::test]
async fn a_segment_gets_another_name_or_filter() {
    let server = TestServer::with(&UNLIMITED).await;
    let api = server.workspace("acme").await;
    people(&api).await;
    let id = save(&api, json!({"tags_any": ["vip"]})).await;
    let path = format!("{SEGMENTS}/{id}");
    let patch = async |body: Value| api.send_json("PATCH", &path, &body).await;
    let renamed = patch(json!({"name": "Brazil"})).await.ok();
    assert_eq!(
        (&renamed["name"], &renamed["filter"]),
        (&json!("Brazil"), &json!({"tags_any": ["vip"]}))
    );
    let narrowed = patch(json!({"filter": {"tags_any": ["br"]}})).await.ok();
    assert_eq!((&narrowed["name"], &narrowed["id"]), (&json!("Brazil"), &json!(id)));
    assert_eq!(members(&api, &id).await, ["cy", "ana"]);
    assert_eq!(patch(json!({})).await.ok(), narrowed);
    patch(json!({"name": ""})).await.check_field("name");
    patch(json!({"filter": {"tags_any": [""]}})).await.check_field("filter.tags_any");
    let missing = format!("{SEGMENTS}/seg_01jd3v0x5n8m7k2q4r6s8t0w2y");
    api.send_json("PATCH", &missing, &json!({})).await.check(404, "NOT_FOUND");
}

#[tokio::test]
async fn a_filter_is_counted_without_being_saved() {
    let server = TestServer::with(&UNLIMITED).await;
    let api = server.workspace("acme").await;
    people(&api).await;
    make(&api, json!({"name": "fo", "tags": ["br"], "phone": "+15550120000"})).await;
    let count = async |filter: Value| {
        let reply = api.post(&format!("{SEGMENTS}/count"), json!({ "filter": filter })).await;
        let counted = reply.ok();
        ["contacts", "with_phone", "suppressed"].map(|field| counted[field].as_u64().unwrap())
    };
    assert_eq!(count(json!({})).await, [6, 2, 0]);
    assert_eq!(count(json!({"tags_all": ["br"]})).await, [3, 2, 0]);
    api.post("/v1/suppressions", json!({"phone": "+15550123456"})).await.ok();
    api.post("/v1/suppressions", json!({"phone": "+15550999999"})).await.ok();
    assert_eq!(count(json!({"tags_all": ["br"]})).await, [3, 2, 1]);
    assert_eq!(count(json!({"tags_all": ["churned", "vip"]})).await, [0, 0, 0]);
    let listed = api.get(SEGMENTS).await.ok();
    assert_eq!(listed["total"], 0);
    let bad = api.post(&format!("{SEGMENTS}/count"), json!({"filter": {"tags_any": [""]}})).await;
    bad.check_field("filter.tags_any");
}
