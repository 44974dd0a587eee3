//! Templates: how they are created and listed, and how their status changes.

use serde_json::{Value, json};

use crate::support::{TestServer, millis};

const ROOT: &str = "/admin/v1/workspaces";

fn hello() -> Value {
    json!({
        "name": "hello",
        "language": "en_US",
        "category": "utility",
        "status": "pending",
        "components": [{"type": "BODY", "text": "Hello {{1}}"}],
    })
}

#[tokio::test]
async fn the_demo_workspace_has_one_of_each_kind() {
    let server = TestServer::start().await;
    let listed = server.demo().get("/v1/messaging/templates").await.ok();
    let rows = listed["data"].as_array().unwrap();
    assert_eq!((rows.len(), &listed["total"]), (6, &json!(6)));
    for (name, category, status) in [
        ("otp_code", "authentication", "approved"),
        ("welcome", "utility", "approved"),
        ("order_update", "utility", "approved"),
        ("spring_sale", "marketing", "approved"),
        ("promo_pending", "marketing", "pending"),
        ("promo_rejected", "marketing", "rejected"),
    ] {
        let row = rows.iter().find(|row| row["name"] == name).unwrap();
        let found = [&row["category"], &row["status"], &row["language"]];
        assert_eq!(found, [category, status, "en"], "{name}");
        assert_eq!(row["components"][0]["type"], "BODY");
    }
}

#[tokio::test]
async fn a_template_is_made_listed_and_kept() {
    let mut server = TestServer::start().await;
    let api = server.workspace("acme").await;
    let admin = server.admin();
    let path = format!("{ROOT}/acme/templates");
    let made = admin.post(&path, hello()).await;
    assert_eq!(made.status, 201);
    let made = made.ok();
    millis(made["updated_at"].as_str().unwrap());
    for (name, value) in hello().as_object().unwrap() {
        assert_eq!(&made[name], value, "{name}");
    }
    admin.post(&path, hello()).await.check(409, "CONFLICT");
    // The same name in another language is another template; status and language have defaults.
    let mut other = hello();
    other.as_object_mut().unwrap().retain(|name, _| name != "language" && name != "status");
    let other = admin.post(&path, &other).await.ok();
    assert_eq!((&other["language"], &other["status"]), (&json!("en"), &json!("approved")));
    server.restart().await;
    let listed = admin.get(&path).await.ok();
    assert_eq!(listed["data"], json!([other, made]));
    assert_eq!(api.get("/v1/messaging/templates?limit=1&page=2").await.ok()["data"], json!([made]));
    assert_eq!(admin.post(&format!("{path}/sync"), json!({})).await.ok(), listed);
    let (_, weak) = server.key("acme", &["contacts:read"], json!({})).await;
    weak.get("/v1/messaging/templates").await.check(403, "FORBIDDEN");
    admin.get(&format!("{ROOT}/nobody/templates")).await.check(404, "NOT_FOUND");
}

