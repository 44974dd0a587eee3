//! The permitted destinations of one-time passwords, and the maximum number of unverified ones.

use serde_json::{Value, json};

use crate::otp::verify;
use crate::support::{Api, Reply, TestServer, eventually, millis};

const DESTINATIONS: &str = "/admin/v1/workspaces/acme/destinations";
const GERMAN: &str = "+4915112345678";
const AMERICAN: &str = "+15550123456";

async fn send(api: &Api, phone: &str) -> Reply {
    api.post("/v1/otp/send", json!({"phone": phone})).await
}

#[track_caller]
fn blocked(reply: &Reply) {
    assert_eq!(reply.check(422, "UNPROCESSABLE")["reason"], "destination_blocked");
}

async fn credits(server: &TestServer) -> Value {
    server.admin().get("/admin/v1/workspaces/acme").await.ok()["credits"].clone()
}

async fn suspected(api: &Api) -> Vec<Value> {
    let events = api.get("/v1/events?type=otp.pumping_suspected").await.ok();
    events["data"].as_array().unwrap().iter().map(|event| event["data"].clone()).collect()
}

/// Advances to the start of an hour, so that none ends in the middle of a test.
async fn begin_hour(server: &TestServer) {
    let clock = server.demo().get("/v1/sandbox/clock").await.ok();
    let seconds = millis(clock["now"].as_str().unwrap()) / 1000;
    server.advance(3600 - seconds % 3600).await;
}

/// Returns the number of log lines that warn of unverified codes.
fn warnings(server: &TestServer) -> usize {
    server.log().matches("suspiciously many codes are not submitted").count()
}

#[tokio::test]
async fn only_what_is_allowed_and_not_denied_is_sent() {
    let mut server = TestServer::start().await;
    let api = server.workspace("acme").await;
    let admin = server.admin();
    let all = json!({"allow": [], "deny": [], "safe": [], "adaptive": null});
    assert_eq!(admin.get(DESTINATIONS).await.ok(), all);
    let request = send(&api, AMERICAN).await.ok();
    let german_only = json!({"allow": ["49"], "deny": [], "safe": [], "adaptive": null});
    assert_eq!(admin.put(DESTINATIONS, &german_only).await.ok(), german_only);
    blocked(&send(&api, AMERICAN).await);
    blocked(&api.post("/v1/otp/resend", json!({"request_id": request["request_id"]})).await);
    send(&api, GERMAN).await.ok();
    assert_eq!(credits(&server).await, 99_998, "a refusal costs nothing");
    server.restart().await;
    blocked(&send(&api, AMERICAN).await);
    assert_eq!(admin.get(DESTINATIONS).await.ok(), german_only);
    let not_mobile = json!({"allow": ["49", "1"], "deny": ["49151"]});
    admin.put(DESTINATIONS, &not_mobile).await.ok();
    blocked(&send(&api, GERMAN).await);
    send(&api, AMERICAN).await.ok();
    assert_eq!(admin.put(DESTINATIONS, json!({})).await.ok(), all);
    send(&api, GERMAN).await.ok();
    let other = server.workspace("acme-2").await;
    send(&other, AMERICAN).await.ok();
}

#[tokio::test]
async fn bad_destinations_are_named() {
    let server = TestServer::start().await;
    server.workspace("acme").await;
    let admin = server.admin();
    for (body, field) in [
        (json!({"allow": ["+49"]}), "allow[0]"),
        (json!({"allow": ["49", ""]}), "allow[1]"),
        (json!({"deny": ["012"]}), "deny[0]"),
        (json!({"deny": ["12345678"]}), "deny[0]"),
        (json!({"deny": [49]}), "deny[0]"),
        (json!({"deny": "49"}), "deny"),
        (json!({"allow": vec!["1"; 1001]}), "allow"),
        (json!({"safe": ["+49"]}), "safe[0]"),
        (json!({"safe": null}), "safe"),
        (json!({"adaptive": "on"}), "adaptive"),
    ] {
        admin.put(DESTINATIONS, &body).await.check_field(field);
    }
    let nobody = "/admin/v1/workspaces/nobody/destinations";
    admin.put(nobody, json!({})).await.check(404, "NOT_FOUND");
    admin.get(nobody).await.check(404, "NOT_FOUND");
}

