//! Numbers of the chat-app channel's Cloud API, against a fake of it.

use std::time::Duration;

use serde_json::{Value, json};

use crate::fake::{FakeCloudApi, Limit, Scripted, template};
use crate::otp::verify;
use crate::support::{Api, TestServer, eventually};

pub const APP_SECRET: &str = "app-secret-of-the-number";
pub const TOKEN: &str = "bearer-token-of-the-number";
pub const VERIFY_TOKEN: &str = "verify-token-of-the-number";
const NUMBERS: &str = "/admin/v1/workspaces/acme/numbers";
const PHONE: &str = "+15551234567";
const DIGITS: &str = "15551234567";

/// A server whose workspace `acme` sends through a fake.
pub struct Rig {
    pub fake: FakeCloudApi,
    pub server: TestServer,
    pub api: Api,
    pub number: Value,
}

pub fn number() -> Value {
    json!({
        "kind": "cloud_api", "phone": "+15550001111", "phone_number_id": "106", "account_id": "107",
        "token": TOKEN, "app_secret": APP_SECRET, "verify_token": VERIFY_TOKEN,
    })
}

impl Rig {
    pub async fn new() -> Self {
        Self::with(&[], number()).await
    }

    pub async fn with(settings: &[(&str, &str)], number: Value) -> Self {
        Self::before(FakeCloudApi::start(), settings, number).await
    }

    pub async fn before(fake: FakeCloudApi, settings: &[(&str, &str)], number: Value) -> Self {
        fake.set_token(TOKEN);
        let base_url = fake.base_url();
        let settings = [settings, &[("CLOUD_API__BASE_URL", base_url.as_str())]].concat();
        let server = TestServer::with(&settings).await;
        let admin = server.admin();
        let acme = json!({"id": "acme", "name": "Acme"});
        admin.post("/admin/v1/workspaces", acme).await.ok();
        admin.put("/admin/v1/workspaces/acme/credits", json!({"credits": 1000})).await.ok();
        let number = admin.post(NUMBERS, number).await.ok();
        let (_, api) = server.key("acme", &["messaging:send", "webhooks:manage"], json!({})).await;
        Self { fake, server, api, number }
    }

    /// Sends a one-time password; returns the request's id. The template for it is created first.
    pub async fn send(&self, phone: &str) -> String {
        let body = json!({"phone": phone});
        let mut sent = self.api.post("/v1/otp/send", &body).await;
        if sent.status == 422 {
            // Tests of templates have only their own templates.
            let button = json!({"type": "BUTTONS", "buttons": [{"type": "OTP"}]});
            let template = json!({"name": "otp_code", "language": "en",
                "category": "authentication", "components": [{"type": "BODY"}, button]});
            let templates = "/admin/v1/workspaces/acme/templates";
            self.server.admin().post(templates, template).await.ok();
            sent = self.api.post("/v1/otp/send", &body).await;
        }
        sent.ok()["request_id"].as_str().unwrap().to_owned()
    }

    /// Waits until a request's message has this status.
    pub async fn becomes(&self, id: &str, status: &str) {
        let path = format!("/v1/otp/{id}");
        let seen =
            async || (self.api.get(&path).await.ok()["delivery_status"] == status).then_some(());
        eventually(status, seen).await;
    }
}

