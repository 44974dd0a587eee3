//! Messages that the channel takes and holds back, before it sends or drops them.

use serde_json::{Value, json};

use crate::broadcasts::faults::becomes;
use crate::broadcasts::reported::{create, reported, rig};
use crate::channel::callbacks::post;
use crate::channel::cloud_api::Rig;
use crate::fake::{Scripted, callback};
use crate::messages::{send_waiting, text, write};
use crate::support::eventually;

const ASSESSED: Scripted = Scripted::Held("held_for_quality_assessment");

async fn welcome(rig: &Rig) -> Value {
    let template = json!({
        "name": "welcome", "language": "en", "category": "utility",
        "components": [{"type": "BODY", "text": "Welcome!"}],
    });
    rig.server.admin().post("/admin/v1/workspaces/acme/templates", template).await.ok();
    json!({"to": "+15551230001", "type": "template", "template": {"name": "welcome"}})
}

async fn report(rig: &Rig, id: &str, status: &str) {
    let errors = if status == "failed" { json!([{"code": 131_026}]) } else { Value::Null };
    let report = json!({"statuses": [{
        "id": "wamid.fake1", "status": status, "timestamp": "1750857384",
        "recipient_id": "15551230001", "biz_opaque_callback_data": id, "errors": errors,
    }]});
    assert_eq!(post(rig, &callback("106", report)).await.status, 200);
}

async fn status(rig: &Rig, id: &str) -> Value {
    rig.api.get(&format!("/v1/messaging/messages/{id}")).await.ok()["status"].clone()
}

#[tokio::test]
async fn a_message_that_is_held_back_keeps_its_price_and_moves_on_with_reports() {
    for word in ["held_for_quality_assessment", "paused"] {
        let rig = Rig::new().await;
        let body = welcome(&rig).await;
        rig.fake.script(None, Scripted::Held(word), None);
        let [arrives, dropped] = [(); 2].map(|()| {
            async || {
                let sent = send_waiting(&rig.api, &body, &[]).await.ok();
                assert_eq!(sent["status"], "held", "{word}");
                sent["message_id"].as_str().unwrap().to_owned()
            }
        });
        let (arrives, dropped) = (arrives().await, dropped().await);
        assert_eq!(rig.credits().await, 998, "both are paid for");
        let emitted = rig.api.get("/v1/events?type=message.held").await.ok();
        let emitted: Vec<_> =
            emitted["data"].as_array().unwrap().iter().map(|it| &it["data"]).collect();
        assert_eq!((emitted.len(), &emitted[0]["status"]), (2, &json!("held")));
        assert_eq!(emitted[0]["message_id"], *arrives);
        let listed = rig.api.get("/v1/messaging/messages?status=held").await.ok();
        assert_eq!(listed["data"].as_array().unwrap().len(), 2);
        for (reported, becomes) in [("sent", "sent"), ("delivered", "delivered")] {
            report(&rig, &arrives, reported).await;
            assert_eq!(status(&rig, &arrives).await, becomes);
        }
        report(&rig, &dropped, "failed").await;
        assert_eq!(status(&rig, &dropped).await, "failed");
        assert_eq!(rig.credits().await, 999, "the one that was dropped is paid back");
        assert_eq!((rig.fake.accepted_of(&arrives), rig.fake.accepted_of(&dropped)), (1, 1));
    }
}

#[tokio::test]
async fn a_restart_leaves_a_message_held() {
    let mut rig = Rig::new().await;
    let body = welcome(&rig).await;
    rig.fake.script(None, ASSESSED, None);
    let sent = send_waiting(&rig.api, &body, &[("Idempotency-Key", "one")]).await.ok();
    let id = sent["message_id"].as_str().unwrap().to_owned();
    rig.server.crash().await;
    assert_eq!(status(&rig, &id).await, "held");
    let again = send_waiting(&rig.api, &body, &[("Idempotency-Key", "one")]).await.ok();
    assert_eq!(again, sent, "its answer is kept");
    assert_eq!(rig.fake.accepted_of(&id), 1, "it is not handed over again");
}

#[tokio::test]
async fn a_broadcast_counts_what_is_held_back_until_reports_say_more() {
    let rig = rig(0, &[]).await;
    rig.fake.script(None, ASSESSED, None);
    rig.fake.script(Some("15550000000"), Scripted::Error { status: 400, code: 131_026 }, None);
    let path = create(&rig, "sale", 20).await;
    let done = becomes(&rig, &path, "completed").await;
    let counts = done["counts"].as_object().unwrap();
    assert_eq!((&counts["held"], &counts["failed"]), (&json!(19), &json!(1)));
    assert_eq!(counts.values().map(|it| it.as_u64().unwrap()).sum::<u64>(), 20);
    let emitted = rig.api.get("/v1/events?type=broadcast.completed").await.ok();
    let expected = json!({"held": 19, "sent": 0, "failed": 1, "unknown": 0, "suppressed": 0});
    assert_eq!(emitted["data"][0]["data"]["counts"], expected);
    assert_eq!(rig.credits().await, 10_000 - 19, "what is held is paid for");
    for (index, report) in [(1, "sent"), (2, "delivered"), (3, "failed"), (3, "failed")] {
        assert_eq!(post(&rig, &reported(&path, index, report)).await.status, 200);
    }
    let counts = rig.api.get(&path).await.ok()["counts"].clone();
    let of = |name: &str| counts[name].as_u64().unwrap();
    assert_eq!(["held", "sent", "delivered", "failed"].map(of), [16, 1, 1, 2]);
    assert_eq!(rig.credits().await, 10_000 - 18, "the one that was dropped is paid back");
    let rows = rig.api.get(&format!("{path}/recipients?status=held")).await.ok();
    assert_eq!(rows["total"], 16);
}

#[tokio::test]
async fn the_sandbox_holds_back_what_is_scripted_so() {
    let server = crate::support::TestServer::start().await;
    let api = server.demo();
    api.post("/v1/sandbox/outcomes", json!({"to": "*", "outcome": "held"})).await.ok();
    api.put("/v1/sandbox/settings", json!({"auto_deliver": "read"})).await.ok();
    write(&api, "+15550123456").await;
    let body = text("+15550123456");
    let sent = send_waiting(&api, &body, &[]).await.ok();
    assert_eq!(sent["status"], "held");
    let id = sent["message_id"].as_str().unwrap();
    let thread = api.get("/v1/sandbox/phones/+15550123456/thread").await.ok();
    assert_eq!(thread["data"][0]["status"], "held");
    let scripts = api.get("/v1/sandbox/outcomes").await.ok();
    assert_eq!(scripts["data"][0]["outcome"], "held");
    let read = async || api.get(&format!("/v1/messaging/messages/{id}")).await.ok();
    assert_eq!(read().await["status"], "held", "nothing is reported of it by itself");
    let report = json!({"message_id": id, "status": "delivered"});
    api.post("/v1/sandbox/reports", report).await;
    let moved = async || (read().await["status"] == "delivered").then_some(());
    eventually("it is delivered", moved).await;
}