#[tokio::test]
async fn people_of_the_workspace_add_templates_and_keys_do_not() {
    const OWN: &str = "/v1/templates";
    let server = TestServer::start().await;
    let (api, other) = (server.workspace("acme").await, server.workspace("other").await);
    let person = async |role: &str| {
        let email = format!("{role}@acme.com");
        let body = json!({"email": email, "workspace": "acme", "role": role});
        let link = server.admin().post("/admin/v1/users/link", body).await.ok();
        let mut browser = server.browser();
        browser.follow(link["url"].as_str().unwrap()).await.ok();
        browser
    };
    let (marketer, agent) = (person("marketer").await, person("agent").await);
    for none in [OWN.to_owned(), format!("{OWN}/sync")] {
        api.post(&none, hello()).await.check(403, "FORBIDDEN");
        agent.post(&none, hello()).await.check(403, "FORBIDDEN");
    }
    let made = marketer.post(OWN, hello()).await;
    assert_eq!(made.status, 201);
    let made = made.ok();
    marketer.post(OWN, hello()).await.check(409, "CONFLICT");
    marketer.post(OWN, json!({"name": "Hello"})).await.check(400, "VALIDATION_ERROR");
    let listed = agent.get(OWN).await.ok();
    assert_eq!(listed, json!({"data": [made], "total": 1, "page": 1}));
    assert_eq!(api.get("/v1/messaging/templates").await.ok(), listed);
    let one = format!("{OWN}/hello/en_US");
    agent.patch(&one, json!({"status": "approved"})).await.check(403, "FORBIDDEN");
    api.send_json("PATCH", &one, &json!({"status": "paused"})).await.check(403, "FORBIDDEN");
    let changed = marketer.patch(&one, json!({"status": "approved"})).await.ok();
    assert_eq!((&changed["status"], &changed["name"]), (&json!("approved"), &json!("hello")));
    marketer.patch(&one, json!({"status": "good"})).await.check_field("status");
    let none = format!("{OWN}/hello/de");
    marketer.patch(&none, json!({"status": "paused"})).await.check(404, "NOT_FOUND");
    let synced = marketer.post(&format!("{OWN}/sync"), json!({})).await.ok();
    assert_eq!(synced["data"], json!([changed]));
    assert_eq!(other.get(OWN).await.ok()["total"], 0);
    let audit = server.admin().get("/admin/v1/audit?action=template&workspace=acme").await.ok();
    let audit = audit["data"].as_array().unwrap();
    let done: Vec<_> = audit.iter().map(|it| it["action"].as_str().unwrap()).collect();
    assert_eq!(done, ["template.create", "template.update", "template.sync"]);
    assert!(audit.iter().all(|it| it["actor"]["name"] == "marketer@acme.com"), "{audit:?}");
}

#[tokio::test]
async fn a_template_is_read_and_filled_in() {
    const TEMPLATES: &str = "/v1/messaging/templates";
    let server = TestServer::start().await;
    let (demo, other) = (server.demo(), server.workspace("other").await);
    let listed = demo.get(TEMPLATES).await.ok();
    let rows = listed["data"].as_array().unwrap();
    let row = rows.iter().find(|row| row["name"] == "order_update").unwrap();
    let path = format!("{TEMPLATES}/order_update/en");
    assert_eq!(demo.get(&path).await.ok(), *row);
    other.get(&path).await.check(404, "NOT_FOUND");
    let render = async |path: &str, values: &[&str]| {
        let parameters: Vec<_> =
            values.iter().map(|it| json!({"type": "text", "text": it})).collect();
        let body = json!({"components": [{"type": "body", "parameters": parameters}]});
        demo.post(&format!("{path}/render"), body).await
    };
    let asked = row["components"][0]["text"].as_str().unwrap();
    let expected = asked.replace("{{1}}", "Ada").replace("{{2}}", "{{1}} مرحبا 🎉");
    let answer = render(&path, &["Ada", "{{1}} مرحبا 🎉"]).await.ok();
    assert_eq!(answer, json!({ "text": expected }), "what is filled in is not filled in again");
    render(&path, &["Ada"]).await.check_field("components[0].parameters");
    // A template that may not be sent can still be rendered.
    let pending = format!("{TEMPLATES}/promo_pending/en/render");
    assert!(demo.post(&pending, json!({})).await.ok()["text"].is_string());
    for none in ["none/en", "order_update/de", "Bad/en"] {
        demo.get(&format!("{TEMPLATES}/{none}")).await.check(404, "NOT_FOUND");
        demo.post(&format!("{TEMPLATES}/{none}/render"), json!({})).await.check(404, "NOT_FOUND");
    }
    let (_, weak) = server.key("demo", &["contacts:read"], json!({})).await;
    weak.get(&path).await.check(403, "FORBIDDEN");
    weak.post(&format!("{path}/render"), json!({})).await.check(403, "FORBIDDEN");
}

