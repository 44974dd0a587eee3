//! Events are found by their subject, whatever the log contains beside them.

use serde_json::{Value, json};

use crate::contacts::{UNLIMITED, make};
use crate::support::{Api, TestServer, eventually};

const EVENTS: &str = "/v1/events";
const ANA: &str = "+15550123456";
/// More events than the 50,000 that a page looks at one by one.
const IMPORTED: usize = 52_000;

/// Creates contacts, each of which is an event.
async fn import(api: &Api) {
    for batch in 0..IMPORTED / 1_000 {
        let phone = |at: usize| format!("+1556{:07}", batch * 1_000 + at);
        let contact = |at| json!({"name": "n", "phone": phone(at)});
        let contacts: Vec<_> = (0..1_000).map(contact).collect();
        let made = api.post("/v1/contacts/batch", json!({ "contacts": contacts })).await.ok();
        assert!(made["data"].as_array().unwrap().iter().all(|row| row["status"] == 201));
    }
}

/// Returns the types of the events of one answer, oldest first, and the cursor.
async fn about(api: &Api, what: &str, order: &str) -> (Vec<String>, Value) {
    let what = what.replace('+', "%2B");
    let page = api.get(&format!("{EVENTS}?about={what}&order={order}&limit=100")).await.ok();
    let kind = |event: &Value| event["type"].as_str().unwrap().to_owned();
    let mut kinds: Vec<_> = page["data"].as_array().unwrap().iter().map(kind).collect();
    if order == "desc" {
        kinds.reverse();
    }
    (kinds, page["next_cursor"].clone())
}

/// What there is to look for, with the types of its events.
async fn subjects(server: &TestServer, api: &Api) -> Vec<(String, Vec<&'static str>)> {
    let template = json!({"name": "sale", "language": "en", "category": "marketing",
        "status": "approved", "components": [{"type": "BODY", "text": "Sale"}]});
    server.admin().post("/admin/v1/workspaces/acme/templates", template).await.ok();
    let body = json!({"name": "Sale", "template_name": "sale", "recipients": ["+15550123459"],
        "schedule_at": "2100-01-01T00:00:00Z"});
    let broadcast = api.post("/v1/messaging/broadcasts", body).await.ok();
    let body = json!({"phone": ANA, "reference": "order-4711"});
    let code = api.post("/v1/otp/send", body).await.ok();
    let wrote = json!({"from": "+15550123457", "text": "Hi"});
    api.post("/v1/sandbox/inbound", wrote).await.ok();
    let contact = make(api, json!({"name": "Bo", "phone": "+15550123458"})).await;
    let wrote = eventually("the message", || async {
        let page = api.get(&format!("{EVENTS}?type=message.received")).await.ok();
        page["data"].as_array().unwrap().first().map(|event| event["data"].clone())
    })
    .await;
    let id = |value: &Value| value.as_str().unwrap().to_owned();
    vec![
        (id(&code["request_id"]), vec!["otp.sent"]),
        (ANA.to_owned(), vec!["otp.sent"]),
        ("order-4711".to_owned(), vec!["otp.sent"]),
        (id(&broadcast["broadcast_id"]), vec!["broadcast.created"]),
        (id(&wrote["message_id"]), vec!["message.received"]),
        (id(&contact["id"]), vec!["contact.created"]),
        ("+15550123458".to_owned(), vec!["contact.created"]),
        (id(&wrote["conversation_id"]), vec!["conversation.opened", "message.received"]),
    ]
}

async fn all_are_found(api: &Api, subjects: &[(String, Vec<&'static str>)]) {
    for (what, kinds) in subjects {
        let (mut found, cursor) = about(api, what, "desc").await;
        found.sort();
        assert_eq!(
            (&found[..], cursor),
            (&kinds.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>()[..], Value::Null),
            "{what}"
        );
        assert_eq!(about(api, what, "asc").await.0.len(), kinds.len(), "{what}");
    }
    // One answer suffices to report that there is no event.
    assert_eq!(about(api, "+15559999999", "desc").await, (vec![], Value::Null));
}

#[tokio::test]
async fn what_is_older_than_an_import_is_found_by_one_request() {
    let mut server = TestServer::with(&UNLIMITED).await;
    let api = server.workspace("acme").await;
    let subjects = subjects(&server, &api).await;
    import(&api).await;
    eventually("the log is indexed", || async {
        let (found, cursor) = about(&api, &subjects[0].0, "desc").await;
        // Until then, an empty answer has a cursor to continue.
        assert!(!found.is_empty() || cursor != Value::Null);
        (!found.is_empty()).then_some(())
    })
    .await;
    all_are_found(&api, &subjects).await;
    let timeline = |id: &str| format!("/v1/contacts/{id}/timeline");
    let (contact, _) = subjects.iter().find(|(_, kinds)| kinds == &["contact.created"]).unwrap();
    let of_contact = api.get(&timeline(contact)).await.ok();
    assert_eq!(of_contact["data"][0]["type"], "contact.created");
    assert_eq!(of_contact["next_cursor"], Value::Null);
    // A word that names nothing is searched in each event: the answer has a cursor.
    let (found, cursor) = about(&api, "nobody", "desc").await;
    assert!(found.is_empty() && cursor != Value::Null);
    server.restart().await;
    all_are_found(&api, &subjects).await;
}
