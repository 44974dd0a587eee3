//! Broadcasts: they are created, sent, controlled and reported.

use serde_json::{Value, json};

use crate::support::{Api, TestServer, eventually, millis};

const PATH: &str = "/v1/messaging/broadcasts";
const ROOT: &str = "/admin/v1/workspaces";

fn phones(count: u32) -> Vec<String> {
    (0..count).map(|number| format!("+1555{number:07}")).collect()
}

fn sale(recipients: impl serde::Serialize) -> Value {
    json!({"name": "Sale", "template_name": "spring_sale", "recipients": recipients})
}

async fn create(api: &Api, body: &Value) -> String {
    let made = api.post(PATH, body).await.ok();
    made["broadcast_id"].as_str().unwrap().to_owned()
}

async fn read(api: &Api, id: &str) -> Value {
    let found = api.get(&format!("{PATH}/{id}")).await.ok();
    let counts = found["counts"].as_object().unwrap();
    assert_eq!(counts.len(), 9);
    let sum: u64 = counts.values().map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(Some(sum), found["total_recipients"].as_u64(), "{found}");
    found
}

/// Returns the broadcast as soon as it has this status.
async fn becomes(api: &Api, id: &str, status: &str) -> Value {
    eventually(status, || async {
        let found = read(api, id).await;
        (found["status"] == status).then_some(found)
    })
    .await
}

async fn control(api: &Api, id: &str, action: &str) -> crate::support::Reply {
    api.call("POST", &format!("{PATH}/{id}/{action}"), &[], b"").await
}

async fn script(api: &Api, to: &str, outcome: Value) {
    let mut body = outcome;
    body["to"] = to.into();
    api.post("/v1/sandbox/outcomes", body).await.ok();
}

async fn credits(server: &TestServer) -> i64 {
    server.admin().get(&format!("{ROOT}/demo")).await.ok()["credits"].as_i64().unwrap()
}

#[tokio::test]
async fn a_broadcast_reaches_everybody_once() {
    let server = TestServer::start().await;
    let demo = server.demo();
    let before = credits(&server).await;
    let mut recipients = phones(1200);
    recipients.push(recipients[3].clone());
    let made = demo.post(PATH, sale(recipients)).await.ok();
    assert_eq!(made["total_recipients"], 1200);
    assert!(["queued", "sending"].contains(&made["status"].as_str().unwrap()));
    let id = made["broadcast_id"].as_str().unwrap();
    assert_eq!((&id[..4], id.len()), ("brd_", 30));
    let done = becomes(&demo, id, "completed").await;
    assert_eq!(done["counts"]["sent"], 1200);
    assert_eq!((&done["name"], &done["reason"]), (&json!("Sale"), &Value::Null));
    assert_eq!(done["schedule_at"], Value::Null);
    let time = |name: &str| millis(done[name].as_str().unwrap());
    assert!(time("created_at") <= time("started_at"));
    assert!(time("started_at") <= time("finished_at"));
    assert!(done["rate_per_second"].as_f64().unwrap() > 0.0);
    assert_eq!(credits(&server).await, before - 1200);
    let delivered = demo.get("/v1/sandbox/messages?limit=1000").await.ok();
    assert_eq!(delivered["data"][0]["kind"], "template");
    let text = delivered["data"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("Our spring sale"), "{text}");

    let rows = demo.get(&format!("{PATH}/{id}/recipients?limit=200&page=6")).await.ok();
    assert_eq!((&rows["total"], &rows["page"]), (&json!(1200), &json!(6)));
    let row = &rows["data"][199];
    assert_eq!((&row["to"], &row["status"]), (&json!("+15550001199"), &json!("sent")));
    assert_eq!(row["error"], Value::Null);
    let message = row["message_id"].as_str().unwrap();
    assert_eq!((&message[..4], message.len()), ("msg_", 30));
    let message = demo.get(&format!("/v1/messaging/messages/{message}")).await.ok();
    assert_eq!((&message["to"], &message["status"]), (&json!("+15550001199"), &json!("sent")));
    assert_eq!(
        (&message["template"]["name"], &message["sent_at"]),
        (&json!("spring_sale"), &Value::Null)
    );
    let listed = demo.get(PATH).await.ok();
    assert_eq!((&listed["total"], &listed["data"][0]["broadcast_id"]), (&json!(1), &json!(id)));
    let events = demo.get("/v1/events").await.ok();
    let kinds: Vec<_> =
        events["data"].as_array().unwrap().iter().map(|row| row["type"].clone()).collect();
    assert_eq!(kinds, ["broadcast.created", "broadcast.started", "broadcast.completed"]);
    assert_eq!(events["data"][2]["data"]["broadcast_id"], id);
    let counts = json!({"held": 0, "sent": 1200, "failed": 0, "unknown": 0, "suppressed": 0});
    assert_eq!(events["data"][2]["data"]["counts"], counts);
}

