//! One-time passwords, from the send to the removal of the record.

use serde_json::{Value, json};

use crate::support::{Api, TestServer, millis};

pub const PHONE: &str = "+15550123456";

/// Sends to `PHONE`; returns the request's id and its code.
pub async fn send(server: &TestServer, api: &Api, more: Value) -> (String, String) {
    let mut body = json!({"phone": PHONE});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let before = sandbox_count(api).await;
    let sent = api.post("/v1/otp/send", body).await.ok();
    // Not the code of an earlier message.
    let arrived = async || (sandbox_count(api).await > before).then_some(());
    crate::support::eventually("the message", arrived).await;
    (sent["request_id"].as_str().unwrap().to_owned(), server.code(api, PHONE).await)
}

async fn sandbox_count(api: &Api) -> usize {
    let messages = api.get("/v1/sandbox/messages?limit=1000").await.ok();
    messages["data"].as_array().unwrap().len()
}

pub async fn verify(api: &Api, id: &str, otp: &str) -> crate::support::Reply {
    api.post("/v1/otp/verify", json!({"request_id": id, "otp": otp})).await
}

async fn state(api: &Api, id: &str) -> Value {
    api.get(&format!("/v1/otp/{id}")).await.ok()
}

async fn now(api: &Api) -> u64 {
    millis(api.get("/v1/sandbox/clock").await.ok()["now"].as_str().unwrap())
}

#[tokio::test]
async fn a_code_is_sent_and_verified_once() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    // A phone for each: the newest message to it is the one that was just sent.
    for (form, phone) in [("/v1/otp", PHONE), ("/v1/messaging/otp", "+15550123457")] {
        let before = now(&api).await;
        let sent = api.post(&format!("{form}/send"), json!({"phone": phone})).await.ok();
        let after = now(&api).await;
        assert!(sent["number_id"].is_string(), "{sent}");
        assert_eq!(sent.as_object().unwrap().len(), 3, "no code, nor anything else: {sent}");
        let expires_at = millis(sent["expires_at"].as_str().unwrap());
        assert!((before + 300_000..=after + 300_000).contains(&expires_at));
        let id = sent["request_id"].as_str().unwrap();
        assert_eq!((&id[..4], id.len()), ("otp_", 30));
        assert_eq!(id, id.to_lowercase());
        let code = server.code(&api, phone).await;
        assert!(code.len() == 6 && code.bytes().all(|digit| digit.is_ascii_digit()));
        let body = json!({"request_id": id, "otp": code});
        let verified = api.post(&format!("{form}/verify"), &body).await.ok();
        assert_eq!(verified["verified"], true);
        assert!(verified["message"].is_string() && verified["code"].is_null());
        for other in ["/v1/messaging/otp", "/v1/otp"] {
            let again = api.post(&format!("{other}/verify"), &body).await;
            again.check(422, "UNPROCESSABLE");
            assert_eq!(api.get(&format!("{other}/{id}")).await.ok()["status"], "verified");
        }
        // Two messages of one millisecond have no order.
        server.advance(3600).await;
    }
}

#[tokio::test]
async fn length_and_expiry_are_as_asked() {
    let server = TestServer::with(&[("LIMITS__OTP_PER_PHONE_10M", "0")]).await;
    let api = server.workspace("acme").await;
    for length in 4..=8 {
        let (_, code) = send(&server, &api, json!({"length": length})).await;
        assert_eq!(code.len(), length);
    }
    for expiry in [60, 61, 899, 900] {
        let before = now(&api).await;
        let sent = api.post("/v1/otp/send", json!({"phone": PHONE, "expiry": expiry})).await.ok();
        let lasts = millis(sent["expires_at"].as_str().unwrap()) - before;
        assert!((expiry * 1000..expiry * 1000 + 10_000).contains(&lasts), "{expiry}: {lasts}");
    }
}

