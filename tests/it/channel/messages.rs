//! Single messages through a number of the Cloud API: the effect of every answer of the channel.

use serde_json::{Value, json};

use crate::channel::callbacks::post;
use crate::channel::cloud_api::{Rig, number};
use crate::fake::{FakeCloudApi, Scripted, callback};
use crate::support::{Reply, eventually};

const UNLIMITED: (&str, &str) = ("LIMITS__KEY_REQUESTS_PER_HOUR", "0");

/// Starts a rig whose number sends so many messages a second; it has a template `welcome`.
async fn rig(messages_per_second: u32) -> Rig {
    let mut number = number();
    number["messages_per_second"] = json!(messages_per_second);
    let rig = Rig::with(&[UNLIMITED], number).await;
    let template = json!({
        "name": "welcome", "language": "en", "category": "utility",
        "components": [{"type": "BODY", "text": "Welcome!"}],
    });
    rig.server.admin().post("/admin/v1/workspaces/acme/templates", template).await.ok();
    rig
}

fn phone(last: usize) -> String {
    format!("+1555123{last:04}")
}

async fn try_send(rig: &Rig, to: &str) -> Reply {
    let body = json!({"to": to, "type": "template", "template": {"name": "welcome"}});
    rig.api.post("/v1/messaging/send", body).await
}

async fn send(rig: &Rig, to: &str) -> String {
    try_send(rig, to).await.ok()["message_id"].as_str().unwrap().to_owned()
}

async fn read(rig: &Rig, id: &str) -> Value {
    rig.api.get(&format!("/v1/messaging/messages/{id}")).await.ok()
}

async fn becomes(rig: &Rig, id: &str, status: &str) {
    let seen = async || (read(rig, id).await["status"] == status).then_some(());
    eventually(&format!("{id} is {status}"), seen).await;
}

/// Returns the `data` of the events of a type, oldest first.
async fn emitted(rig: &Rig, kind: &str) -> Vec<Value> {
    let events = rig.api.get(&format!("/v1/events?limit=200&type={kind}")).await.ok();
    events["data"].as_array().unwrap().iter().map(|event| event["data"].clone()).collect()
}

#[tokio::test]
async fn a_lost_answer_is_never_sent_twice_and_a_report_settles_it() {
    let rig = rig(0).await;
    rig.fake.script(None, Scripted::Lost, Some(1));
    let id = send(&rig, &phone(1)).await;
    becomes(&rig, &id, "unknown").await;
    for _ in 0..3 {
        rig.server.advance(600).await;
    }
    let next = send(&rig, &phone(2)).await;
    becomes(&rig, &next, "sent").await;
    let report = json!({"statuses": [{
        "id": "wamid.1", "status": "delivered", "timestamp": "1750857384", "recipient_id": "1",
        "biz_opaque_callback_data": id,
    }]});
    assert_eq!(post(&rig, &callback("106", report)).await.status, 200);
    becomes(&rig, &id, "delivered").await;
    assert_eq!((rig.fake.accepted_of(&id), rig.fake.requests().len()), (1, 2));
}

/// The effect of an error code on a message.
enum Class {
    /// The number stops, and sends the message when it has recovered.
    Stops,
    /// The message is sent later, and not for so many seconds of engine time.
    Waits(u64),
    /// The message fails.
    Fails,
}

/// The number stops for the `stops`th time, and sends the held message when it has recovered.
async fn stops_and_revives(rig: &Rig, id: &str, code: u32, stops: usize) {
    let stopped = async || emitted(rig, "number.stopped").await;
    let stopped_once = async || (stopped().await.len() == stops).then_some(());
    eventually(&format!("{code} stops it"), stopped_once).await;
    assert_eq!(stopped().await[stops - 1]["error_code"], code);
    try_send(rig, &phone(9999)).await.check(503, "SERVICE_UNAVAILABLE");
    assert_eq!(read(rig, id).await["status"], "queued", "{code}");
    rig.server.advance(61).await;
    becomes(rig, id, "sent").await;
    let revived = async || emitted(rig, "number.recovered").await.len() == stops;
    eventually("it is emitted", async || revived().await.then_some(())).await;
}