#[tokio::test]
async fn what_is_wrong_with_a_broadcast_is_named() {
    let server = TestServer::start().await;
    let demo = server.demo();
    for (field, value) in [
        ("name", json!("")),
        ("name", Value::Null),
        ("template_name", Value::Null),
        ("template_name", json!("")),
        ("recipients", json!([])),
        ("recipients", Value::Null),
        ("recipients", json!("+15550123456")),
        ("recipients[1]", json!(["+15550123456", "15550123457"])),
        ("recipients[0]", json!([7])),
        ("schedule_at", json!("2020-01-01T00:00:00Z")),
        ("schedule_at", json!("tomorrow")),
        ("policy", json!("twice")),
        ("components", json!("x")),
        ("components", json!([{"type": "x".repeat(70_000)}])),
    ] {
        let mut body = sale(["+15550123456"]);
        body[field.split('[').next().unwrap()] = value;
        demo.post(PATH, &body).await.check_field(field);
    }
    let with = |name: &str| json!({"name": "n", "template_name": name, "recipients": phones(2)});
    demo.post(PATH, with("nothing")).await.check(422, "UNPROCESSABLE");
    demo.post(PATH, with("promo_pending")).await.check(422, "TEMPLATE_NOT_APPROVED");
    demo.post(PATH, with("promo_rejected")).await.check(422, "TEMPLATE_NOT_APPROVED");
    demo.post(PATH, with("order_update")).await.check_field("components");
    let mut french = with("spring_sale");
    french["language"] = "fr".into();
    demo.post(PATH, french).await.check(422, "UNPROCESSABLE");
    let admin = server.admin();
    admin.put(&format!("{ROOT}/demo/credits"), json!({"credits": 1})).await.ok();
    demo.post(PATH, with("spring_sale")).await.check(422, "INSUFFICIENT_CREDITS");
    assert_eq!(credits(&server).await, 1);
    assert_eq!(demo.get(PATH).await.ok()["total"], 0);
    assert_eq!(demo.get("/v1/events").await.ok()["data"], json!([]));
    let numbers = admin.get(&format!("{ROOT}/demo/numbers")).await.ok();
    let number = numbers["data"][0]["id"].as_str().unwrap();
    admin.delete(&format!("{ROOT}/demo/numbers/{number}")).await.ok();
    demo.post(PATH, sale(phones(1))).await.check(422, "MESSAGING_NOT_CONNECTED");
    let unknown = format!("{PATH}/brd_01jd3v0x5n8m7k2q4r6s8t0w2y");
    demo.get(&unknown).await.check(404, "NOT_FOUND");
    demo.get(&format!("{PATH}/x")).await.check(404, "NOT_FOUND");
    demo.get(&format!("{unknown}/recipients")).await.check(404, "NOT_FOUND");
    for action in ["pause", "resume", "cancel", "retry"] {
        control(&demo, "brd_01jd3v0x5n8m7k2q4r6s8t0w2y", action).await.check(404, "NOT_FOUND");
    }
}

