//! Names, tags and parameters contain no character that controls their display.

use serde_json::json;

use crate::channel::callbacks::post;
use crate::channel::cloud_api::Rig;
use crate::contacts::{CONTACTS, make, path};
use crate::fake::callback;
use crate::support::{TestServer, eventually};

const CONTROLS: [&str; 5] = ["a\u{7}b", "a\nb", "\tab", "a\u{1b}[2Jb", "a\u{85}b"];

#[tokio::test]
async fn a_control_character_is_refused() {
    let server = TestServer::start().await;
    let (api, admin) = (server.workspace("acme").await, server.admin());
    let template = json!({
        "name": "hello", "language": "en", "category": "utility",
        "components": [{"type": "BODY", "text": "Hello {{1}}"}],
    });
    admin.post("/admin/v1/workspaces/acme/templates", template).await.ok();
    let made = make(&api, json!({"name": "Ana"})).await;
    for bad in CONTROLS {
        api.post(CONTACTS, json!({"name": bad})).await.check_field("name");
        api.post(CONTACTS, json!({"name": "a", "tags": ["b", bad]})).await.check_field("tags");
        let change = json!({"name": bad});
        api.send_json("PATCH", &path(&made), &change).await.check_field("name");
        let parameters = json!([{"type": "text", "text": bad}]);
        let sent = json!({
            "to": "+15550123456", "type": "template",
            "template": {"name": "hello", "language": "en",
                "components": [{"type": "body", "parameters": parameters}]},
        });
        let refused = api.post("/v1/messaging/send", sent).await.check(400, "VALIDATION_ERROR");
        let message = refused["message"].as_str().unwrap();
        assert!(message.contains("components[0].parameters[0].text"), "{message}");
    }
}

#[tokio::test]
async fn a_name_that_turns_the_text_around_it_is_cut() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    let name = "\u{202e}gpj.\u{2066}exe\u{2069}\u{202c} Ana \u{200f}";
    let made = make(&api, json!({"name": name})).await;
    assert_eq!(made["name"], "gpj.exe Ana \u{200f}");
    api.post(CONTACTS, json!({"name": "\u{202a}\u{202b}"})).await.check_field("name");
}

#[tokio::test]
async fn a_strangers_name_is_made_harmless() {
    let rig = Rig::new().await;
    let written = callback(
        "106",
        json!({
            "contacts": [{"profile": {"name": "She\u{1b}[2Jen\u{202e}a\n"}, "wa_id": "16505551234"}],
            "messages": [{
                "from": "16505551234", "id": "wamid.in", "timestamp": "1749416383",
                "type": "text", "text": {"body": "Two\nlines"},
            }],
        }),
    );
    assert_eq!(post(&rig, &written).await.status, 200);
    let (_, reader) = rig.server.key("acme", &["contacts:read"], json!({})).await;
    let found =
        async || reader.get(CONTACTS).await.ok()["data"][0]["name"].as_str().map(str::to_owned);
    let name = eventually("the contact", found).await;
    assert_eq!(name, "She\u{fffd}[2Jena\u{fffd}");
    let events = rig.api.get("/v1/events?type=message.received").await.ok();
    assert_eq!(events["data"][0]["data"]["name"], name);
    assert_eq!(events["data"][0]["data"]["text"], "Two\nlines");
}
