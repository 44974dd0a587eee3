//! Codes that people send to a number of the workspace.

use serde_json::{Value, json};

use crate::otp::{PHONE, verify};
use crate::support::{Api, TestServer};

async fn begin(api: &Api) -> Value {
    api.post("/v1/otp/send", json!({"phone": PHONE, "mode": "inbound"})).await.ok()
}

async fn write(api: &Api, from: &str, text: &str) {
    api.post("/v1/sandbox/inbound", json!({"from": from, "text": text})).await.ok();
}

#[tokio::test]
async fn a_message_of_its_person_verifies_a_code() {
    let mut server = TestServer::start().await;
    let (api, admin) = (server.workspace("acme").await, server.admin());
    let credits = admin.get("/admin/v1/workspaces/acme").await.ok()["credits"].clone();
    let made = begin(&api).await;
    let (id, code) = (made["request_id"].as_str().unwrap(), made["code"].as_str().unwrap());
    assert_eq!((&made["mode"], &made["link"]), (&json!("inbound"), &Value::Null));
    assert!(made["text"].as_str().unwrap().contains(code));
    let path = format!("/v1/otp/{id}");
    let refused = verify(&api, id, code).await.check(422, "UNPROCESSABLE");
    assert_eq!(refused["reason"], "inbound_only");
    server.crash().await;
    write(&api, "+15550009999", code).await;
    let row = api.get(&path).await.ok();
    assert_eq!((&row["status"], &row["mode"]), (&json!("active"), &json!("inbound")));
    write(&api, PHONE, &format!("Hello, {code}!")).await;
    let row = api.get(&path).await.ok();
    assert_eq!((&row["status"], &row["attempts_remaining"]), (&json!("verified"), &json!(5)));
    let events = api.get("/v1/events?type=otp.verified").await.ok();
    let emitted = events["data"][0]["data"].clone();
    assert_eq!((&emitted["phone"], &emitted["contact_id"]), (&json!(PHONE), &row["contact_id"]));
    let contact = api.get(&format!("/v1/contacts/{}", row["contact_id"].as_str().unwrap())).await;
    assert_eq!(contact.ok()["phone"], PHONE);
    assert_eq!(admin.get("/admin/v1/workspaces/acme").await.ok()["credits"], credits);
    assert!(api.get("/v1/sandbox/messages").await.ok()["data"].as_array().unwrap().is_empty());

    let body = json!({"phone": PHONE, "mode": "inbound", "channels": ["messaging"]});
    let wrong = api.post("/v1/otp/send", body).await.check(400, "VALIDATION_ERROR");
    assert!(wrong["message"].to_string().contains("channels"), "{wrong}");
    let body = json!({"phone": PHONE, "mode": "reverse"});
    let wrong = api.post("/v1/otp/send", body).await.check(400, "VALIDATION_ERROR");
    assert!(wrong["message"].to_string().contains("mode"), "{wrong}");
}

#[tokio::test]
async fn any_phone_may_send_a_code_that_was_asked_without_one() {
    let mut server = TestServer::start().await;
    let api = server.workspace("acme").await;
    let body = json!({"mode": "inbound", "reference": "door 7"});
    let made = api.post("/v1/otp/send", body.clone()).await.ok();
    let (id, code) = (made["request_id"].as_str().unwrap(), made["code"].as_str().unwrap());
    assert_eq!(code.len(), 12, "{made}");
    assert!(made["text"].as_str().unwrap().contains(code), "{made}");
    let path = format!("/v1/otp/{id}");
    let row = api.get(&path).await.ok();
    assert_eq!((&row["phone"], &row["contact_id"]), (&Value::Null, &Value::Null));
    let listed = api.get("/v1/otp?reference=door%207").await.ok()["data"][0].clone();
    assert_eq!((&listed["phone"], &listed["country"]), (&Value::Null, &Value::Null));
    let sent = api.get("/v1/events?type=otp.sent").await.ok()["data"][0]["data"].clone();
    assert_eq!((&sent["phone"], &sent["request_id"]), (&Value::Null, &json!(id)));
    server.crash().await;
    server.restart().await;
    write(&api, "+15550009999", &format!("Open! {code}")).await;
    for _ in 0..2 {
        let row = api.get(&path).await.ok();
        assert_eq!((&row["status"], &row["phone"]), (&json!("verified"), &json!("+15550009999")));
        assert!(row["contact_id"].is_string(), "{row}");
        let listed = api.get("/v1/otp?phone=%2B15550009999").await.ok()["data"][0].clone();
        assert_eq!((&listed["request_id"], &listed["country"]), (&json!(id), &json!("1")));
        let emitted = api.get("/v1/events?type=otp.verified").await.ok()["data"][0]["data"].clone();
        assert_eq!(
            (&emitted["phone"], &emitted["contact_id"]),
            (&row["phone"], &row["contact_id"])
        );
        // The second time, its record lists it.
        server.advance(7_200).await;
    }
    for (body, field) in [
        (json!({}), "phone"),
        (json!({"mode": "outbound"}), "phone"),
        (json!({"mode": "inbound", "length": 6}), "length"),
        (json!({"mode": "inbound", "phone": "5"}), "phone"),
    ] {
        let refused = api.post("/v1/otp/send", body).await.check(400, "VALIDATION_ERROR");
        assert!(refused["message"].as_str().unwrap().contains(field), "{refused}");
    }
}