#[tokio::test]
async fn recipients_have_variables_of_their_own() {
    let server = TestServer::start().await;
    let demo = server.demo();
    let mut body = json!({
        "name": "Orders",
        "template_name": "order_update",
        "recipients": [
            {"to": "+15550000001", "variables": ["Ada", "7"]},
            {"to": "+15550000002", "variables": ["Grace", "8"]},
        ],
    });
    let id = create(&demo, &body).await;
    becomes(&demo, &id, "completed").await;
    for (to, text) in
        [("%2B15550000001", "Hello Ada, your order 7"), ("%2B15550000002", "Hello Grace")]
    {
        let messages = demo.get(&format!("/v1/sandbox/messages?to={to}")).await.ok();
        let found = messages["data"][0]["text"].as_str().unwrap();
        assert!(found.starts_with(text), "{found}");
    }
    body["recipients"][1]["variables"] = json!(["Grace"]);
    demo.post(PATH, &body).await.check_field("recipients[1].variables");
    body["recipients"][1] = json!("+15550000002");
    demo.post(PATH, &body).await.check_field("recipients[1].variables");
    body["components"] = json!([{"type": "body", "parameters": [
        {"type": "text", "text": "you"}, {"type": "text", "text": "9"},
    ]}]);
    let id = create(&demo, &body).await;
    becomes(&demo, &id, "completed").await;
    let messages = demo.get("/v1/sandbox/messages?to=%2B15550000002").await.ok();
    assert!(messages["data"][0]["text"].as_str().unwrap().starts_with("Hello you"));
}

#[tokio::test]
async fn a_scheduled_broadcast_waits_for_its_time_through_a_restart() {
    let mut server = TestServer::start().await;
    let demo = server.demo();
    let now = demo.get("/v1/sandbox/clock").await.ok()["now"].as_str().unwrap().to_owned();
    let at = jiff::Timestamp::from_millisecond(millis(&now) as i64 + 7_200_000).unwrap();
    let mut body = sale(phones(3));
    body["schedule_at"] = at.to_string().into();
    let made = demo.post(PATH, &body).await.ok();
    assert_eq!(made["status"], "scheduled");
    let id = made["broadcast_id"].as_str().unwrap();
    control(&demo, id, "pause").await.check(409, "CONFLICT");
    control(&demo, id, "resume").await.check(409, "CONFLICT");
    server.advance(7000).await;
    assert_eq!(read(&demo, id).await["counts"]["pending"], 3);
    server.restart().await;
    assert_eq!(read(&demo, id).await["status"], "scheduled");
    server.advance(90_000).await;
    let done = becomes(&demo, id, "completed").await;
    assert_eq!(millis(done["schedule_at"].as_str().unwrap()), at.as_millisecond() as u64);
    assert_eq!(done["counts"]["sent"], 3);

    let before = credits(&server).await;
    let at = jiff::Timestamp::from_millisecond(at.as_millisecond() + 900_000_000).unwrap();
    body["schedule_at"] = at.to_string().into();
    let id = create(&demo, &body).await;
    assert_eq!(credits(&server).await, before - 3);
    let cancelled = control(&demo, &id, "cancel").await.ok();
    assert_eq!(
        (&cancelled["status"], &cancelled["counts"]["cancelled"]),
        (&json!("cancelled"), &json!(3))
    );
    assert_eq!(credits(&server).await, before);
    control(&demo, &id, "cancel").await.check(409, "CONFLICT");
}

