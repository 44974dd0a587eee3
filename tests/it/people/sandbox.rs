//! The data of the page "Phone": threads of phones, reports, scripts, and the stream.

use serde_json::{Value, json};

use super::{member, owner};
use crate::support::{Connection, TestServer, eventually};

const PHONE: &str = "+15550123456";
const THREAD: &str = "/v1/sandbox/phones/+15550123456/thread";

#[tokio::test]
async fn a_code_is_sent_read_and_verified_with_a_session() {
    let server = TestServer::start().await;
    let owner = owner(&server).await;
    let sent = owner.post("/v1/otp/send", json!({"phone": PHONE})).await.ok();
    let newest = || async {
        let thread = owner.get(THREAD).await.ok();
        thread["data"][0]["code"].as_str().map(str::to_owned)
    };
    let code = eventually("the code", newest).await;
    let body = json!({"request_id": sent["request_id"], "otp": code});
    assert_eq!(owner.post("/v1/otp/verify", body).await.ok()["verified"], true);
    owner.post("/v1/sandbox/inbound", json!({"from": PHONE, "text": "Hello"})).await.ok();
    let thread = owner.get(THREAD).await.ok();
    let rows = thread["data"].as_array().unwrap();
    let shown: Vec<_> = rows.iter().map(|row| (&row["direction"], &row["status"])).collect();
    assert_eq!(shown, [(&json!("in"), &json!("received")), (&json!("out"), &json!("sent"))]);
    let first = owner.get(&format!("{THREAD}?limit=1")).await.ok();
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = owner.get(&format!("{THREAD}?limit=1&cursor={cursor}")).await.ok();
    assert_eq!((&second["data"][0], &second["next_cursor"]), (&rows[1], &Value::Null));
    owner.get(&format!("{THREAD}?cursor=x")).await.check(400, "VALIDATION_ERROR");
    let phones = owner.get("/v1/sandbox/phones").await.ok();
    let expected = json!({"phone": PHONE, "last_text": "Hello", "messages": 2});
    let mut row = phones["data"][0].clone();
    row.as_object_mut().unwrap().remove("last_at");
    assert_eq!((row, phones["data"].as_array().unwrap().len()), (expected, 1));
}

