//! `kill -9` during a broadcast, with a provider that counts what it takes.

use serde_json::{Value, json};

use crate::fake::FakeCloudApi;

use super::client::{Answer, Client, Outcome};
use super::process::Process;

const RECIPIENTS: u64 = 10_000;
const KILLS: u64 = 3;
const PATH: &str = "/v1/messaging/broadcasts";
pub const ACME: &str = "/admin/v1/workspaces/acme";

pub async fn made(client: &mut Client, path: &str, body: Value) -> Value {
    match client.post(path, &body).await {
        Outcome::Answered(Answer { status: 200 | 201, body, .. }) => body,
        other => panic!("{path}: {other:?}"),
    }
}

/// Makes a workspace that sends through the fake and can pay for so many; gives its key.
pub async fn prepare(process: &Process, credits: u64) -> String {
    let mut admin = process.admin();
    let acme = json!({"id": "acme", "name": "Acme"});
    made(&mut admin, "/admin/v1/workspaces", acme).await;
    made(&mut admin, &format!("{ACME}/credits"), json!({"add": credits})).await;
    let mut number = crate::cloud_api::number();
    number["messages_per_second"] = 0.into();
    made(&mut admin, &format!("{ACME}/numbers"), number).await;
    let template = json!({
        "name": "sale", "category": "marketing", "components": [{"type": "BODY", "text": "Sale"}],
    });
    made(&mut admin, &format!("{ACME}/templates"), template).await;
    let key = json!({"name": "test", "scopes": ["messaging:send"]});
    let key = made(&mut admin, &format!("{ACME}/keys"), key).await;
    key["key"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broadcast_goes_on_after_kill_9_and_sends_nothing_twice() {
    let dir = tempfile::tempdir().unwrap();
    let fake = FakeCloudApi::start();
    let base_url = fake.base_url();
    let settings =
        [("CLOUD_API__BASE_URL", base_url.as_str()), ("LIMITS__KEY_REQUESTS_PER_HOUR", "0")];
    let mut process = Process::start_with(dir.path(), &settings);
    let key = prepare(&process, RECIPIENTS).await;
    let mut api = Client::new(process.address(), &key);
    let phones: Vec<_> = (0..RECIPIENTS).map(|number| format!("+1555{number:07}")).collect();
    let sale = json!({"name": "Sale", "template_name": "sale", "recipients": phones});
    let sale = made(&mut api, PATH, sale).await;
    let path = format!("{PATH}/{}", sale["broadcast_id"].as_str().unwrap());
    for kill in 1..=KILLS {
        while fake.accepted_count() < kill * RECIPIENTS / 8 {
            tokio::task::yield_now().await;
        }
        process.kill();
        process = Process::start_with(dir.path(), &settings);
    }
    let mut api = Client::new(process.address(), &key);
    let mut done = api.fetch(&path).await;
    while done["status"] != "completed" {
        assert!(["queued", "sending"].contains(&done["status"].as_str().unwrap()), "{done}");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        done = api.fetch(&path).await;
    }
    let of = |name: &str| done["counts"][name].as_u64().unwrap();
    assert_eq!(of("sent") + of("unknown"), RECIPIENTS, "{done}");
    assert_eq!(fake.most_of_one(), 1, "somebody got it twice");
    let taken = fake.accepted_count();
    assert!(of("sent") <= taken && taken <= RECIPIENTS, "{taken}: {done}");
    // At most two windows were with the number at each kill.
    assert!(of("unknown") <= KILLS * 1000, "{done}");
    let left = process.admin().fetch(ACME).await["credits"].clone();
    assert_eq!(left, 0);
}