#[tokio::test]
async fn what_failed_is_given_back_reported_and_sent_again() {
    let server = TestServer::start().await;
    let demo = server.demo();
    let before = credits(&server).await;
    script(&demo, "+15550000001", json!({"outcome": "failed", "error_code": 131_026})).await;
    script(&demo, "+15550000002", json!({"outcome": "lost"})).await;
    let id = create(&demo, &sale(phones(5))).await;
    let done = becomes(&demo, &id, "completed").await;
    let counts = &done["counts"];
    assert_eq!([&counts["sent"], &counts["failed"], &counts["unknown"]], [3, 1, 1]);
    assert_eq!(credits(&server).await, before - 4);
    let failed = demo.get(&format!("{PATH}/{id}/recipients?status=failed")).await.ok();
    assert_eq!((&failed["total"], &failed["data"][0]["to"]), (&json!(1), &json!("+15550000001")));
    assert_eq!(failed["data"][0]["error"]["code"], 131_026);
    demo.get(&format!("{PATH}/{id}/recipients?status=x")).await.check_field("status");

    script(&demo, "+15550000001", json!({"outcome": "sent"})).await;
    let again = control(&demo, &id, "retry").await.ok();
    assert_eq!(again["total_recipients"], 1);
    let again = again["broadcast_id"].as_str().unwrap();
    assert_ne!(again, id);
    let done = becomes(&demo, again, "completed").await;
    assert_eq!((&done["retry_of"], &done["counts"]["sent"]), (&json!(id), &json!(1)));
    assert_eq!(done["retried_by"], Value::Null);
    let retried = demo.get(&format!("{PATH}/{id}")).await.ok();
    assert_eq!(retried["retried_by"], done["broadcast_id"]);
    control(&demo, again, "retry").await.check(409, "CONFLICT");
    for action in ["pause", "resume", "cancel"] {
        control(&demo, &id, action).await.check(409, "CONFLICT");
    }
}

#[tokio::test]
async fn a_broadcast_is_held_resumed_and_stopped() {
    let mut server = TestServer::start().await;
    let demo = server.demo();
    let before = credits(&server).await;
    // The number cannot hand anything over, so that the broadcast makes no progress.
    script(&demo, "*", json!({"outcome": "unavailable"})).await;
    let id = create(&demo, &sale(phones(3000))).await;
    becomes(&demo, &id, "sending").await;
    control(&demo, &id, "retry").await.check(409, "CONFLICT");
    assert_eq!(control(&demo, &id, "pause").await.ok()["status"], "paused");
    control(&demo, &id, "pause").await.check(409, "CONFLICT");
    server.restart().await;
    let held = read(&demo, &id).await;
    assert_eq!((&held["status"], &held["counts"]["pending"]), (&json!("paused"), &json!(3000)));
    let resumed = control(&demo, &id, "resume").await.ok();
    // All of them may be sent before the answer is built.
    assert!(["sending", "completed"].contains(&resumed["status"].as_str().unwrap()), "{resumed}");
    let done = becomes(&demo, &id, "completed").await;
    assert_eq!(done["counts"]["sent"], 3000, "a clean restart leaves nothing unknown: {done}");
    assert_eq!(credits(&server).await, before - 3000);

    script(&demo, "*", json!({"outcome": "unavailable"})).await;
    let id = create(&demo, &sale(phones(3000))).await;
    becomes(&demo, &id, "sending").await;
    let cancelled = control(&demo, &id, "cancel").await.ok();
    assert_eq!(cancelled["status"], "cancelled");
    assert!(cancelled["counts"]["cancelled"].as_u64().unwrap() >= 1500);
    script(&demo, "*", json!({"outcome": "sent"})).await;
    server.advance(60).await;
    let sent = eventually("all are accounted for", || async {
        let counts = read(&demo, &id).await["counts"].clone();
        (counts["pending"] == 0).then(|| counts["sent"].as_i64().unwrap())
    })
    .await;
    let paid = || async { (credits(&server).await == before - 3000 - sent).then_some(()) };
    eventually("the rest of the credits", paid).await;
}

#[tokio::test]
async fn an_idempotency_key_makes_one_broadcast() {
    let server = TestServer::start().await;
    let demo = server.demo();
    let headers = [("Content-Type", "application/json"), ("Idempotency-Key", "sale-1")];
    let body = sale(phones(2)).to_string();
    let first = demo.call("POST", PATH, &headers, body.as_bytes()).await;
    let second = demo.call("POST", PATH, &headers, body.as_bytes()).await;
    assert_eq!(first.ok(), second.ok());
    assert_eq!(second.header("idempotency-replayed"), Some("true"));
    assert_eq!(demo.get(PATH).await.ok()["total"], 1);
    let other = sale(phones(3)).to_string();
    demo.call("POST", PATH, &headers, other.as_bytes()).await.check(422, "UNPROCESSABLE");
}

