//! Messages, codes and recipients are shown with the person's name, and messages with their text.

use serde_json::{Value, json};

use super::{send_waiting, text, write};
use crate::operation::files::file;
use crate::otp::verify;
use crate::support::{Api, TestServer, eventually};

const ANA: &str = "+15550123456";
const BO: &str = "+15550123457";
const HELLO: &str = "Your table is ready.";
const MESSAGES: &str = "/v1/messaging/messages";

/// Sends a template with these parameters of its body. Returns the message's path.
async fn template(api: &Api, to: &str, name: &str, parameters: &[&str]) -> String {
    let parameters: Vec<_> =
        parameters.iter().map(|it| json!({"type": "text", "text": it})).collect();
    let components = json!([{"type": "body", "parameters": parameters}]);
    let template = json!({"name": name, "language": "en", "components": components});
    sent(api, &json!({"to": to, "type": "template", "template": template})).await
}

async fn sent(api: &Api, body: &Value) -> String {
    let reply = send_waiting(api, body, &[]).await.ok();
    format!("{MESSAGES}/{}", reply["message_id"].as_str().unwrap())
}

/// Has the server a contact for Ana. Returns how rows name her.
async fn ana(api: &Api) -> Value {
    let made = api.post("/v1/contacts", json!({"name": "Ana Souza", "phone": ANA})).await.ok();
    json!({"contact_id": made["id"], "name": "Ana Souza"})
}

#[tokio::test]
async fn a_message_is_shown_with_its_text_and_its_person() {
    let mut server = TestServer::start().await;
    let api = server.demo();
    let ana = ana(&api).await;
    write(&api, BO).await;
    let update = template(&api, ANA, "order_update", &["7", "Friday"]).await;
    let hello = sent(&api, &text(BO)).await;
    let secret = template(&api, ANA, "otp_code", &["483920"]).await;
    for restarted in [false, true] {
        if restarted {
            server.restart().await;
        }
        let api = server.demo();
        let update = api.get(&update).await.ok();
        let shown = update["text"].as_str().unwrap();
        assert!(shown.contains('7') && shown.contains("Friday"), "{shown}");
        assert_eq!(update["contact"], ana);
        let hello = api.get(&hello).await.ok();
        // A person who writes is a contact, named by the phone at first.
        assert_eq!((&hello["text"], &hello["contact"]["name"]), (&json!(HELLO), &json!(BO)));
        let secret = api.get(&secret).await.ok();
        assert_eq!((&secret["text"], &secret["contact"]), (&Value::Null, &ana));
        assert_eq!(api.get(MESSAGES).await.ok()["data"], json!([secret, hello, update]));
        // A key that only sends learns neither names nor what others wrote.
        let (_, sender) = server.key("demo", &["messaging:send"], json!({})).await;
        let rows = sender.get(MESSAGES).await.ok()["data"].clone();
        assert_eq!(rows.as_array().unwrap().len(), 3);
        for row in rows.as_array().unwrap() {
            assert_eq!((&row["text"], &row["contact"]), (&Value::Null, &Value::Null));
        }
    }
}

#[tokio::test]
async fn a_broadcasts_message_is_shown_as_its_recipient_reads_it() {
    let server = TestServer::start().await;
    let api = server.demo();
    let ana = ana(&api).await;
    let recipients = json!([
        {"to": ANA, "variables": ["7", "Friday"]}, {"to": BO, "variables": ["8", "Monday"]}
    ]);
    let body = json!({"name": "Orders", "template_name": "order_update", "recipients": recipients});
    let made = api.post("/v1/messaging/broadcasts", body).await.ok();
    let path = format!("/v1/messaging/broadcasts/{}", made["broadcast_id"].as_str().unwrap());
    eventually("completed", async || {
        (api.get(&path).await.ok()["status"] == "completed").then_some(())
    })
    .await;
    let rows = api.get(&format!("{path}/recipients")).await.ok()["data"].clone();
    let names: Vec<_> = rows.as_array().unwrap().iter().map(|row| &row["contact"]).collect();
    assert_eq!(names, [&ana, &Value::Null]);
    let of = format!("{MESSAGES}?broadcast_id={}", made["broadcast_id"].as_str().unwrap());
    let listed = api.get(&of).await.ok()["data"].clone();
    assert_eq!(listed.as_array().unwrap().len(), 2);
    for (row, day) in listed.as_array().unwrap().iter().zip(["Monday", "Friday"]) {
        assert!(row["text"].as_str().unwrap().contains(day), "{row}");
        let path = format!("{MESSAGES}/{}", row["message_id"].as_str().unwrap());
        assert_eq!(api.get(&path).await.ok(), *row);
    }
    let (_, sender) = server.key("demo", &["messaging:send"], json!({})).await;
    let row = sender.get(&format!("{path}/recipients")).await.ok()["data"][0].clone();
    assert_eq!((&row["to"], &row["contact"]), (&json!(ANA), &Value::Null));
    // Nor does a preview tell it names.
    let body = json!({"name": "Orders", "template_name": "order_update", "recipients": recipients});
    for (api, name) in [(&api, &ana["name"]), (&sender, &Value::Null)] {
        let preview = api.post("/v1/messaging/broadcasts/preview", body.clone()).await.ok();
        assert_eq!(
            (&preview["samples"][0]["to"], &preview["samples"][0]["name"]),
            (&json!(ANA), name)
        );
    }
}