#[tokio::test]
async fn a_template_that_is_not_well_formed_is_refused() {
    let server = TestServer::start().await;
    let path = format!("{ROOT}/demo/templates");
    for (field, value) in [
        ("name", json!("Hello")),
        ("name", Value::Null),
        ("language", json!("e")),
        ("category", json!("sale")),
        ("category", Value::Null),
        ("status", json!("APPROVED")),
        ("components", json!([])),
        ("components", json!("x")),
        ("components[0].type", json!([{"type": "x"}])),
        ("components[0].text", json!([{"type": "BODY", "text": "{{2}}"}])),
    ] {
        let mut body = hello();
        body[field.split('[').next().unwrap()] = value;
        server.admin().post(&path, body).await.check_field(field);
    }
}

#[tokio::test]
async fn a_change_of_status_is_reported_once() {
    let server = TestServer::start().await;
    let (admin, demo) = (server.admin(), server.demo());
    let path = format!("{ROOT}/demo/templates/welcome/en");
    for status in ["paused", "paused", "approved"] {
        let changed = admin.send_json("PATCH", &path, &json!({"status": status})).await.ok();
        assert_eq!(changed["status"], status);
    }
    let events = demo.get("/v1/events?type=template.status_changed").await.ok();
    let emitted: Vec<_> =
        events["data"].as_array().unwrap().iter().map(|row| &row["data"]).collect();
    assert_eq!(emitted.len(), 2);
    assert_eq!((&emitted[0]["name"], &emitted[0]["language"]), (&json!("welcome"), &json!("en")));
    let statuses = [&emitted[0]["previous_status"], &emitted[0]["status"], &emitted[1]["status"]];
    assert_eq!(statuses, ["approved", "paused", "approved"]);
    admin.send_json("PATCH", &path, &json!({"status": "x"})).await.check_field("status");
    for missing in ["templates/nothing/en", "templates/welcome/fr", "templates/W%00/en"] {
        let path = format!("{ROOT}/demo/{missing}");
        let body = json!({"status": "paused"});
        admin.send_json("PATCH", &path, &body).await.check(404, "NOT_FOUND");
    }
}

#[tokio::test]
async fn the_template_of_one_time_passwords_can_be_set() {
    let server = TestServer::start().await;
    let admin = server.admin();
    let path = format!("{ROOT}/demo/otp-template");
    let body = json!({"name": "login_code", "language": "en_US"});
    assert_eq!(admin.put(&path, &body).await.ok(), body);
    admin.put(&path, json!({"name": "Login", "language": "en"})).await.check_field("name");
    admin.put(&path, json!({"name": "login"})).await.check_field("language");
    let nobody = format!("{ROOT}/nobody/otp-template");
    admin.put(&nobody, &body).await.check(404, "NOT_FOUND");
    server.demo().post("/v1/otp/send", json!({"phone": "+15550123456"})).await.ok();
}

#[tokio::test]
async fn a_code_needs_its_template_approved() {
    let mut server = TestServer::start().await;
    let (api, admin) = (server.workspace("acme").await, server.admin());
    let templates = "/admin/v1/workspaces/acme/templates";
    let send = async || api.post("/v1/otp/send", json!({"phone": "+15550123456"})).await;
    // A sandbox number needs no template.
    send().await.ok();
    let body = json!([{"type": "BODY", "text": "{{1}} is your code"}]);
    let of_codes = json!({
        "name": "otp_code", "language": "en", "category": "authentication", "status": "paused",
        "components": body,
    });
    admin.post(templates, &of_codes).await.ok();
    send().await.check(422, "TEMPLATE_NOT_APPROVED");
    server.restart().await;
    send().await.check(422, "TEMPLATE_NOT_APPROVED");
    let path = format!("{templates}/otp_code/en");
    admin.send_json("PATCH", &path, &json!({"status": "approved"})).await.ok();
    let id = send().await.ok()["request_id"].clone();
    admin.send_json("PATCH", &path, &json!({"status": "rejected"})).await.ok();
    let resend = api.post("/v1/otp/resend", json!({"request_id": id})).await;
    resend.check(422, "TEMPLATE_NOT_APPROVED");
    assert_eq!(admin.get("/admin/v1/workspaces/acme").await.ok()["counts"]["numbers"], 1);
}