const GUARD: (&str, &str) = ("GUARD__UNVERIFIED_PER_PREFIX_HOUR", "3");

#[tokio::test]
async fn many_that_nobody_verifies_are_reported_once() {
    let mut server = TestServer::with(&[GUARD]).await;
    let api = server.workspace("acme").await;
    begin_hour(&server).await;
    for last in 0..3 {
        send(&api, &format!("+491511234567{last}")).await.ok();
    }
    assert!(suspected(&api).await.is_empty());
    for last in 3..6 {
        send(&api, &format!("+491511234567{last}")).await.ok();
        send(&api, &format!("+1555012345{last}")).await.ok();
        server.crash().await;
    }
    let emitted = suspected(&api).await;
    assert_eq!(emitted.len(), 1, "{emitted:?}");
    assert_eq!((&emitted[0]["calling_code"], &emitted[0]["unverified"]), (&json!("49"), &json!(3)));
    assert_eq!(emitted[0]["refused"], false);
    assert_eq!(warnings(&server), 1);
    let metrics = server.stranger().get("/metrics").await.text();
    assert!(metrics.contains("postrider_otp_pumping_suspected_total"), "{metrics}");
    server.advance(3600).await;
    for last in 0..4 {
        send(&api, &format!("+491511234567{last}")).await.ok();
    }
    assert_eq!(suspected(&api).await.len(), 2, "the next hour is counted by itself");
}

#[tokio::test]
async fn many_that_nobody_verifies_are_refused() {
    let mut server = TestServer::with(&[GUARD, ("GUARD__MODE", "refuse")]).await;
    let api = server.workspace("acme").await;
    begin_hour(&server).await;
    let first = send(&api, "+4915112345670").await.ok()["request_id"].clone();
    let code = server.code(&api, "+4915112345670").await;
    for last in 1..3 {
        send(&api, &format!("+491511234567{last}")).await.ok();
    }
    for _ in 0..2 {
        blocked(&send(&api, GERMAN).await);
        server.crash().await;
    }
    send(&api, AMERICAN).await.ok();
    assert_eq!(credits(&server).await, 99_996);
    let emitted = suspected(&api).await;
    assert_eq!((emitted.len(), &emitted[0]["refused"]), (1, &json!(true)));
    assert_eq!(verify(&api, first.as_str().unwrap(), &code).await.ok()["verified"], true);
    send(&api, GERMAN).await.ok();
    blocked(&send(&api, GERMAN).await);
    assert_eq!(suspected(&api).await.len(), 1);
    server.advance(3600).await;
    send(&api, GERMAN).await.ok();
}

async fn decided(api: &Api) -> Vec<Value> {
    let events = api.get("/v1/events?type=otp.decided").await.ok();
    events["data"].as_array().unwrap().iter().map(|event| event["data"].clone()).collect()
}

