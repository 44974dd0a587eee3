//! The audit log: each change with its caller, and each failed authentication.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::channel::cloud_api::{TOKEN, number as number_of_channel};
use crate::fake::FakeCloudApi;
use crate::support::{Api, TestServer, eventually};

const ROOT: &str = "/admin/v1/workspaces";
const AUDIT: &str = "/admin/v1/audit";
/// The expiry of the key and of the admin token that are created.
const KEY_END: &str = "2099-01-31T00:00:00.000Z";

/// Every administrative operation that changes something, and the action that is recorded.
const OPERATIONS: [(&str, &str); 42] = [
    ("addCredits", "credits.add"),
    ("changeTemplate", "template.update"),
    ("closeEmail", "email.close"),
    ("connectNumber", "number.connect"),
    ("createAdminToken", "token.create"),
    ("createInvite", "invite.create"),
    ("createKey", "key.create"),
    ("createTemplate", "template.create"),
    ("createUserLink", "link.create"),
    ("createWorkspace", "workspace.create"),
    ("createWorkspaceWebhook", "webhook.create"),
    ("deleteInvite", "invite.delete"),
    ("deleteWorkspace", "workspace.delete"),
    ("deleteWorkspaceWebhook", "webhook.delete"),
    ("checkNumber", "number.check"),
    ("disconnectNumber", "number.disconnect"),
    ("followClock", "clock.follow"),
    ("openEmail", "email.open"),
    ("releaseServer", "server.release"),
    ("removeMember", "member.delete"),
    ("revokeAdminToken", "token.revoke"),
    ("revokeKey", "key.revoke"),
    ("rotateWorkspaceWebhookSecret", "webhook.rotate_secret"),
    ("setCredits", "credits.set"),
    ("setDestinations", "destinations.set"),
    ("setLimits", "limits.set"),
    ("setOtpTemplate", "otp_template.set"),
    ("setTestPhones", "test_phones.set"),
    ("setOtpChannels", "otp_channels.set"),
    ("setOtpTexts", "otp_texts.set"),
    ("setPortfolio", "portfolio.set"),
    ("setSms", "sms.set"),
    ("deleteSms", "sms.delete"),
    ("syncTemplates", "template.sync"),
    ("unparkWorkspace", "workspace.unpark"),
    ("updateKey", "key.update"),
    ("updateMember", "member.set"),
    ("updateNumber", "number.update"),
    ("updateUser", "user.update"),
    ("updateWorkspaceWebhook", "webhook.update"),
    ("advanceSandboxClock", "clock.advance"),
    ("createWebhook", "webhook.create"),
];

/// The operations of a cluster, which must work while no shard has an owner. The node that receives
/// one has it in its log.
const OF_CLUSTERS: [&str; 3] = ["drainNode", "moveShard", "undrainNode"];

/// The operations that are called with an API key.
const BY_KEY: [&str; 2] = ["advanceSandboxClock", "createWebhook"];

pub(super) async fn records(admin: &Api, query: &str) -> Vec<Value> {
    let answer = admin.get(&format!("{AUDIT}?limit=200&{query}")).await.ok();
    answer["data"].as_array().unwrap().clone()
}

fn actions(records: &[Value]) -> Vec<&str> {
    records.iter().map(|record| record["action"].as_str().unwrap()).collect()
}

#[test]
fn every_operation_that_changes_something_has_an_action() {
    let document = serde_json::to_value(postrider::openapi_document()).unwrap();
    let paths = document["paths"].as_object().unwrap().iter();
    let changing =
        paths.filter(|(path, _)| path.starts_with("/admin/v1/")).flat_map(|(_, item)| {
            let changing = item.as_object().unwrap().iter().filter(|(method, _)| *method != "get");
            changing.map(|(_, operation)| operation["operationId"].as_str().unwrap())
        });
    let known = OPERATIONS.map(|(operation, _)| operation);
    let is_silent = |it: &&str| !known.contains(it) && !OF_CLUSTERS.contains(it);
    let silent: Vec<_> = changing.filter(is_silent).collect();
    assert!(silent.is_empty(), "they are not known to be recorded: {silent:?}");
}

