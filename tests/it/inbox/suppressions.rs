//! Phones that have opted out.

use serde_json::{Value, json};

use crate::contacts::UNLIMITED;
use crate::support::{TestServer, millis};

const SUPPRESSIONS: &str = "/v1/suppressions";

#[tokio::test]
async fn phones_opt_out_and_back_in() {
    let mut server = TestServer::with(&UNLIMITED).await;
    let (api, other) = (server.workspace("acme").await, server.workspace("other").await);
    let body = json!({"phone": "+15550123456", "reason": "asked by phone"});
    let made = api.post(SUPPRESSIONS, &body).await;
    assert_eq!(made.status, 201);
    let made = made.json();
    assert_eq!((&made["phone"], &made["reason"]), (&body["phone"], &body["reason"]));
    millis(made["created_at"].as_str().unwrap());
    assert_eq!(made["source"], "api");
    assert_eq!(made["user_id"], Value::Null);
    assert_eq!(made.as_object().unwrap().len(), 5);
    server.advance(5).await;
    let again = api.post(SUPPRESSIONS, json!({"phone": "+15550123456"})).await;
    assert_eq!((again.status, again.json()), (201, made.clone()), "it keeps moment and reason");
    let plain = api.post(SUPPRESSIONS, json!({"phone": "+15550123457", "reason": null})).await.ok();
    assert_eq!(plain["reason"], Value::Null);
    server.restart().await;
    let listed = api.get(SUPPRESSIONS).await.ok();
    assert_eq!(listed, json!({"data": [made, plain], "total": 2, "page": 1}));
    let second = api.get(&format!("{SUPPRESSIONS}?limit=1&page=2")).await.ok();
    assert_eq!(second, json!({"data": [plain], "total": 2, "page": 2}));
    assert_eq!(other.get(SUPPRESSIONS).await.ok()["total"], 0);
    let path = format!("{SUPPRESSIONS}/%2B15550123456");
    other.delete(&path).await.check(404, "NOT_FOUND");
    assert_eq!(api.delete(&path).await.status, 204);
    api.delete(&path).await.check(404, "NOT_FOUND");
    assert_eq!(api.delete(&format!("{SUPPRESSIONS}/+15550123457")).await.status, 204);
    assert_eq!(api.get(SUPPRESSIONS).await.ok()["total"], 0);
}

#[tokio::test]
async fn marketing_goes_to_nobody_who_has_opted_out() {
    let server = TestServer::start().await;
    let demo = server.demo();
    let phone = "+15550123456";
    demo.post(SUPPRESSIONS, json!({"phone": phone})).await.ok();
    let template =
        |to: &str, name: &str| json!({"to": to, "type": "template", "template": {"name": name}});
    let send = async |body: Value| demo.post("/v1/messaging/send", &body).await;
    let refused = send(template(phone, "spring_sale")).await.check(422, "UNPROCESSABLE");
    assert_eq!(refused["reason"], "opted_out");
    assert_eq!(send(template("+15550123457", "spring_sale")).await.status, 200);
    assert_eq!(send(template(phone, "welcome")).await.status, 200, "what is no marketing goes");
    let code = demo.post("/v1/otp/send", json!({"phone": phone})).await;
    assert_eq!(code.status, 200, "and so do codes");
    let balance = server.admin().get("/admin/v1/workspaces/demo").await.ok();
    assert_eq!(balance["credits"], 999_997, "what is refused costs nothing");
    demo.delete(&format!("{SUPPRESSIONS}/{phone}")).await;
    assert_eq!(send(template(phone, "spring_sale")).await.status, 200);
}

#[tokio::test]
async fn bad_values_are_named() {
    let server = TestServer::with(&UNLIMITED).await;
    let api = server.workspace("acme").await;
    for bad in
        [json!({}), json!({"phone": null}), json!({"phone": "15550123456"}), json!({"phone": 1})]
    {
        api.post(SUPPRESSIONS, bad).await.check_field("phone");
    }
    let long = json!({"phone": "+15550123456", "reason": "x".repeat(201)});
    api.post(SUPPRESSIONS, long).await.check_field("reason");
    api.get(&format!("{SUPPRESSIONS}?limit=201")).await.check_field("limit");
    for missing in ["x", "15550123456", "+0123456789", "%00"] {
        api.delete(&format!("{SUPPRESSIONS}/{missing}")).await.check(404, "NOT_FOUND");
    }
}

#[tokio::test]
async fn scopes_are_needed() {
    let server = TestServer::with(&UNLIMITED).await;
    server.workspace("acme").await;
    let (_, reader) = server.key("acme", &["contacts:read"], json!({})).await;
    let (_, writer) = server.key("acme", &["contacts:write"], json!({})).await;
    let body = json!({"phone": "+15550123456"});
    reader.post(SUPPRESSIONS, &body).await.check(403, "FORBIDDEN");
    writer.post(SUPPRESSIONS, &body).await.ok();
    writer.get(SUPPRESSIONS).await.check(403, "FORBIDDEN");
    reader.get(SUPPRESSIONS).await.ok();
    reader.delete(&format!("{SUPPRESSIONS}/+15550123456")).await.check(403, "FORBIDDEN");
    let segment = json!({"name": "x", "filter": {}});
    reader.post("/v1/segments", &segment).await.check(403, "FORBIDDEN");
    writer.post("/v1/segments", &segment).await.ok();
    writer.get("/v1/segments").await.check(403, "FORBIDDEN");
    assert_eq!(reader.get("/v1/segments").await.ok()["total"], 1);
}

#[tokio::test]
async fn words_of_several_languages_opt_out_and_in() {
    let server = TestServer::with(&UNLIMITED).await;
    let api = server.workspace("acme").await;
    let phones = async || {
        let listed = api.get(SUPPRESSIONS).await.ok();
        let rows = listed["data"].as_array().unwrap().iter();
        rows.map(|row| row["phone"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let write = async |text: &str| {
        let body = json!({"from": "+15550123456", "text": text});
        api.post("/v1/sandbox/inbound", body).await.ok();
    };
    for (out, back) in [
        ("STOP", "START"),
        (" stop! ", "Alta"),
        ("Стоп.", "старт"),
        ("退订", "订阅"),
        ("Baja", "unstop"),
    ] {
        write("please stop").await;
        assert_eq!(phones().await, Vec::<String>::new());
        write(out).await;
        assert_eq!(phones().await, ["+15550123456"], "{out}");
        write("stop it, or start").await;
        assert_eq!(phones().await, ["+15550123456"]);
        write(back).await;
        assert_eq!(phones().await, Vec::<String>::new(), "{back}");
    }
}

#[tokio::test]
async fn the_words_are_a_setting() {
    let settings = [("OPT_OUT__STOP_WORDS", "nix, no more"), ("OPT_OUT__START_WORDS", "")];
    let server = TestServer::with(&settings).await;
    let api = server.workspace("acme").await;
    for (number, text) in ["stop", "NIX", "No  more!", "more"].iter().enumerate() {
        let body = json!({"from": format!("+1555000000{number}"), "text": text});
        api.post("/v1/sandbox/inbound", body).await.ok();
    }
    let listed = api.get(SUPPRESSIONS).await.ok();
    let phones: Vec<_> =
        listed["data"].as_array().unwrap().iter().map(|row| &row["phone"]).collect();
    assert_eq!(phones, ["+15550000001", "+15550000002"]);
}