#[tokio::test]
async fn no_text_of_an_authentication_template_is_shown_anywhere() {
    let server = TestServer::start().await;
    let api = server.demo();
    write(&api, ANA).await;
    let message = template(&api, ANA, "otp_code", &["483920"]).await;
    assert_eq!(api.get(&message).await.ok()["text"], Value::Null);
    let conversation = api.get("/v1/conversations").await.ok()["data"][0].clone();
    assert_eq!(conversation["last_message"], "[template]");
    let path = format!("/v1/conversations/{}/messages", conversation["id"].as_str().unwrap());
    let newest = api.get(&path).await.ok()["data"][0].clone();
    assert_eq!((&newest["type"], &newest["text"]), (&json!("template"), &json!("")));
    // The phone shows it.
    let phone = api.get("/v1/sandbox/messages?limit=1").await.ok();
    assert!(phone["data"][0]["text"].as_str().unwrap().contains("483920"), "{phone}");
}

#[tokio::test]
async fn texts_are_deleted_with_their_contact() {
    let mut server = TestServer::start().await;
    let api = server.demo();
    write(&api, BO).await;
    let ana = ana(&api).await;
    let settled = template(&api, ANA, "order_update", &["7", "Friday"]).await;
    let other = sent(&api, &text(BO)).await;
    // One more has its outcome after the contact is deleted.
    api.post("/v1/sandbox/outcomes", json!({"to": ANA, "outcome": "slow", "times": 1})).await.ok();
    let welcome = json!({"name": "welcome", "language": "en"});
    let body = json!({"to": ANA, "type": "template", "template": welcome});
    let reply = api.post("/v1/messaging/send", body).await.ok();
    let waiting = format!("{MESSAGES}/{}", reply["message_id"].as_str().unwrap());
    let path = format!("/v1/contacts/{}", ana["contact_id"].as_str().unwrap());
    assert_eq!(api.delete(&path).await.status, 204);
    // The phone's next contacts are deleted before the sweep has ended.
    for _ in 0..5 {
        let made = api.post("/v1/contacts", json!({"name": "Ana", "phone": ANA})).await.ok();
        let path = format!("/v1/contacts/{}", made["id"].as_str().unwrap());
        assert_eq!(api.delete(&path).await.status, 204);
    }
    for path in [&settled, &waiting] {
        eventually("its text is deleted", async || {
            api.get(path).await.ok()["text"].is_null().then_some(())
        })
        .await;
    }
    eventually("the last is sent", async || {
        (api.get(&waiting).await.ok()["status"] == "sent").then_some(())
    })
    .await;
    server.advance(1).await;
    let later = template(&api, ANA, "order_update", &["8", "Monday"]).await;
    for restarted in [false, true] {
        if restarted {
            server.restart().await;
        }
        let api = server.demo();
        for path in [&settled, &waiting] {
            assert_eq!(api.get(path).await.ok()["text"], Value::Null, "{path}");
        }
        for path in [&other, &later] {
            assert!(api.get(path).await.ok()["text"].is_string(), "{path}");
        }
        assert_eq!(
            api.get(&format!("{MESSAGES}?to={}", ANA.replace('+', "%2B"))).await.ok()["data"]
                .as_array()
                .unwrap()
                .len(),
            3
        );
    }
}

#[tokio::test]
async fn texts_to_a_former_phone_and_of_a_broadcast_go_too() {
    let server = TestServer::start().await;
    let api = server.demo();
    let ana = ana(&api).await;
    let path = format!("/v1/contacts/{}", ana["contact_id"].as_str().unwrap());
    let settled = template(&api, ANA, "order_update", &["7", "Friday"]).await;
    let recipients = json!([{"to": "+15550123459", "variables": ["8", "Monday"]}]);
    let body = json!({"name": "Orders", "template_name": "order_update", "recipients": recipients});
    let made = api.post("/v1/messaging/broadcasts", body).await.ok();
    let of = format!("{MESSAGES}?broadcast_id={}", made["broadcast_id"].as_str().unwrap());
    let text = async || api.get(&of).await.ok()["data"][0]["text"].clone();
    eventually("it is shown", async || text().await.is_string().then_some(())).await;
    let changed = json!({"name": "Ana Souza", "phone": "+15550123459"});
    api.send_json("PATCH", &path, &changed).await.ok();
    eventually("the text to the former phone is deleted", async || {
        api.get(&settled).await.ok()["text"].is_null().then_some(())
    })
    .await;
    assert!(text().await.is_string());
    assert_eq!(api.delete(&path).await.status, 204);
    assert_eq!(text().await, Value::Null);
}