/// Makes every change of people; adds the secrets of the answers.
async fn change_people(admin: &Api, secrets: &mut Vec<String>) {
    let one = format!("{ROOT}/acme");
    let user = json!({"email": "ada@acme.com", "workspace": "acme", "role": "agent"});
    let link = admin.post("/admin/v1/users/link", user).await.ok();
    secrets.push(link["url"].as_str().unwrap().rsplit('=').next().unwrap().to_owned());
    let member = format!("{one}/members/{}", link["user_id"].as_str().unwrap());
    admin.send_json("PATCH", &member, &json!({"role": "marketer"})).await.ok();
    admin.delete(&member).await.ok();
    let invite = json!({"email": "bob@acme.com", "role": "agent"});
    let invite = admin.post(&format!("{one}/invites"), invite).await.ok();
    secrets.push(invite["url"].as_str().unwrap().rsplit('=').next().unwrap().to_owned());
    let invite = format!("{one}/invites/{}", invite["id"].as_str().unwrap());
    admin.delete(&invite).await.ok();
    let user = format!("/admin/v1/users/{}", link["user_id"].as_str().unwrap());
    admin.send_json("PATCH", &user, &json!({"disabled": true})).await.ok();
}

fn test_phones(code: &str) -> Value {
    json!({"phones": {"+15550100001": code}})
}

/// Sets and removes the channels of codes, and returns the secret that was created.
async fn change_ways_of_codes(admin: &Api, one: &str, code: &str) -> String {
    admin.put(&format!("{one}/test-phones"), test_phones(code)).await.ok();
    admin.put(&format!("{one}/otp-channels"), json!({"channels": ["messaging"]})).await.ok();
    let text = json!({"sms": "{code}", "email_subject": "Code", "email_text": "{code}"});
    admin.put(&format!("{one}/otp-texts"), json!({"pt": text})).await.ok();
    admin.put(&format!("{one}/portfolios/107"), json!({"daily_recipients": 250})).await.ok();
    let gateway = json!({"kind": "http", "url": "https://example.com/secret-path"});
    let made = admin.put(&format!("{one}/sms"), gateway).await.ok();
    admin.delete(&format!("{one}/sms")).await.ok();
    made["secret"].as_str().unwrap().to_owned()
}

/// Connects a number that has a provider, checks it, and disconnects it.
async fn check_number(admin: &Api, one: &str) {
    let number = admin.post(&format!("{one}/numbers"), number_of_channel()).await.ok();
    let number = format!("{one}/numbers/{}", number["id"].as_str().unwrap());
    admin.post(&format!("{number}/check"), json!({})).await.ok();
    admin.delete(&number).await.ok();
}

/// Creates a token, revokes it, and returns it.
async fn change_tokens(admin: &Api) -> String {
    let token = json!({"name": "alice", "expires_at": KEY_END});
    let token = admin.post("/admin/v1/tokens", token).await.ok();
    admin.delete(&format!("/admin/v1/tokens/{}", token["id"].as_str().unwrap())).await.ok();
    token["token"].as_str().unwrap().to_owned()
}

/// The secrets in the requests.
const SECRETS: [&str; 4] = ["secret-token-1", "secret-path", "74936181", TOKEN];