#[tokio::test]
async fn a_broadcast_belongs_to_its_workspace() {
    let server = TestServer::start().await;
    let demo = server.demo();
    let acme = server.workspace("acme").await;
    let id = create(&demo, &sale(phones(1))).await;
    acme.get(&format!("{PATH}/{id}")).await.check(404, "NOT_FOUND");
    acme.get(&format!("{PATH}/{id}/recipients")).await.check(404, "NOT_FOUND");
    control(&acme, &id, "cancel").await.check(404, "NOT_FOUND");
    assert_eq!(acme.get(PATH).await.ok()["total"], 0);
}

#[tokio::test]
async fn a_body_of_many_recipients_is_taken_up_to_its_limit() {
    let settings = [("BROADCASTS__MAX_RECIPIENTS", "100000")];
    let server = TestServer::with(&settings).await;
    let demo = server.demo();
    // The body is larger than a usual one may be.
    let id = create(&demo, &sale(phones(100_000))).await;
    let done = becomes(&demo, &id, "completed").await;
    assert_eq!(done["counts"]["sent"], 100_000);
    demo.post(PATH, sale(phones(100_001))).await.check_field("recipients");
    let padded = format!("{}{}", sale(phones(1)), " ".repeat(33 << 20));
    let headers = [("Content-Type", "application/json")];
    let refused = demo.call("POST", PATH, &headers, padded.as_bytes()).await;
    refused.check(413, "PAYLOAD_TOO_LARGE");
}

#[tokio::test]
async fn a_segment_can_stand_for_its_phones() {
    let server = TestServer::start().await;
    let demo = server.demo();
    for (name, phone) in [("ana", Some("+15550000001")), ("bo", Some("+15550000002")), ("cy", None)]
    {
        let contact = json!({"name": name, "phone": phone, "tags": ["vip"]});
        assert_eq!(demo.post("/v1/contacts", contact).await.status, 201);
    }
    let segment = async |tag: &str| {
        let body = json!({"name": tag, "filter": {"tags_any": [tag]}});
        let made = demo.post("/v1/segments", body).await.json();
        made["id"].as_str().unwrap().to_owned()
    };
    let (vip, nobody) = (segment("vip").await, segment("nobody").await);
    let body =
        |segment: &str| json!({"name": "S", "template_name": "spring_sale", "segment_id": segment});
    let id = create(&demo, &body(&vip)).await;
    let done = becomes(&demo, &id, "completed").await;
    assert_eq!((&done["total_recipients"], &done["counts"]["sent"]), (&json!(2), &json!(2)));
    demo.post(PATH, body(&nobody)).await.check_field("segment_id");
    let unknown = "seg_01jd3v0x5n8m7k2q4r6s8t0w2y";
    demo.post(PATH, body(unknown)).await.check(404, "NOT_FOUND");
    let mut both = sale(["+15550000001"]);
    both["segment_id"] = vip.clone().into();
    demo.post(PATH, both).await.check_field("segment_id");
    let (_, sender) = server.key("demo", &["messaging:send"], json!({})).await;
    sender.post(PATH, body(&vip)).await.check(403, "FORBIDDEN");
    // A repeated request gets the same answer, though the segment was removed since.
    let headers = [("Content-Type", "application/json"), ("Idempotency-Key", "k")];
    let text = body(&vip).to_string();
    let keyed = async || demo.call("POST", PATH, &headers, text.as_bytes()).await;
    let made = keyed().await.ok();
    assert_eq!(demo.delete(&format!("/v1/segments/{vip}")).await.status, 204);
    let again = keyed().await;
    assert_eq!(again.header("idempotency-replayed"), Some("true"));
    assert_eq!(again.ok(), made);
}
