//! Keys: their expiry, the addresses that may use them, and the time of their last use.

use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Api, Reply, TestServer, eventually, millis};

const KEYS: &str = "/admin/v1/workspaces/demo/keys";
const CLOCK: &str = "/v1/sandbox/clock";

async fn create(server: &TestServer, extra: Value) -> Reply {
    let mut body = json!({"name": "k", "scopes": ["messaging:send", "contacts:read"]});
    body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    server.admin().post(KEYS, body).await
}

async fn row(server: &TestServer, id: &Value) -> Value {
    let listed = server.admin().get(KEYS).await.ok();
    let rows = listed["data"].as_array().unwrap();
    rows.iter().find(|row| row["id"] == *id).unwrap().clone()
}

/// Makes a request that a proxy at 127.0.0.1 passes on for this address.
async fn forwarded(api: &Api, address: &str) -> Reply {
    api.call("GET", "/v1/contacts", &[("X-Forwarded-For", address)], b"").await
}

#[tokio::test]
async fn a_key_ends_at_its_moment_and_shows_its_last_use() {
    let mut server = TestServer::start().await;
    let now = server.demo().get(CLOCK).await.ok()["now"].as_str().unwrap().to_owned();
    create(&server, json!({"expires_at": now})).await.check_field("expires_at");
    create(&server, json!({"expires_at": "2026-02-30T00:00:00Z"})).await.check_field("expires_at");
    let end = jiff::Timestamp::from_millisecond(millis(&now) as i64 + 3_600_000).unwrap();
    let made = create(&server, json!({"expires_at": end.to_string()})).await.ok();
    assert_eq!(millis(made["expires_at"].as_str().unwrap()), millis(&now) + 3_600_000);
    assert_eq!((&made["last_used_at"], &made["allowed_subnets"]), (&Value::Null, &json!([])));
    let api = server.api(made["key"].as_str().unwrap());
    api.get("/v1/contacts").await.ok();
    let used = row(&server, &made["id"]).await["last_used_at"].as_str().unwrap().to_owned();
    assert!(used.ends_with(":00.000Z"), "{used}");
    assert!((millis(&now) - 60_000..=millis(&now) + 60_000).contains(&millis(&used)), "{used}");
    server.restart().await;
    assert_eq!(row(&server, &made["id"]).await["last_used_at"], used, "it is durable");
    api.get("/v1/contacts").await.ok();
    server.advance(3_600).await;
    let refused = api.get("/v1/contacts").await.check(401, "UNAUTHORIZED");
    assert!(refused["message"].as_str().unwrap().contains("expired"), "{refused}");
    assert!(row(&server, &made["id"]).await["expires_at"].is_string(), "it is still listed");
}

#[tokio::test]
async fn a_key_gets_another_name_other_limits_and_another_end() {
    let mut server = TestServer::start().await;
    let admin = server.admin();
    let made = create(&server, json!({"limits": {"key_requests_per_minute": 7}})).await.ok();
    let by = json!({"kind": "admin_token", "id": null, "name": null});
    assert_eq!((&made["created_by"], &made["expires_at"]), (&by, &Value::Null));
    let path = format!("{KEYS}/{}", made["id"].as_str().unwrap());
    let patch = async |body: Value| admin.send_json("PATCH", &path, &body).await;
    let api = server.api(made["key"].as_str().unwrap());
    let limit = async || api.get("/v1/contacts").await.number("x-ratelimit-limit");
    assert_eq!(limit().await, 7);
    let changed = patch(json!({"name": "web", "limits": {"key_requests_per_hour": 5}})).await.ok();
    assert_eq!((&changed["name"], &changed["prefix"]), (&json!("web"), &made["prefix"]));
    assert_eq!(changed["limits"], json!({"key_requests_per_hour": 5}));
    assert_eq!(limit().await, 5, "it is in force, in place of the one before");
    assert_eq!(api.get("/v1/me").await.ok()["principal"]["name"], "web");
    assert_eq!(row(&server, &made["id"]).await["name"], "web");
    let now = server.demo().get(CLOCK).await.ok()["now"].as_str().unwrap().to_owned();
    let end = jiff::Timestamp::from_millisecond(millis(&now) as i64 + 3_600_000).unwrap();
    let end = json!({"expires_at": end.to_string()});
    assert!(patch(end).await.ok()["expires_at"].is_string());
    assert!(patch(json!({"limits": {}})).await.ok()["expires_at"].is_string(), "it stays");
    server.advance(3_600).await;
    api.get("/v1/contacts").await.check(401, "UNAUTHORIZED");
    server.restart().await;
    let admin = server.admin();
    let patch = async |body: Value| admin.send_json("PATCH", &path, &body).await;
    api.get("/v1/contacts").await.check(401, "UNAUTHORIZED");
    assert_eq!(patch(json!({"expires_at": null})).await.ok()["expires_at"], Value::Null);
    api.get("/v1/contacts").await.ok();
    assert_eq!(
        (row(&server, &made["id"]).await["limits"].clone(), patch(json!({})).await.status),
        (json!({}), 200)
    );
    for (body, field) in [
        (json!({"name": ""}), "name"),
        (json!({"expires_at": now}), "expires_at"),
        (json!({"expires_at": "soon"}), "expires_at"),
        (json!({"limits": {"otp_per_phone_10m": 1}}), "limits.otp_per_phone_10m"),
    ] {
        patch(body).await.check_field(field);
    }
    admin.send_json("PATCH", &format!("{KEYS}/key_x"), &json!({})).await.check(404, "NOT_FOUND");
    let other = path.replace("/demo/", "/none/");
    admin.send_json("PATCH", &other, &json!({})).await.check(404, "NOT_FOUND");
    admin.delete(&path).await;
    patch(json!({"name": "back"})).await.check(404, "NOT_FOUND");
    api.get("/v1/contacts").await.check(401, "UNAUTHORIZED");
}