/// Makes every possible change, and returns the secrets of the requests and answers.
async fn change_everything(server: &TestServer, admin: &Api) -> Vec<String> {
    let secret = |answer: &Value, name: &str| answer[name].as_str().unwrap().to_owned();
    let one = format!("{ROOT}/acme");
    let mut secrets = SECRETS.map(str::to_owned).to_vec();
    admin.post(ROOT, json!({"id": "acme", "name": "Acme"})).await.ok();
    admin.post("/admin/v1/release", json!({})).await.ok();
    admin.post(&format!("{one}/unpark"), json!({})).await.ok();
    admin.put(&format!("{one}/credits"), json!({"credits": 10})).await.ok();
    admin.post(&format!("{one}/credits"), json!({"add": 5})).await.ok();
    admin.put(&format!("{one}/limits"), json!({"otp_per_phone_hour": 9})).await.ok();
    admin.put(&format!("{one}/destinations"), json!({"allow": ["49"]})).await.ok();
    secrets.push(change_ways_of_codes(admin, &one, &secrets[2]).await);
    let number = admin.post(&format!("{one}/numbers"), json!({"kind": "sandbox"})).await.ok();
    let number = format!("{one}/numbers/{}", number["id"].as_str().unwrap());
    admin.send_json("PATCH", &number, &json!({"messages_per_second": 3})).await.ok();
    check_number(admin, &one).await;
    let template = json!({"name": "hello", "category": "utility",
        "components": [{"type": "BODY", "text": "A text of a message"}]});
    admin.post(&format!("{one}/templates"), template).await.ok();
    let status = json!({"status": "paused"});
    admin.send_json("PATCH", &format!("{one}/templates/hello/en"), &status).await.ok();
    admin.post(&format!("{one}/templates/sync"), json!({})).await.ok();
    let otp_template = json!({"name": "hello", "language": "en"});
    admin.put(&format!("{one}/otp-template"), otp_template).await.ok();
    change_people(admin, &mut secrets).await;
    let mail = admin.post(&format!("{one}/email"), json!({})).await.ok();
    secrets.push(secret(&mail, "secret"));
    admin.delete(&format!("{one}/email")).await.ok();
    let hook = json!({"url": "https://example.com/secret-path?token=secret-token-1"});
    let made = admin.post(&format!("{one}/webhooks"), &hook).await.ok();
    secrets.push(secret(&made, "secret"));
    let webhook = format!("{one}/webhooks/{}", made["id"].as_str().unwrap());
    admin.send_json("PATCH", &webhook, &json!({"enabled": false})).await.ok();
    let rotated = admin.post(&format!("{webhook}/rotate-secret"), json!({})).await.ok();
    secrets.push(secret(&rotated, "secret"));
    admin.delete(&webhook).await.ok();
    let key = json!({"name": "backend", "scopes": ["webhooks:manage", "messaging:send"],
        "expires_at": KEY_END, "allowed_subnets": ["127.0.0.1"]});
    let key = admin.post(&format!("{one}/keys"), key).await.ok();
    secrets.push(secret(&key, "key"));
    let row = format!("{one}/keys/{}", key["id"].as_str().unwrap());
    admin.send_json("PATCH", &row, &json!({"expires_at": KEY_END})).await.ok();
    let api = server.api(key["key"].as_str().unwrap());
    let own = api.post("/v1/webhooks", &hook).await.ok();
    secrets.push(secret(&own, "secret"));
    let own = format!("/v1/webhooks/{}", own["id"].as_str().unwrap());
    api.send_json("PATCH", &own, &json!({"ordered": true})).await.ok();
    let rotated = api.post(&format!("{own}/rotate-secret"), json!({})).await.ok();
    secrets.push(secret(&rotated, "secret"));
    api.delete(&own).await.ok();
    api.post("/v1/sandbox/clock", json!({"advance_seconds": 5})).await.ok();
    admin.delete(&number).await.ok();
    admin.delete(&format!("{one}/keys/{}", key["id"].as_str().unwrap())).await.ok();
    admin.post("/admin/v1/clock/follow", json!({})).await.ok();
    secrets.push(change_tokens(admin).await);
    admin.send_json("DELETE", &one, &json!({"name": "Acme"})).await.ok();
    secrets
}