#[tokio::test]
async fn where_nobody_verifies_is_limited_and_reported() {
    let settings = [("GUARD__ADAPTIVE_MIN_SENDS", "3"), ("GUARD__ADAPTIVE_PROBE_PERCENT", "0")];
    let mut server = TestServer::with(&settings).await;
    let api = server.workspace("acme").await;
    for last in 0..3 {
        send(&api, &format!("+491511234567{last}")).await.ok();
    }
    let good = send(&api, AMERICAN).await.ok()["request_id"].clone();
    let code = server.code(&api, AMERICAN).await;
    verify(&api, good.as_str().unwrap(), &code).await.ok();
    server.advance(900).await;
    let ended = async || {
        let events = api.get("/v1/events?type=otp.expired").await.ok();
        (events["data"].as_array().unwrap().len() == 3).then_some(())
    };
    eventually("the codes have expired", ended).await;
    send(&api, GERMAN).await.ok();
    assert_eq!(decided(&api).await, [Value::Null; 0], "it is off");
    let admin = server.admin();
    for (mode, safe) in [("refuse", "4917"), ("report", "4917"), ("refuse", "4915")] {
        let said = json!({"allow": [], "deny": [], "safe": [safe], "adaptive": mode});
        assert_eq!(admin.put(DESTINATIONS, &said).await.ok(), said);
        server.crash().await;
        let reply = send(&api, "+4915112345680").await;
        send(&api, AMERICAN).await.ok();
        let emitted = decided(&api).await.pop().unwrap();
        let (id, decision) = match (mode, safe) {
            ("refuse", "4917") => {
                blocked(&reply);
                (Value::Null, "refused")
            }
            ("report", _) => (reply.ok()["request_id"].clone(), "would_refuse"),
            _ => (reply.ok()["request_id"].clone(), "allowed"),
        };
        let expected = json!({"request_id": id, "phone": "+4915112345680", "prefix": "49151",
            "rule": "prefix", "sent": 3, "verified": 0, "decision": decision});
        assert_eq!(emitted, expected);
        if let Some(id) = id.as_str() {
            assert_eq!(api.get(&format!("/v1/otp/{id}")).await.ok()["decision"], decision);
            let rows = api.get("/v1/otp?phone=%2B4915112345680").await.ok();
            assert_eq!(rows["data"][0]["decision"], decision);
        }
    }
    assert_eq!(decided(&api).await.len(), 3);
}

/// Returns the rule in a refusal of a blocked destination.
fn rule_of(reply: &Reply) -> String {
    blocked(reply);
    let message = reply.json()["message"].as_str().unwrap().to_owned();
    message.split_once(": ").unwrap().1.to_owned()
}

/// Sends three codes to each of these regions that end unverified, and one elsewhere that is
/// verified.
async fn flooded(regions: &[&str]) -> (TestServer, Api) {
    let settings = [("GUARD__ADAPTIVE_MIN_SENDS", "3"), ("GUARD__ADAPTIVE_PROBE_PERCENT", "0")];
    let server = TestServer::with(&settings).await;
    let api = server.workspace("acme").await;
    let good = send(&api, "+447700900123").await.ok()["request_id"].clone();
    let code = server.code(&api, "+447700900123").await;
    verify(&api, good.as_str().unwrap(), &code).await.ok();
    for region in regions {
        for last in 0..3 {
            send(&api, &format!("+{region}123456{last}")).await.ok();
        }
    }
    server.advance(900).await;
    let ended = async || {
        let events = api.get("/v1/events?type=otp.expired").await.ok();
        (events["data"].as_array().unwrap().len() == 3 * regions.len()).then_some(())
    };
    eventually("the codes have expired", ended).await;
    (server, api)
}

