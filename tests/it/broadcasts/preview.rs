//! The preview of a broadcast, a test of it, and changes before it starts.

use serde_json::{Value, json};

use crate::contacts::make;
use crate::support::{Api, TestServer, eventually};

const PATH: &str = "/v1/messaging/broadcasts";
const PREVIEW: &str = "/v1/messaging/broadcasts/preview";
const TEST: &str = "/v1/messaging/broadcasts/test";
const ROOT: &str = "/admin/v1/workspaces/demo";

fn phone(number: u32) -> String {
    format!("+1555000{number:04}")
}

fn order(more: &Value) -> Value {
    let mut body = json!({"name": "Orders", "template_name": "order_update"});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

/// Creates ten contacts tagged `vip`: one of them has no phone, and all but one have an order.
async fn segment(api: &Api) -> String {
    for number in 0..10 {
        let name = format!("Contact {number}");
        let mut contact = json!({"name": name, "tags": ["vip"]});
        match number {
            9 => contact["email"] = json!("nine@example.com"),
            _ => contact["phone"] = json!(phone(number)),
        }
        if number != 3 {
            contact["custom_fields"] = json!({"order": number});
        }
        make(api, contact).await;
    }
    let body = json!({"name": "VIPs", "filter": {"tags_any": ["vip"]}});
    let made = api.post("/v1/segments", body).await.ok();
    made["id"].as_str().unwrap().to_owned()
}

async fn credits(server: &TestServer) -> u64 {
    server.admin().get(ROOT).await.ok()["credits"].as_u64().unwrap()
}

/// Returns the texts that a phone received, newest first.
async fn texts(api: &Api, to: &str) -> Vec<String> {
    let path = format!("/v1/sandbox/messages?limit=1000&to={}", to.replace('+', "%2B"));
    let found = api.get(&path).await.ok();
    let rows = found["data"].as_array().unwrap().iter();
    rows.map(|row| row["text"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_preview_shows_what_is_sent_and_taken() {
    let server = TestServer::start().await;
    let api = server.demo();
    let segment = segment(&api).await;
    api.post("/v1/suppressions", json!({"phone": phone(0)})).await.ok();
    let with = |sources: Value| order(&json!({"segment_id": segment, "variables_from": sources}));
    let before = credits(&server).await;
    let lacking = with(json!(["name", "custom_fields.order"]));
    let seen = api.post(PREVIEW, &lacking).await.ok();
    let counted = |name: &str| seen[name].as_u64().unwrap();
    assert_eq!(
        ["recipients", "suppressed", "without_phone", "missing_variables"].map(counted),
        [9, 1, 1, 1]
    );
    assert_eq!((seen["cost"].as_u64(), seen["credits_left"].as_u64()), (Some(8), Some(before)));
    assert_eq!(seen["seconds_at_pace"], Value::Null);
    let samples = seen["samples"].as_array().unwrap();
    let first = json!({"to": phone(8), "name": "Contact 8",
        "text": "Hello Contact 8, your order 8 is on its way."});
    assert_eq!((samples.len(), &samples[0]), (5, &first));
    // Nothing is created while one recipient lacks a value.
    let refused = api.post(PATH, &lacking).await;
    let refusal = refused.check_field("variables_from");
    assert!(refusal["message"].as_str().unwrap().contains(&phone(3)), "{refusal}");
    assert_eq!(credits(&server).await, before);
    assert_eq!(api.get(PATH).await.ok()["total"], 0, "a preview makes nothing");
    let whole = with(json!(["name", {"text": "of today"}]));
    let seen = api.post(PREVIEW, &whole).await.ok();
    assert_eq!((&seen["missing_variables"], &seen["recipients"]), (&json!(0), &json!(9)));
    let made = api.post(PATH, &whole).await.ok();
    assert_eq!(made["total_recipients"], seen["recipients"]);
    assert_eq!(before - credits(&server).await, seen["cost"].as_u64().unwrap(), "shown is taken");
    for sample in seen["samples"].as_array().unwrap() {
        let to = sample["to"].as_str().unwrap();
        let text = async || texts(&api, to).await.pop();
        assert_eq!(eventually("the message", text).await, sample["text"].as_str().unwrap());
    }
    assert_eq!(texts(&api, &phone(0)).await, Vec::<String>::new(), "who has opted out");
}

#[tokio::test]
async fn a_preview_refuses_what_the_making_refuses() {
    let server = TestServer::start().await;
    let api = server.demo();
    let segment = segment(&api).await;
    let paced = json!({"messages_per_second": 2});
    let numbers = format!("{ROOT}/numbers");
    let number = server.admin().get(&numbers).await.ok()["data"][0]["id"].clone();
    let number = format!("{numbers}/{}", number.as_str().unwrap());
    server.admin().send_json("PATCH", &number, &paced).await.ok();
    let sale = json!({"name": "Sale", "template_name": "spring_sale", "recipients": [phone(1), phone(2), phone(1)]});
    let seen = api.post(PREVIEW, &sale).await.ok();
    assert_eq!((&seen["recipients"], &seen["seconds_at_pace"]), (&json!(2), &json!(1)));
    assert_eq!(seen["samples"][0]["name"], "Contact 1");
    let misfit = order(&json!({"recipients": [{"to": phone(1), "variables": ["Ada"]}]}));
    assert_eq!(api.post(PREVIEW, &misfit).await.ok()["missing_variables"], 1);
    for (body, field) in [
        (order(&json!({"recipients": []})), "recipients"),
        (order(&json!({"recipients": ["5"]})), "recipients[0]"),
        (order(&json!({"recipients": [phone(1)], "variables_from": ["name"]})), "variables_from"),
        (order(&json!({"segment_id": segment, "variables_from": ["phone"]})), "variables_from[0]"),
        (
            order(&json!({"segment_id": segment, "variables_from": [{"text": ""}]})),
            "variables_from[0]",
        ),
        (
            order(&json!({"segment_id": segment, "variables_from": ["name", 7]})),
            "variables_from[1]",
        ),
        (
            order(&json!({"recipients": [phone(1)], "schedule_at": "2020-01-01T00:00:00Z"})),
            "schedule_at",
        ),
    ] {
        for path in [PREVIEW, PATH] {
            api.post(path, &body).await.check_field(field);
        }
    }
    let pending = json!({"name": "x", "template_name": "promo_pending", "recipients": [phone(1)]});
    for path in [PREVIEW, PATH] {
        api.post(path, &pending).await.check(422, "TEMPLATE_NOT_APPROVED");
    }
    let unknown = order(&json!({"segment_id": "seg_01jd3v0x5n8m7k2q4r6s8t0w2y"}));
    api.post(PREVIEW, unknown).await.check(404, "NOT_FOUND");
}

#[tokio::test]
async fn a_test_is_one_message_as_a_recipient_gets_it() {
    let server = TestServer::start().await;
    let api = server.demo();
    let segment = segment(&api).await;
    let body = |to: &str| {
        order(&json!({"to": to, "segment_id": segment,
        "variables_from": ["name", "custom_fields.order"]}))
    };
    let got = async |to: &str| {
        eventually("the message", async || texts(&api, to).await.into_iter().next()).await
    };
    // The values are those of the phone's own contact, or else of the newest one.
    api.post(TEST, body(&phone(5))).await.ok();
    assert_eq!(got(&phone(5)).await, "Hello Contact 5, your order 5 is on its way.");
    let sent = api.post(TEST, body(&phone(77))).await.ok();
    assert_eq!(got(&phone(77)).await, "Hello Contact 9, your order 9 is on its way.");
    let message = format!("/v1/messaging/messages/{}", sent["message_id"].as_str().unwrap());
    assert_eq!(api.get(&message).await.ok()["to"], phone(77));
    api.post(TEST, body(&phone(3))).await.check_field("variables_from");
    let recipients = json!([{"to": phone(1), "variables": ["Ada", "1"]},
        {"to": phone(2), "variables": ["Bo", "2"]}]);
    for (to, text) in [(phone(2), "Bo, your order 2"), (phone(78), "Ada, your order 1")] {
        api.post(TEST, order(&json!({"to": to, "recipients": recipients}))).await.ok();
        assert_eq!(got(&to).await, format!("Hello {text} is on its way."));
    }
    let missing = order(&json!({"recipients": recipients}));
    api.post(TEST, missing).await.check(400, "VALIDATION_ERROR");
    api.post(TEST, order(&json!({"to": "5", "recipients": recipients}))).await.check_field("to");
    assert_eq!(api.get(PATH).await.ok()["total"], 0, "no broadcast is made");
    let before = texts(&api, &phone(79)).await.len();
    let body = order(&json!({"to": phone(79), "recipients": recipients})).to_string();
    let key = [("Content-Type", "application/json"), ("Idempotency-Key", "once")];
    let one = api.call("POST", TEST, &key, body.as_bytes()).await.ok();
    assert_eq!(api.call("POST", TEST, &key, body.as_bytes()).await.ok(), one);
    got(&phone(79)).await;
    assert_eq!(texts(&api, &phone(79)).await.len(), before + 1);
}

#[tokio::test]
async fn a_scheduled_broadcast_can_be_renamed_and_moved() {
    let mut server = TestServer::start().await;
    let api = server.demo();
    let clock = api.get("/v1/sandbox/clock").await.ok();
    let day = clock["now"].as_str().unwrap()[..10].to_owned();
    let at = |hours: u64| {
        let now = crate::support::millis(&format!("{day}T00:00:00.000Z"));
        postrider_actors::domain::Timestamp::from_millis(now + hours * 3_600_000).to_string()
    };
    let body = json!({"name": "Sale", "template_name": "spring_sale", "recipients": [phone(1)],
        "schedule_at": at(48)});
    let made = api.post(PATH, body).await.ok();
    let path = format!("{PATH}/{}", made["broadcast_id"].as_str().unwrap());
    let change = json!({"name": "Later", "schedule_at": at(120)});
    let row = api.send_json("PATCH", &path, &change).await.ok();
    assert_eq!((&row["name"], &row["schedule_at"]), (&json!("Later"), &json!(at(120))));
    assert_eq!(api.get(&path).await.ok(), row);
    assert_eq!(api.send_json("PATCH", &path, &json!({})).await.ok(), row);
    for (change, field) in [
        (json!({"name": ""}), "name"),
        (json!({"schedule_at": "soon"}), "schedule_at"),
        (json!({"schedule_at": "2020-01-01T00:00:00Z"}), "schedule_at"),
    ] {
        api.send_json("PATCH", &path, &change).await.check_field(field);
    }
    server.crash().await;
    server.restart().await;
    let api = server.demo();
    assert_eq!(api.get(&path).await.ok(), row);
    // It starts at the new time, not at the old one.
    server.advance(49 * 3600).await;
    api.send_json("PATCH", &path, &json!({"name": "Still to come"})).await.ok();
    assert_eq!(api.get(&path).await.ok()["status"], "scheduled");
    let sooner = api.get("/v1/sandbox/clock").await.ok()["now"].as_str().unwrap().to_owned();
    let sooner = crate::support::millis(&sooner) + 600_000;
    let sooner = postrider_actors::domain::Timestamp::from_millis(sooner).to_string();
    api.send_json("PATCH", &path, &json!({"schedule_at": sooner})).await.ok();
    server.advance(601).await;
    let done = async || (api.get(&path).await.ok()["status"] == "completed").then_some(());
    eventually("it is sent", done).await;
    api.send_json("PATCH", &path, &json!({"name": "x"})).await.check(409, "CONFLICT");
    let unknown = format!("{PATH}/brd_01jd3v0x5n8m7k2q4r6s8t0w2y");
    api.send_json("PATCH", &unknown, &json!({"name": "x"})).await.check(404, "NOT_FOUND");
}