#[tokio::test]
async fn every_change_is_recorded_with_its_caller_and_without_secrets() {
    let fake = FakeCloudApi::start();
    let server = TestServer::with(&[("CLOUD_API__BASE_URL", &fake.base_url())]).await;
    let admin = server.admin();
    let before = records(&admin, "").await.len();
    let secrets = change_everything(&server, &admin).await;
    let all = records(&admin, "").await;
    let pair = |record: &Value| {
        ["/actor/kind", "/action"]
            .map(|it| record.pointer(it).unwrap().as_str().unwrap().to_owned())
    };
    let recorded: BTreeSet<_> = all[before..].iter().map(pair).collect();
    let of_key = ["create", "update", "rotate_secret", "delete"].map(|it| format!("webhook.{it}"));
    let of_key: Vec<_> = of_key.iter().map(String::as_str).chain(["clock.advance"]).collect();
    let by_admin = OPERATIONS.iter().filter(|(operation, _)| !BY_KEY.contains(operation));
    let by_admin = by_admin.map(|(_, action)| ["admin_token", *action]);
    // The link creates the missing user, and makes them a member.
    let by_admin = by_admin.chain([["admin_token", "user.create"], ["admin_token", "member.set"]]);
    let expected = by_admin.chain(of_key.iter().map(|action| ["key", *action]));
    assert_eq!(recorded, expected.map(|it| it.map(str::to_owned)).collect());
    let text = serde_json::to_string(&all).unwrap();
    for secret in secrets.iter().map(String::as_str).chain(["A text of a message", "pr_"]) {
        assert!(!text.contains(secret), "{secret} is in the audit log");
    }
    for record in &all[before..] {
        assert_eq!(record["address"], "127.0.0.1", "{record}");
        assert!(record["request_id"].as_str().unwrap().starts_with("req_"), "{record}");
    }
    let by_admin = records(&admin, "actor=admin_token").await;
    let by_key = records(&admin, "actor=backend").await;
    assert_eq!(actions(&by_key), of_key);
    assert!(by_key[0]["actor"]["id"].as_str().unwrap().starts_with("key_"));
    assert_eq!(by_key[0]["workspace"], "acme");
    assert_eq!(by_key[0]["changes"]["url_origin"], "https://example.com");
    assert_eq!(by_admin.len() + by_key.len(), all.len() - before);
    let key = &records(&admin, "action=key.create&workspace=acme").await[0]["changes"];
    assert_eq!(
        (&key["expires_at"], &key["allowed_subnets"]),
        (&json!(KEY_END), &json!(["127.0.0.1/32"]))
    );
    let token = &records(&admin, "action=token.create").await[0]["changes"];
    assert_eq!(*token, json!({"name": "alice", "expires_at": KEY_END}));
    let credits = records(&admin, "action=credits").await;
    let credits: Vec<_> = credits.iter().filter(|it| it["workspace"] == "acme").collect();
    assert_eq!(credits[0]["changes"], json!({"credits": {"from": 0, "to": 10}}));
    assert_eq!(credits[1]["changes"], json!({"add": 5}));
    for (action, name, from, to) in [
        ("limits.set", "otp_per_phone_hour", json!(0), json!(9)),
        ("destinations.set", "allow", json!([]), json!(["49"])),
        ("number.update", "messages_per_second", json!(null), json!(3)),
        ("template.update", "status", json!("approved"), json!("paused")),
        ("webhook.update", "enabled", json!(true), json!(false)),
    ] {
        let query = format!("action={action}&workspace=acme&actor=admin_token");
        let changes = &records(&admin, &query).await[0]["changes"];
        assert_eq!(changes[name], json!({"from": from, "to": to}), "{action}: {changes}");
        assert!(!changes.as_object().unwrap().contains_key("bytes_max"), "{changes}");
    }
}

#[tokio::test]
async fn the_log_is_read_in_parts_both_ways_and_by_administrators_only() {
    let server = TestServer::start().await;
    let (admin, acme) = (server.admin(), server.workspace("acme").await);
    acme.get(AUDIT).await.check(401, "UNAUTHORIZED");
    server.stranger().get(&format!("{AUDIT}/check")).await.check(401, "UNAUTHORIZED");
    let ids = |rows: &[Value]| -> Vec<_> { rows.iter().map(|row| row["id"].clone()).collect() };
    let all = records(&admin, "until=2999-01-01T00:00:00Z&workspace=acme").await;
    assert_eq!(all.len(), 4);
    for order in ["oldest", "newest"] {
        let (mut found, mut cursor) = (Vec::new(), String::new());
        loop {
            let query = format!("workspace=acme&order={order}&limit=3{cursor}");
            let part = admin.get(&format!("{AUDIT}?{query}")).await.ok();
            let rows = part["data"].as_array().unwrap();
            found.extend_from_slice(rows);
            match part["next_cursor"].as_str() {
                Some(next) if order == "newest" || !rows.is_empty() => {
                    cursor = format!("&cursor={next}");
                }
                _ => break,
            }
        }
        if order == "newest" {
            found.reverse();
        }
        assert_eq!(ids(&found), ids(&all), "{order}");
    }
    for (row, next) in all.iter().zip(&all[1..]) {
        assert!(row["sequence"].as_u64() < next["sequence"].as_u64());
    }
    let check = admin.get(&format!("{AUDIT}/check")).await.ok();
    assert_eq!((&check["fault"], &check["next_cursor"]), (&Value::Null, &Value::Null));
    let (bad, ahead) = ("cursor=x", "cursor=Af__________");
    for (query, field) in [
        (bad, "cursor"),
        (ahead, "cursor"),
        ("limit=0", "limit"),
        ("order=up", "order"),
        ("since=yesterday", "since"),
        ("until=1", "until"),
        ("workspace=A", "workspace"),
        ("actor=", "actor"),
    ] {
        admin.get(&format!("{AUDIT}?{query}")).await.check_field(field);
    }
    for query in [bad, ahead] {
        admin.get(&format!("{AUDIT}/check?{query}")).await.check_field("cursor");
    }
}

