//! Codes over several channels, beside a broadcast that uses the whole pace of their number.

use std::time::Duration;

use serde_json::{Value, json};

use crate::channel::cloud_api::{APP_SECRET, Rig, number};
use crate::fake::{Callbacks, Scripted};
use crate::sms_gateway::SmsGateway;
use crate::support::{Api, eventually};

const ACME: &str = "/admin/v1/workspaces/acme";
/// The number's pace, in messages a second.
const PACE: u64 = 5;
/// More recipients than it can send to while the test runs.
const RECIPIENTS: u32 = 3000;
/// The number of codes of each kind.
const CODES: u32 = 10;

fn phone(code: u32) -> String {
    format!("+1556{code:07}")
}

async fn rig(gateway: &SmsGateway) -> Rig {
    let mut paced = number();
    paced["messages_per_second"] = PACE.into();
    let rig = Rig::with(&[], paced).await;
    let admin = rig.server.admin();
    admin.put(&format!("{ACME}/credits"), json!({"credits": 10_000})).await.ok();
    admin.put(&format!("{ACME}/sms"), json!({"kind": "http", "url": gateway.url()})).await.ok();
    for (name, category) in [("sale", "marketing"), ("otp_code", "authentication")] {
        let template = json!({"name": name, "category": category,
            "components": [{"type": "BODY", "text": "{{1}}"}]});
        admin.post(&format!("{ACME}/templates"), template).await.ok();
    }
    rig.fake.call_back(Some(Callbacks {
        server: rig.server.address(),
        path: rig.number["callback_path"].as_str().unwrap().to_owned(),
        app_secret: APP_SECRET.to_owned(),
        statuses: vec!["delivered".to_owned()],
        delay: Duration::ZERO,
        times: 1,
    }));
    rig
}

/// Starts the broadcast; returns its path after the number has sent its first burst.
async fn saturate(rig: &Rig) -> String {
    let recipients: Vec<_> = (0..RECIPIENTS).map(|place| format!("+1555{place:07}")).collect();
    let parameters = [json!({"type": "text", "text": "now"})];
    let sale = json!({"name": "Sale", "template_name": "sale", "recipients": recipients,
        "components": [{"type": "body", "parameters": parameters}]});
    let made = rig.api.post("/v1/messaging/broadcasts", sale).await.ok();
    let begun = async || (rig.fake.accepted_count() > PACE).then_some(());
    eventually("the broadcast uses the number's pace", begun).await;
    format!("/v1/messaging/broadcasts/{}", made["broadcast_id"].as_str().unwrap())
}

/// Sends codes over both channels; returns their ids.
async fn send(api: &Api, codes: std::ops::Range<u32>) -> Vec<String> {
    let mut ids = Vec::new();
    for code in codes {
        // The minimum timeout of a step.
        let chat = json!({"channel": "messaging", "timeout_seconds": 10});
        let body = json!({"phone": phone(code), "channels": [chat, "sms"]});
        let sent = api.post("/v1/otp/send", body).await.ok();
        ids.push(sent["request_id"].as_str().unwrap().to_owned());
    }
    ids
}

/// Returns the tries of a code, as soon as it is delivered.
async fn delivered(api: &Api, id: &str) -> Vec<Value> {
    let is = async || {
        let row = api.get(&format!("/v1/otp/{id}")).await.ok();
        let tries = row["tries"].as_array().unwrap().clone();
        (row["delivery_status"] == "delivered").then_some(tries)
    };
    eventually("a code", is).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broadcast_that_uses_the_whole_number_drives_no_code_to_the_next_channel() {
    let gateway = SmsGateway::start();
    let rig = rig(&gateway).await;
    let broadcast = saturate(&rig).await;
    for id in send(&rig.api, 0..CODES).await {
        let tries = delivered(&rig.api, &id).await;
        assert_eq!((tries.len(), &tries[0]["status"]), (1, &json!("delivered")), "{tries:?}");
    }
    assert!(gateway.received().is_empty(), "{:?}", gateway.received());

    // Refused codes continue at once, each to the gateway, and once.
    for code in CODES..2 * CODES {
        let refused = Scripted::Error { status: 400, code: 131_026 };
        rig.fake.script(phone(code).strip_prefix('+'), refused, None);
    }
    let refused = send(&rig.api, CODES..2 * CODES).await;
    for id in &refused {
        let tries = delivered(&rig.api, id).await;
        assert_eq!((&tries[0]["status"], &tries[0]["error"]), (&json!("failed"), &json!(131_026)));
        assert_eq!((tries.len(), &tries[1]["status"]), (2, &json!("delivered")), "{tries:?}");
        assert_eq!(gateway.times(&format!("{id}:2")), 1);
    }
    assert_eq!(gateway.received().len(), refused.len());
    let broadcast = rig.api.get(&broadcast).await.ok();
    assert_eq!(broadcast["status"], "sending", "it was there all the time: {broadcast}");
}