#[tokio::test]
async fn a_code_is_read_as_it_is_listed() {
    let mut server = TestServer::start().await;
    let api = server.demo();
    let ana = ana(&api).await;
    let made = api.post("/v1/otp/send", json!({"phone": ANA})).await.ok();
    let id = made["request_id"].as_str().unwrap();
    let path = format!("/v1/otp/{id}");
    let rows = async |api: &Api| {
        let listed = api.get("/v1/otp").await.ok()["data"][0].clone();
        let read = api.get(&path).await.ok();
        assert_eq!(read, listed);
        read
    };
    eventually("it is sent", async || {
        (api.get(&path).await.ok()["delivery_status"] == "sent").then_some(())
    })
    .await;
    let active = rows(&api).await;
    assert_eq!((&active["contact"], &active["verified_at"]), (&ana, &Value::Null));
    let code = server.code(&api, ANA).await;
    server.advance(5).await;
    verify(&api, id, &code).await.ok();
    let verified = rows(&api).await;
    assert!(verified["verified_at"].is_string() && verified["ended_at"].is_string());
    server.restart().await;
    assert_eq!(rows(&server.demo()).await, verified);
    server.advance(2 * 3600).await;
    assert_eq!(rows(&server.demo()).await["verified_at"], verified["verified_at"]);
    let (_, sender) = server.key("demo", &["messaging:send"], json!({})).await;
    assert_eq!(rows(&sender).await["contact"], Value::Null);
}

#[tokio::test]
async fn messages_and_codes_are_saved_as_files() {
    let server = TestServer::start().await;
    let api = server.demo();
    write(&api, BO).await;
    for number in 0..3 {
        template(&api, ANA, "order_update", &[&format!("={number}"), "Friday, \"noon\""]).await;
    }
    let hello = sent(&api, &text(BO)).await;
    for _ in 0..3 {
        api.post("/v1/otp/send", json!({"phone": BO, "reference": "sign-in"})).await.ok();
    }
    let file = async |api: &Api, path: &str| -> Vec<Vec<String>> {
        let text = file(&server, api, path, "text/csv").await.text;
        let mut lines = csv::ReaderBuilder::new();
        let mut lines = lines.has_headers(false).from_reader(text.as_bytes());
        lines.records().map(|row| row.unwrap().iter().map(str::to_owned).collect()).collect()
    };
    let rows = file(&api, MESSAGES).await;
    assert_eq!(rows.len(), 5, "{rows:?}");
    assert_eq!(rows[0][..7], ["message_id", "to", "name", "type", "template", "language", "text"]);
    assert_eq!((&*rows[1][0], &*rows[1][6]), (hello.rsplit('/').next().unwrap(), HELLO));
    assert!(rows.iter().all(|row| row.len() == rows[0].len()));
    assert!(rows[2][6].contains("=2, your order Friday, \"noon\""), "{:?}", rows[2]);
    let some = file(&api, &format!("{MESSAGES}?to=%2B15550123457&limit=1")).await;
    assert_eq!(some[1..], rows[1..2]);
    let codes = file(&api, "/v1/otp?reference=sign-in&limit=1").await;
    assert_eq!((codes.len(), &codes[0][1], &codes[1][1]), (4, &"phone".to_owned(), &BO.to_owned()));
    assert_eq!(file(&api, "/v1/otp?reference=other").await, codes[..1]);
    // A key that only sends gets the rows without what others wrote.
    let (_, sender) = server.key("demo", &["messaging:send"], json!({})).await;
    let hidden = file(&sender, MESSAGES).await;
    assert_eq!(hidden.len(), rows.len());
    assert!(hidden[1..].iter().all(|row| row[2].is_empty() && row[6].is_empty()));
    // More rows than one part of a file has.
    let phones: Vec<_> = (0..1_001).map(|number| format!("+1555{number:07}")).collect();
    let body = json!({"name": "Sale", "template_name": "spring_sale", "recipients": phones});
    let made = api.post("/v1/messaging/broadcasts", body).await.ok();
    let id = made["broadcast_id"].as_str().unwrap();
    let many = file(&api, &format!("{MESSAGES}?broadcast_id={id}")).await;
    let mut to: Vec<_> = many[1..].iter().map(|row| &row[1]).collect();
    to.sort_unstable();
    assert_eq!(to, phones.iter().collect::<Vec<_>>());
    for action in ["messages.export", "otp.export"] {
        let path = format!("/admin/v1/audit?action={action}");
        let records = server.admin().get(&path).await.ok()["data"].clone();
        let of_demo = |record: &&Value| record["actor"]["name"] == "demo";
        assert_eq!(records.as_array().unwrap().iter().filter(of_demo).count(), 1, "{records}");
    }
}