async fn waits(rig: &Rig, id: &str, code: u32, seconds: u64) {
    if seconds > 1 {
        rig.server.advance(seconds).await;
        assert_eq!(read(rig, id).await["status"], "queued", "{code}");
    }
    let sent = async || {
        rig.server.advance(1).await;
        (read(rig, id).await["status"] == "sent").then_some(())
    };
    eventually(&format!("{code} is tried again"), sent).await;
}

async fn fails(rig: &Rig, id: &str, code: u32) {
    becomes(rig, id, "failed").await;
    let error = read(rig, id).await["error"].clone();
    let expected =
        json!({"reason": "channel_refused", "code": code, "details": format!("details of {code}")});
    assert_eq!(error, expected);
}

#[tokio::test]
async fn every_error_code_does_what_its_class_says() {
    let rig = rig(0).await;
    let table: [(Class, &[u32]); 5] = [
        (Class::Stops, &[0, 190, 3, 10, 200, 242, 299, 368, 131_031, 131_042]),
        (Class::Waits(1), &[4, 80_007, 130_429, 131_056]),
        (Class::Waits(40), &[131_057]),
        (Class::Waits(0), &[1, 2, 131_000, 131_016]),
        (
            Class::Fails,
            &[
                131_026, 130_472, 131_021, 131_030, 131_051, 100, 131_008, 131_009, 33, 130_497,
                131_047, 131_048, 131_049, 131_050, 132_000, 132_001, 132_005, 132_007, 132_012,
                132_015, 132_016, 99_999,
            ],
        ),
    ];
    let (mut last, mut stops, mut spent) = (0, 0, 0);
    for (class, codes) in table {
        for &code in codes {
            last += 1;
            let to = phone(last);
            // The code decides, not the status.
            let status = [400, 500][usize::from(code % 2 == 0 && code != 99_999)];
            rig.fake.script(Some(&to[1..]), Scripted::Error { status, code }, Some(1));
            let before = rig.fake.requests().len();
            let id = send(&rig, &to).await;
            let once = async || (rig.fake.requests().len() > before).then_some(());
            eventually("the request", once).await;
            match class {
                Class::Stops => {
                    stops += 1;
                    stops_and_revives(&rig, &id, code, stops).await;
                    spent += 1;
                }
                Class::Waits(seconds) => {
                    waits(&rig, &id, code, seconds).await;
                    spent += 1;
                }
                Class::Fails => fails(&rig, &id, code).await,
            }
            // A code for a template that cannot be sent changes the template.
            if [132_015, 132_016].contains(&code) {
                try_send(&rig, &to).await.check(422, "TEMPLATE_NOT_APPROVED");
                let template = "/admin/v1/workspaces/acme/templates/welcome/en";
                let approved = json!({"status": "approved"});
                rig.server.admin().send_json("PATCH", template, &approved).await.ok();
            }
            assert_eq!(rig.credits().await, 1000 - spent, "{code}: what fails is paid back");
            assert!(rig.fake.accepted_of(&id) <= 1, "{code}");
        }
    }
    assert_eq!(emitted(&rig, "number.stopped").await.len(), stops, "nothing else stops it");
}