#[tokio::test]
async fn a_report_changes_the_message_and_its_event_comes() {
    let server = TestServer::start().await;
    let owner = owner(&server).await;
    let sent = owner.post("/v1/otp/send", json!({"phone": PHONE})).await.ok();
    let message =
        || async { owner.get(THREAD).await.ok()["data"].as_array().unwrap().first().cloned() };
    let message = eventually("the message", message).await;
    let report = |status: &str| json!({"message_id": message["message_id"], "status": status});
    for bad in [
        report("lost"),
        json!({"message_id": "x", "status": "read"}),
        json!({"message_id": message["message_id"], "status": "read", "error_code": 1}),
    ] {
        owner.post("/v1/sandbox/reports", bad).await.check(400, "VALIDATION_ERROR");
    }
    let unknown = json!({"message_id": "msg_01jd3v0x5n8m7k2q4r6s8t0w2y", "status": "read"});
    owner.post("/v1/sandbox/reports", unknown).await.check(404, "NOT_FOUND");
    assert_eq!(owner.post("/v1/sandbox/reports", report("delivered")).await.status, 202);
    let path = format!("/v1/otp/{}", sent["request_id"].as_str().unwrap());
    assert_eq!(owner.get(&path).await.ok()["delivery_status"], "delivered");
    assert_eq!(owner.get(THREAD).await.ok()["data"][0]["status"], "delivered");
    let events = owner.get("/v1/events?type=otp.delivered").await.ok();
    assert_eq!(events["data"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn scripts_are_listed_and_forgotten() {
    let server = TestServer::start().await;
    let owner = owner(&server).await;
    let one = json!({"to": PHONE, "outcome": "failed", "error_code": 7, "times": 2,
        "channel": "messaging"});
    owner.post("/v1/sandbox/outcomes", one.clone()).await.ok();
    let all = json!({"to": "*", "outcome": "slow", "channel": "messaging"});
    owner.post("/v1/sandbox/outcomes", all.clone()).await.ok();
    let listed = owner.get("/v1/sandbox/outcomes").await.ok();
    assert_eq!(listed["data"], json!([all, one]));
    owner.delete("/v1/sandbox/outcomes").await.ok();
    assert_eq!(owner.get("/v1/sandbox/outcomes").await.ok()["data"], json!([]));
}

#[tokio::test]
async fn a_stream_reports_the_clock_and_what_the_role_may_read() {
    let server = TestServer::start().await;
    let follow = |who: crate::support::Browser, query: &str| {
        let path = format!("/v1/events/stream?workspace=demo{query}");
        let request = who.request("GET", &path, &[("Sec-Fetch-Site", "same-origin")], None);
        let address = server.address();
        async move {
            let mut connection = Connection::open(address).await;
            connection.send(request).await;
            connection
        }
    };
    let agent = member(&server, "demo", "agent").await;
    let owner = owner(&server).await;
    let mut of_agent = follow(agent.clone(), "").await;
    let mut of_owner = follow(owner.clone(), "&types=otp.sent").await;
    assert!(of_agent.read_until("\"offset_seconds\":0").await.contains("event: ping"));
    of_owner.read_until("\"offset_seconds\":0").await;
    server.advance(3600).await;
    of_agent.read_until("\"offset_seconds\":3600").await;
    owner.post("/v1/otp/send", json!({"phone": PHONE})).await.ok();
    owner.post("/v1/sandbox/inbound", json!({"from": PHONE, "text": "Hello"})).await.ok();
    let seen = of_agent.read_until("event: message.received").await;
    assert!(!seen.contains("otp."), "{seen}");
    let seen = of_owner.read_until("event: otp.sent").await;
    let id = seen.split("id: ").nth(1).unwrap().lines().next().unwrap().to_owned();
    let mut again = follow(owner.clone(), &format!("&last_event_id={id}")).await;
    let seen = again.read_until("event: message.received").await;
    assert!(!seen.contains("otp.sent"), "{seen}");
    owner.get("/v1/events/stream?workspace=demo&types=no").await.check(400, "VALIDATION_ERROR");
}

#[tokio::test]
async fn a_page_that_is_far_behind_goes_on_with_the_newest_events() {
    let server = TestServer::start().await;
    let owner = owner(&server).await;
    let demo = server.demo();
    for batch in 0..11 {
        let contact = |i| json!({"name": format!("{batch}.{i}")});
        let contacts: Vec<_> = (0..1000).map(contact).collect();
        demo.post("/v1/contacts/batch", json!({ "contacts": contacts })).await.ok();
    }
    let newest = demo.get("/v1/events?order=desc&limit=1").await.ok()["data"][0].clone();
    let last = format!("\"sequence\":{}", newest["sequence"]);
    let path = "/v1/events/stream?workspace=demo&last_event_id=1";
    let request = owner.request("GET", path, &[super::OWN], None);
    let mut page = Connection::open(server.address()).await;
    page.send(request).await;
    let seen = page.read_until(&last).await;
    assert_eq!(seen.matches("event: skipped").count(), 1);
    assert_eq!(seen.matches("event: contact.created").count(), 100);
    // A program gets each of them.
    let mut program = server.connect().await;
    program.send(demo.request("GET", path, &[], b"")).await;
    let seen = program.read_until("\"sequence\":3").await;
    assert!(!seen.contains("skipped") && seen.contains("\"sequence\":2"), "{seen}");
}

#[tokio::test]
async fn phones_that_are_on_report_by_themselves() {
    let server = TestServer::start().await;
    let demo = server.demo();
    let settings = "/v1/sandbox/settings";
    assert_eq!(demo.get(settings).await.ok(), json!({"auto_deliver": "none"}));
    let bad = demo.put(settings, json!({"auto_deliver": "failed"})).await;
    bad.check_field("auto_deliver");
    let text = |to: &str| json!({"to": to, "type": "text", "text": "Hello"});
    let send = async |to: &str| {
        demo.post("/v1/sandbox/inbound", json!({"from": to, "text": "Hi"})).await.ok();
        let sent = demo.post("/v1/messaging/send", text(to)).await.ok();
        sent["message_id"].as_str().unwrap().to_owned()
    };
    let status = async |id: &str| {
        demo.get(&format!("/v1/messaging/messages/{id}")).await.ok()["status"].clone()
    };
    let before = send("+15550000001").await;
    eventually("sent", async || (status(&before).await == "sent").then_some(())).await;
    for (word, to) in [("delivered", "+15550000002"), ("read", "+15550000003")] {
        demo.put(settings, json!({ "auto_deliver": word })).await.ok();
        assert_eq!(demo.get(settings).await.ok()["auto_deliver"], word);
        let id = send(to).await;
        eventually(word, async || (status(&id).await == word).then_some(())).await;
        let thread = format!("/v1/sandbox/phones/{to}/thread");
        eventually("the thread", async || {
            (demo.get(&thread).await.ok()["data"][0]["status"] == word).then_some(())
        })
        .await;
    }
    assert_eq!(status(&before).await, "sent", "what was there before is left alone");
}