/// A contact's phone can be edited, so it proves nothing.
#[tokio::test]
async fn nobody_verifies_a_code_of_a_phone_that_was_written_into_their_contact() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    let write = async |body: Value| api.post("/v1/sandbox/inbound", body).await.ok();
    write(json!({"user_id": "US.1", "text": "Hello"})).await;
    let contact = api.get("/v1/contacts").await.ok()["data"][0]["id"].clone();
    let path = format!("/v1/contacts/{}", contact.as_str().unwrap());
    api.send_json("PATCH", &path, &json!({"name": "Ada", "phone": PHONE})).await.ok();
    let made = begin(&api).await;
    let open = api.post("/v1/otp/send", json!({"mode": "inbound"})).await.ok();
    let texts = [&made["code"], &open["code"]].map(|code| code.as_str().unwrap().to_owned());
    write(json!({"user_id": "US.1", "text": texts.join(" ")})).await;
    let of = async |made: &Value| {
        api.get(&format!("/v1/otp/{}", made["request_id"].as_str().unwrap())).await.ok()
    };
    let row = of(&made).await;
    assert_eq!((&row["status"], &row["attempts_remaining"]), (&json!("active"), &json!(5)));
    let row = of(&open).await;
    assert_eq!((&row["status"], &row["phone"]), (&json!("verified"), &Value::Null));
    assert_eq!(row["contact_id"], contact);
    let events = api.get("/v1/events?type=message.received").await.ok();
    let events = events["data"].as_array().unwrap();
    assert!(events.iter().all(|event| event["data"]["from"].is_null()), "{events:?}");
    // The channel names both: from then on the id identifies the phone.
    write(json!({"user_id": "US.1", "from": PHONE, "text": "Hello"})).await;
    write(json!({"user_id": "US.1", "text": texts[0]})).await;
    assert_eq!(of(&made).await["status"], "verified");
}

#[tokio::test]
async fn somebody_without_a_phone_writes_in_the_sandbox() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    let body = json!({"user_id": "US.1", "type": "image"});
    api.post("/v1/sandbox/inbound", body).await.ok();
    let emitted = api.get("/v1/events?type=message.received").await.ok()["data"][0]["data"].clone();
    assert_eq!((&emitted["user_id"], &emitted["from"]), (&json!("US.1"), &Value::Null));
    assert_eq!((&emitted["type"], &emitted["text"]), (&json!("image"), &json!("")));
    let body = json!({"user_id": "US.1", "from": PHONE, "text": "Hello"});
    api.post("/v1/sandbox/inbound", body).await.ok();
    let contacts = api.get("/v1/contacts").await.ok();
    assert_eq!(contacts["total"], 1, "one person: {contacts}");
    for (body, field) in [
        (json!({"text": "Hello"}), "from"),
        (json!({"from": PHONE}), "text"),
        (json!({"user_id": "1", "text": "Hello"}), "user_id"),
        (json!({"from": PHONE, "type": "a b"}), "type"),
    ] {
        let refused = api.post("/v1/sandbox/inbound", body).await.check(400, "VALIDATION_ERROR");
        assert!(refused["message"].to_string().contains(field), "{refused}");
    }
}

#[tokio::test]
async fn its_person_writes_in_their_own_language() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    for (language, text, used) in [
        (json!("pt_BR"), "Meu código é ", "pt"),
        (json!("de"), "Mein Code ist ", "de"),
        (json!("fil"), "My code is ", "en"),
        (Value::Null, "My code is ", "en"),
    ] {
        let body = json!({"phone": PHONE, "mode": "inbound", "language": language});
        let made = api.post("/v1/otp/send", body).await.ok();
        let code = made["code"].as_str().unwrap();
        assert_eq!(made["text"], format!("{text}{code}"));
        let id = made["request_id"].as_str().unwrap();
        assert_eq!(api.get(&format!("/v1/otp/{id}")).await.ok()["language"], used, "{language}");
    }
}
