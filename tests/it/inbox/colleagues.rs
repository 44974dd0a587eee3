//! The agents' shared data: notes, quick replies, and the sign that somebody is answering.

use serde_json::{Value, json};

use crate::people;
use crate::support::{Api, TestServer};

/// Returns the path of the conversation of a contact who has written.
async fn conversation(api: &Api, from: &str) -> String {
    api.post("/v1/sandbox/inbound", json!({"from": from, "text": "hello", "name": "Ana"}))
        .await
        .ok();
    let listed = api.get("/v1/conversations?limit=1").await.ok();
    format!("/v1/conversations/{}", listed["data"][0]["id"].as_str().unwrap())
}

fn texts(answer: &Value) -> Vec<&str> {
    answer["data"].as_array().unwrap().iter().map(|it| it["text"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn notes_are_kept_and_go_with_their_conversation() {
    let mut server = TestServer::start().await;
    let acme = server.workspace("acme").await;
    let notes = format!("{}/notes", conversation(&acme, "+15550123456").await);
    let agent = people::member(&server, "acme", "agent").await;
    for text in ["one", "two\nlines", "three"] {
        let made = agent.post(&notes, json!({ "text": text })).await;
        assert_eq!((made.status, &made.json()["text"]), (201, &json!(text)));
    }
    let first = agent.get(&format!("{notes}?limit=2")).await.ok();
    assert_eq!(texts(&first), ["three", "two\nlines"]);
    let author = &first["data"][0]["author"];
    assert_eq!(
        (&author["kind"], &author["name"]),
        (&json!("user"), &json!("agent@acme.example.com"))
    );
    let cursor = first["next_cursor"].as_str().unwrap();
    let rest = agent.get(&format!("{notes}?limit=2&cursor={cursor}")).await.ok();
    assert_eq!((texts(&rest), &rest["next_cursor"]), (vec!["one"], &Value::Null));
    for (bad, rule) in [("", "1 to 4096"), ("  \n", "spaces"), (&"x".repeat(4097), "1 to 4096")] {
        let refusal = agent.post(&notes, json!({ "text": bad })).await.check_field("text");
        assert!(refusal["message"].as_str().unwrap().contains(rule), "{refusal}");
    }
    agent.get(&format!("{notes}?cursor=x")).await.check_field("cursor");
    // A member without the inbox, another workspace, and an unknown conversation are refused.
    let analyst = people::member(&server, "acme", "analyst").await;
    analyst.get(&notes).await.check(403, "FORBIDDEN");
    let (_, reads) = server.key("acme", &["contacts:read"], json!({})).await;
    reads.get(&notes).await.ok();
    reads.post(&notes, json!({"text": "no"})).await.check(403, "FORBIDDEN");
    server.demo().get(&notes).await.check(404, "NOT_FOUND");
    server.demo().post(&notes, json!({"text": "no"})).await.check(404, "NOT_FOUND");
    server.restart().await;
    let acme = server.key("acme", &["contacts:read", "contacts:write"], json!({})).await.1;
    assert_eq!(texts(&acme.get(&notes).await.ok()).len(), 3);
    let contact = acme.get("/v1/contacts").await.ok()["data"][0]["id"].clone();
    acme.delete(&format!("/v1/contacts/{}", contact.as_str().unwrap())).await;
    acme.get(&notes).await.check(404, "NOT_FOUND");
}

#[tokio::test]
async fn a_conversation_has_so_many_notes_and_no_more() {
    let server = TestServer::start().await;
    let unlimited = json!({"key_requests_per_hour": 0});
    let all = ["contacts:read", "contacts:write", "messaging:send"];
    let acme = server.workspace("acme").await;
    let notes = format!("{}/notes", conversation(&acme, "+15550123456").await);
    let (_, acme) = server.key("acme", &all, unlimited).await;
    for number in 0..postrider_actors::NOTES_MAX {
        acme.post(&notes, json!({"text": format!("note {number}")})).await;
    }
    let refused = acme.post(&notes, json!({"text": "one more"})).await;
    assert_eq!(refused.check(422, "UNPROCESSABLE")["reason"], "note_limit");
    let last = acme.get(&format!("{notes}?limit=1")).await.ok();
    assert_eq!(texts(&last), ["note 499"]);
    assert_eq!(last["data"][0]["author"]["kind"], "key");
}

#[tokio::test]
async fn quick_replies_are_for_all_agents() {
    let mut server = TestServer::start().await;
    let acme = server.workspace("acme").await;
    let path = "/v1/quick-replies";
    let agent = people::member(&server, "acme", "agent").await;
    let thanks = agent.post(path, json!({"name": "Thanks", "text": "Thank you."})).await;
    assert_eq!(thanks.status, 201);
    acme.post(path, json!({"name": "Hours", "text": "We are there from 9."})).await;
    let all = agent.get(&format!("{path}?limit=200")).await.ok();
    assert_eq!(
        (texts(&all), &all["total"]),
        (vec!["Thank you.", "We are there from 9."], &json!(2))
    );
    assert_eq!(texts(&agent.get(&format!("{path}?limit=1&page=2")).await.ok()).len(), 1);
    for (body, field) in [
        (json!({"name": "", "text": "x"}), "name"),
        (json!({"name": "a\nb", "text": "x"}), "name"),
        (json!({"name": "a", "text": " "}), "text"),
        (json!({"name": "a", "text": "x".repeat(4097)}), "text"),
    ] {
        agent.post(path, body).await.check_field(field);
    }
    assert_eq!(server.demo().get(path).await.ok()["total"], 0);
    server.restart().await;
    let one = format!("{path}/{}", thanks.json()["id"].as_str().unwrap());
    server.demo().delete(&one).await.check(404, "NOT_FOUND");
    let agent = people::member(&server, "acme", "agent").await;
    assert_eq!(agent.delete(&one).await.status, 204);
    agent.delete(&one).await.check(404, "NOT_FOUND");
    assert_eq!(texts(&agent.get(path).await.ok()), ["We are there from 9."]);
}

#[tokio::test]
async fn colleagues_see_who_is_answering_and_what_is_noted() {
    let server = TestServer::start().await;
    let acme = server.workspace("acme").await;
    let path = conversation(&acme, "+15550123456").await;
    let agent = people::member(&server, "acme", "agent").await;
    let analyst = people::member(&server, "acme", "analyst").await;
    let open = async |who: &crate::support::Browser, query: &str| {
        let mut connection = server.connect().await;
        let stream = format!("/v1/events/stream?workspace=acme{query}");
        let own = [("Sec-Fetch-Site", "same-origin")];
        connection.send(who.request("GET", &stream, &own, None)).await;
        connection.read_until("event: ping").await;
        connection
    };
    let mut all = open(&agent, "").await;
    let mut noted = open(&agent, "&types=conversation.noted").await;
    let mut blind = open(&analyst, "").await;
    assert_eq!(agent.post(&format!("{path}/typing"), json!({})).await.status, 204);
    agent.post(&format!("{path}/notes"), json!({"text": "call back"})).await;
    let typing = all.read_until("event: conversation.typing").await + &all.read_until("\n\n").await;
    let heard = typing + &all.read_until("event: conversation.noted").await;
    let id = path.rsplit('/').next().unwrap();
    assert!(heard.contains(id) && heard.contains("agent@acme.example.com"), "{heard}");
    assert!(!heard.contains("call back"), "{heard}");
    let heard = noted.read_until("event: conversation.noted").await;
    assert!(!heard.contains("typing"), "{heard}");
    // A member without the inbox hears nothing of it, and no log contains it.
    server.advance(1).await;
    let heard = blind.read_until("event: ping").await;
    assert!(!heard.contains("conversation."), "{heard}");
    let log = acme.get("/v1/events?limit=200").await.ok().to_string();
    assert!(!log.contains("typing") && !log.contains("noted"), "{log}");
    let typing = "/v1/conversations/cnv_01jd3v0x5n8m7k2q4r6s8t0w2y/typing";
    agent.post(typing, json!({})).await.check(404, "NOT_FOUND");
    analyst.post(&format!("{path}/typing"), json!({})).await.check(403, "FORBIDDEN");
}