#[tokio::test]
async fn a_key_says_who_made_it_and_changes_for_those_who_manage_keys() {
    let server = TestServer::start().await;
    let link = json!({"email": "ada@acme.com", "workspace": "demo", "role": "developer"});
    let link = server.admin().post("/admin/v1/users/link", link).await.ok();
    let mut ada = server.browser();
    ada.follow(link["url"].as_str().unwrap()).await.ok();
    let body = json!({"name": "k", "scopes": ["contacts:read"]});
    let made = ada.post(KEYS, body).await.ok();
    let id = &link["user_id"];
    let by = json!({"kind": "user", "id": id, "name": made["created_by"]["name"]});
    assert_eq!(made["created_by"], by);
    assert!(made["created_by"]["name"].is_string(), "{made}");
    let path = format!("{KEYS}/{}", made["id"].as_str().unwrap());
    ada.patch(&path, json!({"name": "mine"})).await.ok();
    let me = server.api(made["key"].as_str().unwrap()).get("/v1/me").await.ok();
    assert_eq!(me["principal"]["name"], "mine");
    let mut agent = server.browser();
    let link = json!({"email": "bob@acme.com", "workspace": "demo", "role": "agent"});
    let link = server.admin().post("/admin/v1/users/link", link).await.ok();
    agent.follow(link["url"].as_str().unwrap()).await.ok();
    agent.patch(&path, json!({"name": "his"})).await.check(403, "FORBIDDEN");
}

#[tokio::test]
async fn a_key_is_refused_from_addresses_that_it_does_not_allow() {
    let settings =
        [("SERVER__TRUSTED_PROXIES", "127.0.0.1/32"), ("LIMITS__UNAUTHENTICATED_PER_MINUTE", "3")];
    let mut server = TestServer::with(&settings).await;
    let bad = json!({"allowed_subnets": ["10.0.0.0/8", "10.0.0.0/33"]});
    create(&server, bad).await.check_field("allowed_subnets[1]");
    let allowed = json!({"allowed_subnets": ["203.0.113.7", "2001:db8:1::5/48"]});
    let made = create(&server, allowed).await.ok();
    assert_eq!(made["allowed_subnets"], json!(["203.0.113.7/32", "2001:db8:1::/48"]));
    let api = server.api(made["key"].as_str().unwrap());
    for _ in 0..2 {
        for good in ["203.0.113.7", "2001:db8:1:2:3::4", "::ffff:203.0.113.7"] {
            forwarded(&api, good).await.ok();
        }
        let refused = forwarded(&api, "203.0.113.8").await.check(403, "FORBIDDEN");
        assert_eq!(refused["reason"], "address_not_allowed");
        assert!(refused["message"].as_str().unwrap().contains("203.0.113.8"), "{refused}");
        server.restart().await;
    }
    // The first refusal of an address in a minute is recorded at once.
    let path = "/admin/v1/audit?action=authentication.refuse";
    let recorded = async || {
        let rows = server.admin().get(path).await.ok()["data"].as_array().unwrap().clone();
        (!rows.is_empty()).then_some(rows)
    };
    let first = eventually("the refused use is recorded", recorded).await[0].clone();
    assert_eq!((&first["target"], &first["workspace"]), (&made["id"], &json!("demo")));
    let seen = (&first["address"], &first["changes"]);
    assert_eq!(seen, (&json!("203.0.113.8"), &json!({"count": 1})));
    let warned = format!("key_id={}", made["id"].as_str().unwrap());
    let log = server.log();
    let warned =
        |it: &str| it.contains("WARN") && it.contains("may not be") && it.contains(&warned);
    assert!(log.lines().any(warned), "{log}");
    // A refused address uses up no requests of the key.
    forwarded(&api, "203.0.113.8").await.check(403, "FORBIDDEN");
    forwarded(&api, "203.0.113.8").await.check(429, "RATE_LIMITED");
    forwarded(&api, "203.0.113.7").await.ok();
    // Without a proxy in between, the connection's own address counts.
    server.set("SERVER__TRUSTED_PROXIES", "");
    server.restart().await;
    forwarded(&api, "203.0.113.7").await.check(403, "FORBIDDEN");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_makes_and_shows_such_keys() {
    let server = TestServer::start().await;
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_postrider"));
        command.args(args).args(["--server", &format!("http://{}", server.address())]);
        command.arg("--data-dir").arg(server.data_dir()).env_remove("POSTRIDER_ADMIN_TOKEN");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let end = "2099-01-31T00:00:00.000Z";
    let create = ["keys", "create", "-w", "demo", "--name", "office", "--scope", "contacts:read"];
    let made = run(&[&create[..], &["--expires", end, "--allow", "127.0.0.1,::1"]].concat());
    assert!(made.contains(end) && made.contains("127.0.0.1/32,::1/128"), "{made}");
    let key = made.lines().find_map(|line| line.strip_prefix("KEY")).unwrap().trim();
    server.api(key).get("/v1/contacts").await.ok();
    let shown = async || {
        let listed = run(&["keys", "list", "-w", "demo"]);
        let row = listed.lines().find(|line| line.contains("office")).unwrap();
        (row.matches(":00.000Z").count() >= 2).then(|| row.to_owned())
    };
    let row = eventually("the last use", shown).await;
    assert!(row.contains(end) && row.contains("127.0.0.1/32,::1/128"), "{row}");
}