#[tokio::test]
async fn a_start_and_a_stop_are_recorded() {
    let mut server = TestServer::start().await;
    server.restart().await;
    server.crash().await;
    let started = records(&server.admin(), "action=server").await;
    let expected = ["server.start", "server.stop", "server.start", "server.start"];
    assert_eq!(actions(&started), expected);
    assert_eq!(started[0]["changes"]["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(started[0]["actor"], json!({"kind": "system", "id": null, "name": null}));
}

#[tokio::test]
async fn failed_authentications_are_counted_by_address_and_minute() {
    let server = TestServer::start().await;
    let admin = server.admin();
    for (path, token) in [("/v1/events", "pr_wrong"), (AUDIT, "wrong"), ("/v1/no-route", "x")] {
        server.api(token).get(path).await.check(401, "UNAUTHORIZED");
    }
    server.stranger().get("/v1/events").await.check(401, "UNAUTHORIZED");
    let failures = async || records(&admin, "action=authentication").await;
    let first = eventually("the first is recorded", async || {
        let found = failures().await;
        (!found.is_empty()).then_some(found)
    });
    let first = first.await;
    assert_eq!(first.len(), 1, "{first:?}");
    assert_eq!(first[0]["actor"]["kind"], "anonymous");
    assert_eq!(
        (&first[0]["address"], &first[0]["changes"]),
        (&json!("127.0.0.1"), &json!({"count": 1}))
    );
    assert!(first[0]["request_id"].as_str().unwrap().starts_with("req_"));
    let warnings = || {
        let log = server.log();
        let failed = |line: &&str| line.contains("authentication failed");
        log.lines().filter(failed).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(warnings().len(), 1, "{:?}", warnings());
    assert!(warnings()[0].contains("WARN") && warnings()[0].contains("address=127.0.0.1"));
    // The minute ends, and the others are recorded together.
    server.advance(61).await;
    let both = eventually("the others are recorded", async || {
        let found = failures().await;
        (found.len() == 2).then_some(found)
    });
    assert_eq!(both.await[1]["changes"], json!({"count": 3}));
    server.stranger().get("/v1/events").await.check(401, "UNAUTHORIZED");
    let third = async || (failures().await.len() == 3).then_some(());
    eventually("the first of the next minute is recorded", third).await;
    assert_eq!(warnings().len(), 2, "{:?}", warnings());
}

#[tokio::test]
async fn a_line_of_the_log_reports_who_sent_a_request() {
    let server = TestServer::start().await;
    server.workspace("acme").await;
    let (key_id, api) = server.key("acme", &["webhooks:manage"], json!({})).await;
    let id = [("X-Request-Id", "the-request-of-a-key")];
    api.call("GET", "/v1/webhooks", &id, b"").await.ok();
    let id = [("X-Request-Id", "the-request-of-the-administrator")];
    server.admin().call("GET", &format!("{ROOT}/acme/keys"), &id, b"").await.ok();
    let log = server.log();
    let line = |id: &str| {
        let quoted = format!("request_id=\"{id}\"");
        log.lines().find(|line| line.contains(&quoted)).unwrap_or_else(|| panic!("{log}"))
    };
    let of_key = line("the-request-of-a-key");
    for field in
        [format!("key_id={key_id}"), "workspace=\"acme\"".into(), "address=127.0.0.1".into()]
    {
        assert!(of_key.contains(&field), "{field}: {of_key}");
    }
    let of_admin = line("the-request-of-the-administrator");
    assert!(of_admin.contains("workspace=\"acme\"") && of_admin.contains("address=127.0.0.1"));
    assert!(!of_admin.contains("key_id"), "{of_admin}");
}