#[tokio::test]
async fn five_wrong_codes_end_it() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    let (id, code) = send(&server, &api, json!({})).await;
    let almost = format!("{code} ");
    let longer = format!("{code}0");
    let wrong = ["x", &almost, &longer, "٠١٢٣٤٥"];
    for (otp, remaining) in wrong.iter().zip([4, 3, 2, 1]) {
        let answer = verify(&api, &id, otp).await;
        assert_eq!(answer.status, 200);
        let answer = answer.ok();
        assert_eq!(answer["verified"], false);
        assert_eq!(answer["code"], "OTP_INVALID");
        assert_eq!(answer["attempts_remaining"], remaining);
        assert!(answer["message"].is_string());
        assert_eq!(state(&api, &id).await["attempts_remaining"], remaining);
        assert_eq!(state(&api, &id).await["status"], "active");
    }
    verify(&api, &id, "1234567890123456").await.check(422, "OTP_MAX_ATTEMPTS");
    verify(&api, &id, &code).await.check(422, "OTP_MAX_ATTEMPTS");
    verify(&api, &id, "x").await.check(422, "OTP_MAX_ATTEMPTS");
    let ended = state(&api, &id).await;
    assert_eq!(
        (&ended["status"], &ended["attempts_remaining"]),
        (&json!("invalidated"), &json!(0))
    );
    let resend = api.post("/v1/otp/resend", json!({"request_id": id})).await;
    resend.check(422, "OTP_MAX_ATTEMPTS");
    server.advance(301).await;
    verify(&api, &id, &code).await.check(422, "OTP_MAX_ATTEMPTS");
    // The ended request does not affect a new send.
    let (id, code) = send(&server, &api, json!({})).await;
    assert_eq!(verify(&api, &id, &code).await.ok()["verified"], true);
}

#[tokio::test]
async fn a_right_code_after_wrong_ones_is_right() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    let (id, code) = send(&server, &api, json!({})).await;
    for _ in 0..4 {
        verify(&api, &id, "x").await.ok();
    }
    assert_eq!(verify(&api, &id, &code).await.ok()["verified"], true);
    verify(&api, &id, "x").await.check(422, "UNPROCESSABLE");
}

#[tokio::test]
async fn what_is_submitted_has_1_to_16_characters() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    let (id, _) = send(&server, &api, json!({})).await;
    for bad in [
        json!({"request_id": id, "otp": ""}),
        json!({"request_id": id, "otp": "12345678901234567"}),
        json!({"request_id": id, "otp": "é".repeat(17)}),
        json!({"request_id": id, "otp": 123_456}),
        json!({"request_id": id, "otp": null}),
        json!({"request_id": id}),
    ] {
        api.post("/v1/otp/verify", &bad).await.check_field("otp");
    }
    for bad in [json!({"otp": "123456"}), json!({"request_id": 7, "otp": "1"})] {
        api.post("/v1/otp/verify", &bad).await.check_field("request_id");
    }
    for bad in [json!({}), json!({"request_id": 7})] {
        api.post("/v1/otp/resend", &bad).await.check_field("request_id");
    }
    assert_eq!(state(&api, &id).await["attempts_remaining"], 5, "none of it was an attempt");
    assert_eq!(verify(&api, &id, &"é".repeat(16)).await.ok()["attempts_remaining"], 4);
}

#[tokio::test]
async fn an_id_that_is_none_does_not_exist() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    let (id, code) = send(&server, &api, json!({})).await;
    let ulid = &id[4..];
    for other in [
        "otp_01jd3v0x5n8m7k2q4r6s8t0w2y".to_owned(),
        id.to_uppercase(),
        format!("OTP_{ulid}"),
        format!("otp_{}", ulid.to_uppercase()),
        format!("msg_{ulid}"),
        format!("{id}0"),
        id[..29].to_owned(),
        ulid.to_owned(),
        "otp_".to_owned(),
        "x".to_owned(),
        "0".to_owned(),
        format!("otp_8{}", &ulid[1..]),
        format!("otp_{}", "u".repeat(26)),
    ] {
        api.get(&format!("/v1/otp/{other}")).await.check(404, "NOT_FOUND");
        verify(&api, &other, &code).await.check(404, "NOT_FOUND");
        let resend = json!({"request_id": other});
        api.post("/v1/otp/resend", resend).await.check(404, "NOT_FOUND");
    }
    for path in ["/v1/otp/%6ftp_x", "/v1/otp/..%2f..", "/v1/otp/%00", "/v1/otp/%ff"] {
        api.get(path).await.check(404, "NOT_FOUND");
    }
    for id in ["", " ", "\u{0}", "otp_\u{1f600}"] {
        verify(&api, id, &code).await.check(404, "NOT_FOUND");
    }
}