/// Returns the code in a request that the fake received.
fn code(body: &Value) -> String {
    body["template"]["components"][0]["parameters"][0]["text"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_code_goes_out_as_an_authentication_template() {
    let rig = Rig::new().await;
    let id = rig.send(PHONE).await;
    rig.becomes(&id, "sent").await;
    let [request] = &rig.fake.requests()[..] else { panic!("one request") };
    assert_eq!(request.path, "/v24.0/106/messages");
    assert_eq!(request.authorization, format!("Bearer {TOKEN}"));
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    let code = code(&body);
    assert_eq!(
        body,
        json!({
            "messaging_product": "whatsapp", "recipient_type": "individual", "to": DIGITS,
            "type": "template",
            "template": {
                "name": "otp_code", "language": {"code": "en"},
                "components": [
                    {"type": "body", "parameters": [{"type": "text", "text": code}]},
                    {"type": "button", "sub_type": "url", "index": "0",
                     "parameters": [{"type": "text", "text": code}]},
                ],
            },
            "biz_opaque_callback_data": format!("{id}:1"),
        })
    );
    verify(&rig.api, &id, &code).await.ok();
    assert_eq!(rig.credits().await, 999);
}

#[tokio::test]
async fn what_is_refused_fails_with_the_channels_code() {
    let rig = Rig::new().await;
    rig.fake.script(None, Scripted::Error { status: 400, code: 131_026 }, Some(1));
    let id = rig.send(PHONE).await;
    rig.becomes(&id, "failed").await;
    let failed = rig.api.get("/v1/events?type=otp.failed").await.ok();
    assert_eq!(failed["data"][0]["data"]["error_code"], 131_026);
    assert_eq!(rig.credits().await, 1000, "it is paid back");
}

#[tokio::test]
async fn a_code_whose_answer_was_lost_goes_out_again() {
    let rig = Rig::new().await;
    rig.fake.script(None, Scripted::Lost, Some(1));
    let id = rig.send(PHONE).await;
    rig.becomes(&id, "unknown").await;
    rig.server.advance(9).await;
    assert_eq!(rig.taken(&id), 1, "a report is waited for");
    rig.server.advance(2).await;
    rig.becomes(&id, "sent").await;
    let requests = rig.fake.requests();
    assert_eq!((rig.taken(&id), requests.len()), (2, 2));
    assert_eq!(requests[0].body, requests[1].body, "the same code");
    assert_eq!(rig.credits().await, 999);
}

#[tokio::test]
async fn an_answer_that_is_late_is_lost() {
    let rig = Rig::with(&[("CLOUD_API__TIMEOUT_SECONDS", "1")], number()).await;
    rig.fake.script(None, Scripted::Slow(Duration::from_secs(30)), Some(1));
    let id = rig.send(PHONE).await;
    rig.becomes(&id, "unknown").await;
    assert_eq!(rig.taken(&id), 1);
}

#[tokio::test]
async fn what_cannot_be_reached_gets_it_later() {
    let mut rig = Rig::new().await;
    let address = rig.fake.address();
    // Nobody listens on this address for now.
    rig.fake = FakeCloudApi::start();
    let ended = async || tokio::net::TcpStream::connect(address).await.is_err().then_some(());
    eventually("the end of the first fake", ended).await;
    let id = rig.send(PHONE).await;
    rig.server.advance(1).await;
    rig.becomes(&id, "queued").await;
    rig.fake = FakeCloudApi::listen(address);
    let sent = async || {
        rig.server.advance(1).await;
        (rig.taken(&id) == 1).then_some(())
    };
    eventually("it is sent", sent).await;
    rig.becomes(&id, "sent").await;
    assert_eq!(rig.fake.requests().len(), 1);
}

#[tokio::test]
async fn transient_errors_are_tried_again() {
    for (status, code) in [(500, 131_000), (400, 131_016), (503, 777), (400, 2)] {
        let rig = Rig::new().await;
        rig.fake.script(None, Scripted::Error { status, code }, Some(2));
        let id = rig.send(PHONE).await;
        let sent = async || {
            rig.server.advance(1).await;
            (rig.taken(&id) == 1).then_some(())
        };
        eventually("it is sent", sent).await;
        rig.becomes(&id, "sent").await;
        assert_eq!(rig.fake.requests().len(), 3, "{code}");
    }
}

#[tokio::test]
async fn numbers_are_listed_without_secrets_and_outlive_a_restart() {
    let mut rig = Rig::new().await;
    let id = rig.number["id"].as_str().unwrap().to_owned();
    assert_eq!(rig.number["callback_path"], format!("/channels/cloud-api/{id}"));
    let list = rig.server.admin().get(NUMBERS).await;
    let listed = &list.ok()["data"][0];
    let is_listed = |(field, value): (&String, &Value)| listed[field] == *value;
    assert!(rig.number.as_object().unwrap().iter().all(is_listed), "{listed}");
    for secret in [TOKEN, APP_SECRET, VERIFY_TOKEN] {
        assert!(!list.text().contains(secret));
        assert!(!rig.number.to_string().contains(secret));
    }
    rig.server.restart().await;
    let sent = rig.send(PHONE).await;
    rig.becomes(&sent, "sent").await;
    rig.server.stop();
    for file in files(&rig.server.data_dir()) {
        let bytes = std::fs::read(&file).unwrap();
        for secret in [TOKEN, APP_SECRET, VERIFY_TOKEN] {
            let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "{} has a secret", file.display());
        }
    }
    assert!(!rig.server.log().contains(TOKEN));
}

fn files(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[tokio::test]
async fn a_number_must_make_sense() {
    let server = TestServer::start().await;
    server.workspace("acme").await;
    let admin = server.admin();
    let with = |name: &str, value: Value| {
        let mut body = number();
        body[name] = value;
        body
    };
    for (name, values) in [
        ("kind", vec![json!("whatsapp"), json!(""), json!("custom")]),
        ("phone", vec![json!(null), json!("15550001111"), json!(7)]),
        ("phone_number_id", vec![json!(null), json!(""), json!("1/2"), json!("../1")]),
        ("account_id", vec![json!(null), json!("a b")]),
        ("token", vec![json!(null), json!(""), json!("a\nb"), json!("x".repeat(1025))]),
        ("app_secret", vec![json!(null), json!("")]),
        ("verify_token", vec![json!(null), json!("ä")]),
        ("messages_per_second", vec![json!(-1), json!("80"), json!(100_001)]),
    ] {
        for value in values {
            admin.post(NUMBERS, with(name, value)).await.check_field(name);
        }
    }
    let unknown = "/admin/v1/workspaces/nobody/numbers";
    admin.post(unknown, number()).await.check(404, "NOT_FOUND");
    let set = admin.post(NUMBERS, with("messages_per_second", json!(5))).await.ok();
    assert_eq!((&set["messages_per_second"], &set["phone"]), (&json!(5), &json!("+15550001111")));
}

#[tokio::test]
async fn throttles_are_no_failures() {
    let rig = Rig::new().await;
    rig.fake.limit_number(Some(Limit { per_second: 20.0, burst: 2.0 }));
    let mut sent = Vec::new();
    for last in 0..8 {
        sent.push(rig.send(&format!("+1555123456{last}")).await);
    }
    let all = async || {
        rig.server.advance(1).await;
        (rig.fake.accepted_count() == 8).then_some(())
    };
    eventually("all are taken", all).await;
    for id in &sent {
        rig.becomes(id, "sent").await;
    }
    assert_eq!(rig.fake.most_of_one(), 1);
}

#[tokio::test]
async fn an_account_fault_holds_everything_until_it_is_mended() {
    let rig = Rig::new().await;
    rig.fake.fail(401, 190);
    let first = rig.send(PHONE).await;
    let emitted = async |kind: &str| {
        let events = rig.api.get(&format!("/v1/events?type={kind}")).await.ok();
        events["data"].as_array().unwrap().first().map(|event| event["data"].clone())
    };
    let stopped = eventually("the event", async || emitted("number.stopped").await).await;
    assert_eq!(stopped["number_id"], rig.number["id"]);
    assert_eq!(
        (&stopped["error_code"], &stopped["reason"]),
        (&json!(190), &json!("details of 190"))
    );
    let refused = rig.api.post("/v1/otp/send", json!({"phone": PHONE})).await;
    refused.check(503, "SERVICE_UNAVAILABLE");
    assert!((1..=60).contains(&refused.number("retry-after")), "{refused:?}");
    rig.becomes(&first, "queued").await;
    rig.fake.heal();
    assert_eq!(rig.fake.requests().len(), 1, "it is left alone");
    rig.server.advance(61).await;
    rig.becomes(&first, "sent").await;
    let recovered = eventually("the event", async || emitted("number.recovered").await).await;
    assert_eq!(recovered, json!({"number_id": rig.number["id"]}));
    let second = rig.send(PHONE).await;
    rig.becomes(&second, "sent").await;
    assert_eq!((rig.fake.most_of_one(), rig.credits().await), (1, json!(998)));
}

#[tokio::test]
async fn a_recipient_of_too_many_waits_alone() {
    let rig = Rig::new().await;
    let too_many = Scripted::Error { status: 400, code: 131_056 };
    rig.fake.script(Some(DIGITS), too_many, Some(1));
    let held = rig.send(PHONE).await;
    let other = rig.send("+15557654321").await;
    rig.becomes(&other, "sent").await;
    let sent = async || {
        rig.server.advance(1).await;
        (rig.taken(&held) == 1).then_some(())
    };
    eventually("it is sent", sent).await;
    rig.becomes(&held, "sent").await;
    assert_eq!(rig.fake.requests().len(), 3);
}

#[tokio::test]
async fn a_template_goes_out_with_its_parameters() {
    let rig = Rig::new().await;
    let template = json!({
        "name": "order_update", "language": "en_US", "category": "utility",
        "components": [{"type": "BODY", "text": "Hello {{1}}, order {{2}} is on its way."}],
    });
    let templates = "/admin/v1/workspaces/acme/templates";
    rig.server.admin().post(templates, template).await.ok();
    let parameters = json!([{"type": "body", "parameters": [
        {"type": "text", "text": "Ada \"the\" 1st"}, {"type": "text", "text": "7"},
    ]}]);
    let body = json!({"to": PHONE, "type": "template", "template": {
        "name": "order_update", "language": "en_US", "components": parameters,
    }});
    let sent = rig.api.post("/v1/messaging/send", body).await.ok();
    eventually("it is taken", async || rig.fake.accepted().pop()).await;
    let body = rig.fake.accepted().pop().unwrap().body;
    let expected = json!({
        "messaging_product": "whatsapp", "recipient_type": "individual", "to": DIGITS,
        "type": "template",
        "template": {
            "name": "order_update", "language": {"code": "en_US"}, "components": parameters,
        },
        "biz_opaque_callback_data": sent["message_id"],
    });
    assert_eq!(body, expected);
}

#[tokio::test]
async fn a_pace_of_its_own_delays_a_number() {
    let mut slow = number();
    slow["messages_per_second"] = json!(2);
    let rig = Rig::with(&[("LIMITS__NUMBER_MESSAGES_PER_SECOND", "1000")], slow).await;
    let mut sent = Vec::new();
    for last in 0..5 {
        sent.push(rig.send(&format!("+1555123456{last}")).await);
    }
    for id in &sent {
        rig.becomes(id, "sent").await;
    }
    let order: Vec<_> = rig.fake.accepted().into_iter().map(|it| it.opaque).collect();
    assert_eq!(order.len(), 5);
    assert!(order[4].starts_with(&*sent[4]), "the last one waited");
}

#[tokio::test]
async fn templates_are_brought_up_to_date_with_the_channels() {
    let rig = Rig::new().await;
    let admin = rig.server.admin();
    let templates = "/admin/v1/workspaces/acme/templates";
    let own = json!({
        "name": "t1", "language": "en", "category": "utility",
        "components": [{"type": "BODY", "text": "Old"}],
    });
    admin.post(templates, own).await.ok();
    let listed = |status: &str| {
        let all = (0..5).map(|n| template(&format!("t{n}"), "en", "MARKETING", status, "New"));
        // Templates that cannot be ours are passed over.
        let odd = [template("T!", "en", "UTILITY", status, "x"), json!({"name": "t9"})];
        all.chain(odd).collect()
    };
    rig.fake.set_templates(listed("APPROVED"));
    let sync = format!("{templates}/sync");
    let synced = admin.post(&sync, json!({})).await.ok();
    let rows = synced["data"].as_array().unwrap();
    assert_eq!(rows.len(), 5, "from several pages");
    for row in rows {
        assert_eq!((&row["status"], &row["category"]), (&json!("approved"), &json!("marketing")));
        assert_eq!(row["components"], json!([{"type": "BODY", "text": "New"}]));
    }
    rig.fake.set_templates(listed("PAUSED"));
    let synced = admin.post(&sync, json!({})).await.ok();
    assert!(synced["data"].as_array().unwrap().iter().all(|row| row["status"] == "paused"));
    let events = rig.api.get("/v1/events?type=template.status_changed").await.ok();
    assert_eq!(events["data"].as_array().unwrap().len(), 5);
    assert_eq!(admin.post(&sync, json!({})).await.ok(), synced, "nothing has changed");
    rig.fake.set_token("another");
    let refused = admin.post(&sync, json!({})).await;
    let message = refused.check(503, "SERVICE_UNAVAILABLE")["message"].clone();
    assert!(message.as_str().unwrap().contains("details of 190"), "{message}");
}