async fn now(server: &TestServer) -> String {
    let clock = server.demo().get("/v1/sandbox/clock").await.ok();
    clock["now"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn what_was_decided_is_listed_with_its_figures() {
    let (server, api) = flooded(&["49151", "49152", "1555"]).await;
    let admin = server.admin();
    let other = server.workspace("acme-2").await;
    let list = async |query: &str| -> Vec<Value> {
        let page = api.get(&format!("/v1/otp/decisions?{query}")).await.ok();
        page["data"].as_array().unwrap().clone()
    };
    assert_eq!(list("").await, [Value::Null; 0]);
    admin.put(DESTINATIONS, json!({"safe": ["1555"], "adaptive": "refuse"})).await.ok();
    let first = now(&server).await;
    for region in ["49151", "49152"] {
        let refused = send(&api, &format!("+{region}1234567")).await;
        assert_eq!(rule_of(&refused), format!("0 of 3 to +{region} were verified"));
    }
    server.advance(1).await;
    let later = now(&server).await;
    let allowed = send(&api, "+15551234567").await.ok()["request_id"].clone();
    let all = list("").await;
    let events = api.get("/v1/events?type=otp.decided&order=desc").await.ok();
    let shown = |event: &Value| {
        let mut row = event["data"].clone();
        row["event_id"] = event["id"].clone();
        row["decided_at"] = event["timestamp"].clone();
        row
    };
    let expected: Vec<_> = events["data"].as_array().unwrap().iter().map(shown).collect();
    assert_eq!((all.len(), &all), (3, &expected));
    for (query, rows) in [
        ("prefix=4", &all[1..]),
        ("prefix=49152", &all[1..2]),
        ("phone=%2B491511234567", &all[2..]),
        ("decision=refused", &all[1..]),
        ("decision=refused&prefix=1555", &[]),
        ("decision=probe", &[]),
        (&format!("request_id={}", allowed.as_str().unwrap()), &all[..1]),
        (&format!("since={later}"), &all[..1]),
        (&format!("until={later}"), &all[1..]),
        (&format!("until={first}"), &[]),
        (&format!("since={first}&until={later}&limit=200"), &all[1..]),
    ] {
        assert_eq!(list(query).await, rows, "{query}");
    }
    let (mut rows, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = api.get(&format!("/v1/messaging/otp/decisions?limit=1{cursor}")).await.ok();
        rows.extend(page["data"].as_array().unwrap().clone());
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(rows, all);
    for of in 0..9 {
        send(&api, &format!("+4915176543{of:02}")).await;
    }
    let all = list("prefix=49151&limit=50").await;
    assert_eq!(all.len(), 10, "every one, refused or a probe");
    assert_eq!(other.get("/v1/otp/decisions").await.ok()["data"], json!([]));
}

#[tokio::test]
async fn what_is_wrong_with_a_query_of_decisions_is_named() {
    let server = TestServer::start().await;
    let api = server.workspace("acme").await;
    for (bad, field) in [
        ("prefix=%2B49", "prefix"),
        ("phone=49", "phone"),
        ("decision=kept", "decision"),
        ("request_id=evt_01jd3v0x5n8m7k2q4r6s8t0w2y", "request_id"),
        ("since=2026-01-02T00:00:00Z&until=2026-01-01T00:00:00Z", "until"),
        ("limit=201", "limit"),
        ("cursor=x", "cursor"),
    ] {
        api.get(&format!("/v1/otp/decisions?{bad}")).await.check_field(field);
    }
}

#[tokio::test]
async fn a_refusal_says_which_rule_refused() {
    let server = TestServer::with(&[GUARD, ("GUARD__MODE", "refuse")]).await;
    let api = server.workspace("acme").await;
    begin_hour(&server).await;
    for last in 0..3 {
        send(&api, &format!("+491511234567{last}")).await.ok();
    }
    let refused = send(&api, GERMAN).await;
    assert_eq!(rule_of(&refused), "3 to +49 were not verified in this hour");
    server.admin().put(DESTINATIONS, json!({"deny": ["49"]})).await.ok();
    assert_eq!(rule_of(&send(&api, GERMAN).await), "the workspace does not allow it");
}

#[tokio::test]
async fn what_is_left_out_stays_and_what_is_taken_back_is_recorded() {
    let server = TestServer::start().await;
    server.workspace("acme").await;
    let admin = server.admin();
    let set = async |body: Value| admin.put(DESTINATIONS, body).await.ok();
    set(json!({"safe": ["4915"], "adaptive": "refuse"})).await;
    let both = json!({"allow": ["49"], "deny": [], "safe": ["4915"], "adaptive": "refuse"});
    assert_eq!(set(json!({"allow": ["49"]})).await, both);
    let one = json!({"allow": [], "deny": [], "safe": [], "adaptive": "refuse"});
    assert_eq!(set(json!({"safe": []})).await, one);
    let none = json!({"allow": [], "deny": [], "safe": [], "adaptive": null});
    assert_eq!(set(json!({"adaptive": null})).await, none);
    assert_eq!(admin.get(DESTINATIONS).await.ok(), none);
    let records = "/admin/v1/audit?action=destinations.set&workspace=acme";
    let records = admin.get(records).await.ok()["data"].clone();
    let [first, second, third, last] = [0, 1, 2, 3].map(|place| records[place]["changes"].clone());
    assert_eq!(first["adaptive"], json!({"from": null, "to": "refuse"}));
    assert_eq!(second.get("adaptive").or(second.get("safe")), None, "{second}");
    assert_eq!(third["safe"], json!({"from": ["4915"], "to": []}));
    assert_eq!(last["adaptive"], json!({"from": "refuse", "to": null}));
}