#[tokio::test]
async fn it_expires_and_is_forgotten_an_hour_later() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    let (id, code) = send(&server, &api, json!({"expiry": 60})).await;
    let (done, done_code) = send(&server, &api, json!({"expiry": 60})).await;
    verify(&api, &done, &done_code).await.ok();
    verify(&api, &id, "x").await.ok();
    server.advance(60).await;
    verify(&api, &id, &code).await.check(422, "OTP_EXPIRED");
    api.post("/v1/otp/resend", json!({"request_id": id})).await.check(422, "OTP_EXPIRED");
    verify(&api, &done, &done_code).await.check(422, "UNPROCESSABLE");
    let expired = state(&api, &id).await;
    assert_eq!(expired["status"], "expired");
    assert_eq!(expired["attempts_remaining"], 4, "a verify after the end is no attempt");
    let expires_at = millis(expired["expires_at"].as_str().unwrap());
    let left = expires_at + 3_600_000 - now(&api).await;
    server.advance(left / 1000 - 30).await;
    verify(&api, &id, &code).await.check(422, "OTP_EXPIRED");
    assert_eq!(state(&api, &done).await["status"], "verified");
    server.advance(60).await;
    verify(&api, &id, &code).await.check(404, "NOT_FOUND");
    for id in [&id, &done] {
        api.post("/v1/otp/resend", json!({"request_id": id})).await.check(404, "NOT_FOUND");
    }
    assert_eq!(state(&api, &id).await["status"], "expired", "it can be read for 30 days");
}

#[tokio::test]
async fn a_resend_repeats_code_expiry_and_attempts() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    let (id, code) = send(&server, &api, json!({"expiry": 120, "length": 8})).await;
    verify(&api, &id, "x").await.ok();
    let first = state(&api, &id).await;
    server.advance(10).await;
    for form in ["/v1/otp/resend", "/v1/messaging/otp/resend"] {
        let again = api.post(form, json!({"request_id": id})).await.ok();
        assert_eq!(again["request_id"], id);
        assert_eq!(again["expires_at"], first["expires_at"]);
    }
    let messages = crate::support::eventually("three messages", async || {
        let messages = api.get("/v1/sandbox/messages").await.ok()["data"].clone();
        (messages.as_array().unwrap().len() == 3).then_some(messages)
    });
    let messages = messages.await;
    let messages = messages.as_array().unwrap();
    assert!(messages.iter().all(|message| message["code"] == code && message["to"] == PHONE));
    let mut ids: Vec<_> = messages.iter().map(|m| m["message_id"].as_str().unwrap()).collect();
    ids.dedup();
    assert_eq!(ids.len(), 3);
    assert_eq!(state(&api, &id).await["attempts_remaining"], 4);
    let credits = server.admin().get("/admin/v1/workspaces/acme").await.ok()["credits"].clone();
    assert_eq!(credits, 100_000 - 3);
    // Three sends to the phone so far; a resend counts as one.
    for _ in 0..2 {
        api.post("/v1/otp/resend", json!({"request_id": id})).await.ok();
    }
    let resend = api.post("/v1/otp/resend", json!({"request_id": id})).await;
    resend.check(429, "OTP_RATE_LIMITED");
    verify(&api, &id, &code).await.ok();
    let resend = api.post("/v1/otp/resend", json!({"request_id": id})).await;
    resend.check(422, "UNPROCESSABLE");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_racing_verifies_exactly_one_is_right() {
    let settings = [("LIMITS__OTP_PER_PHONE_10M", "0"), ("LIMITS__KEY_REQUESTS_PER_HOUR", "0")];
    let server = TestServer::with(&settings).await;
    let api = server.workspace("acme").await;
    for _ in 0..8 {
        let (id, code) = send(&server, &api, json!({})).await;
        let racer = |_| {
            let (api, id, code) = (api.clone(), id.clone(), code.clone());
            tokio::spawn(async move { verify(&api, &id, &code).await })
        };
        let racers: Vec<_> = (0..24).map(racer).collect();
        let mut right = 0;
        for racer in racers {
            let answer = racer.await.unwrap();
            if answer.status == 200 {
                assert_eq!(answer.json()["verified"], true);
                right += 1;
            } else {
                answer.check(422, "UNPROCESSABLE");
            }
        }
        assert_eq!(right, 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn racing_wrong_codes_get_five_attempts_together() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    let (id, code) = send(&server, &api, json!({})).await;
    let racer = |_| {
        let (api, id) = (api.clone(), id.clone());
        tokio::spawn(async move { verify(&api, &id, "x").await })
    };
    let racers: Vec<_> = (0..24).map(racer).collect();
    let mut remaining = Vec::new();
    for racer in racers {
        let answer = racer.await.unwrap();
        match answer.status {
            200 => remaining.push(answer.json()["attempts_remaining"].as_u64().unwrap()),
            _ => drop(answer.check(422, "OTP_MAX_ATTEMPTS")),
        }
    }
    remaining.sort_unstable();
    assert_eq!(remaining, [1, 2, 3, 4]);
    verify(&api, &id, &code).await.check(422, "OTP_MAX_ATTEMPTS");
}