#[tokio::test]
async fn a_revived_number_sends_what_it_held_in_order() {
    let rig = rig(1).await;
    // While the number is in maintenance, it accepts messages.
    rig.fake.script(None, Scripted::Error { status: 400, code: 131_057 }, Some(1));
    let mut held = vec![send(&rig, &phone(1)).await];
    let asked = async || (rig.fake.requests().len() == 1).then_some(());
    eventually("the first try", asked).await;
    for last in 2..=6 {
        held.push(match last % 2 {
            0 => format!("{}:1", rig.send(&phone(last)).await),
            _ => send(&rig, &phone(last)).await,
        });
    }
    rig.fake.fail(401, 190);
    rig.server.advance(61).await;
    let stopped = async || emitted(&rig, "number.stopped").await.pop();
    let stopped = eventually("the event", stopped).await;
    assert_eq!(stopped["number_id"], rig.number["id"]);
    assert_eq!(stopped["error_code"], 190);
    let refused = try_send(&rig, &phone(7)).await;
    refused.check(503, "SERVICE_UNAVAILABLE");
    assert!((1..=60).contains(&refused.number("retry-after")), "{refused:?}");
    assert_eq!(rig.fake.requests().len(), 2, "one was tried, and the others are held");
    rig.fake.heal();
    let first = async || {
        rig.server.advance(61).await;
        (rig.fake.accepted_count() > 0).then_some(())
    };
    eventually("the first is sent", first).await;
    // The pace is one message a second: time moves when the one before has arrived, claim and all.
    // On a busy machine the number asks for its next second only after the step that it needs.
    for count in 2..=6 {
        rig.server.advance(2).await;
        let mut looks = 0;
        let sent = async || {
            looks += 1;
            if looks % 100 == 0 {
                rig.server.advance(2).await;
            }
            (rig.fake.accepted_count() >= count).then_some(())
        };
        eventually("one more is sent", sent).await;
    }
    let sent: Vec<_> = rig.fake.accepted().into_iter().map(|it| it.opaque).collect();
    assert_eq!(sent.len(), held.len());
    // A code may pass a message whose claim is being committed; those of a kind keep their order.
    for kind in ["msg_", "otp_"] {
        let of = |all: &[String]| -> Vec<String> {
            all.iter().filter(|it| it.starts_with(kind)).cloned().collect()
        };
        assert_eq!(of(&sent), of(&held));
    }
    assert_eq!(emitted(&rig, "number.recovered").await.len(), 1);
}

#[tokio::test]
async fn an_account_fault_that_only_a_report_has_stops_the_number() {
    let rig = rig(0).await;
    let id = send(&rig, &phone(1)).await;
    becomes(&rig, &id, "sent").await;
    let report = json!({"statuses": [{
        "id": "wamid.1", "status": "failed", "timestamp": "1750857384", "recipient_id": "1",
        "biz_opaque_callback_data": id,
        "errors": [{"code": 131_042, "title": "Payment", "error_data": {"details": "unpaid"}}],
    }]});
    for _ in 0..2 {
        assert_eq!(post(&rig, &callback("106", report.clone())).await.status, 200);
    }
    becomes(&rig, &id, "failed").await;
    let stopped = async || emitted(&rig, "number.stopped").await.pop();
    let stopped = eventually("the event", stopped).await;
    assert_eq!((&stopped["error_code"], &stopped["reason"]), (&json!(131_042), &json!("unpaid")));
    assert_eq!(stopped["number_id"], rig.number["id"]);
    try_send(&rig, &phone(2)).await.check(503, "SERVICE_UNAVAILABLE");
    assert_eq!(rig.credits().await, 1000, "it is paid back once");
    rig.server.advance(61).await;
    let next = send(&rig, &phone(2)).await;
    becomes(&rig, &next, "sent").await;
    assert_eq!(emitted(&rig, "number.stopped").await.len(), 1);
}

#[tokio::test]
async fn over_tls_http_2_is_spoken_and_an_own_certificate_can_be_trusted() {
    let (fake, certificate) = FakeCloudApi::start_tls();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("ca.pem");
    std::fs::write(&file, certificate).unwrap();
    let ca_file = ("CLOUD_API__CA_FILE", file.to_str().unwrap());
    let rig = Rig::before(fake, &[UNLIMITED, ca_file], number()).await;
    let ids = [rig.send(&phone(1)).await, rig.send(&phone(2)).await];
    for id in &ids {
        rig.becomes(id, "sent").await;
    }
    assert!(rig.fake.requests().iter().all(|request| request.version == hyper::Version::HTTP_2));
    assert_eq!(rig.fake.most_of_one(), 1);
    let sync = "/admin/v1/workspaces/acme/templates/sync";
    rig.server.admin().post(sync, json!({})).await.ok();

    // An untrusted server receives nothing, not even the token.
    let (fake, _) = FakeCloudApi::start_tls();
    let rig = Rig::before(fake, &[UNLIMITED], number()).await;
    let id = rig.send(&phone(1)).await;
    rig.server.advance(5).await;
    rig.becomes(&id, "queued").await;
    assert!(rig.fake.requests().is_empty());
}
