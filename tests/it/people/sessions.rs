//! Links, passwords and sessions: their start and their end.

use postrider_actors::domain::Timestamp;
use serde_json::json;

use super::{OWN, link, member, owner};
use crate::support::{TestServer, millis};

#[tokio::test]
async fn the_link_of_the_banner_signs_the_owner_in_once() {
    let mut server = TestServer::start().await;
    let banner = server.banner();
    let expected = format!("  dashboard     http://{}/ui/phone#in=", server.address());
    assert!(banner.contains(&expected), "{banner}");
    let mut browser = server.browser();
    assert_eq!(browser.get("/ui/api/session").await.ok()["signed_in"], false);
    browser.get("/v1/contacts").await.check(401, "UNAUTHORIZED");
    let me = browser.follow(&banner).await.ok();
    assert_eq!(me["principal"]["email"], "owner@localhost");
    assert_eq!((&me["role"], &me["operator"]), (&json!("owner"), &json!(true)));
    assert_eq!(me["workspace"]["id"], "demo");
    assert_eq!(browser.get("/v1/me").await.ok()["permissions"], me["permissions"]);
    assert_eq!(browser.get("/ui/api/session").await.ok()["signed_in"], true);
    let mut second = server.browser();
    second.follow(&banner).await.check(401, "UNAUTHORIZED");
    assert!(second.cookie().is_none());
    // A start creates a new link, and ends the one before. Sessions continue.
    server.restart().await;
    let unused = server.banner();
    server.restart().await;
    second.follow(&unused).await.check(401, "UNAUTHORIZED");
    second.follow(&server.banner()).await.ok();
    browser.get("/v1/contacts").await.ok();
    let log = server.log();
    for text in [&banner, &unused, &server.banner()] {
        let token = text.split("#in=").nth(1).unwrap().split_whitespace().next().unwrap();
        assert!(!log.contains(token), "a link's token is in the log");
    }
    let session = browser.cookie().unwrap().split('=').nth(1).unwrap();
    assert!(!log.contains(session), "a session's token is in the log");
}

#[tokio::test]
async fn a_cookie_is_for_the_server_alone() {
    let server = TestServer::start().await;
    let mut browser = server.browser();
    let reply = browser.follow(&server.banner()).await;
    let cookie = reply.cookies().first().copied().unwrap();
    assert!(
        cookie.starts_with("postrider_") && cookie.ends_with("; HttpOnly; SameSite=Strict; Path=/")
    );
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    let other = TestServer::start().await;
    let mut neighbour = other.browser();
    let theirs = neighbour.follow(&other.banner()).await;
    let name = |cookie: &str| cookie.split('=').next().unwrap().to_owned();
    assert_ne!(name(cookie), name(theirs.cookies().first().copied().unwrap()));
    let secure = TestServer::with(&[("DASHBOARD__PUBLIC_URL", "https://post.example.com")]).await;
    let mut browser = secure.browser();
    let reply = browser.follow(&secure.banner()).await;
    let cookie = reply.cookies().first().copied().unwrap();
    assert!(cookie.starts_with("__Host-postrider_") && cookie.contains("; Secure"), "{cookie}");
    assert!(reply.header("strict-transport-security").is_some());
    browser.get("/v1/contacts").await.ok();
}

#[tokio::test]
async fn a_session_ends_at_once() {
    let server = TestServer::start().await;
    let one = owner(&server).await;
    let admin = server.admin();
    let again = json!({"email": "owner@localhost"});
    let made = admin.post("/admin/v1/users/link", again).await.ok();
    let mut other = server.browser();
    other.follow(made["url"].as_str().unwrap()).await.ok();
    let sessions = one.get("/ui/api/sessions").await.ok();
    let rows = sessions["data"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    let current: Vec<_> = rows.iter().map(|row| row["current"] == true).collect();
    assert_eq!(current, [true, false]);
    let id = rows[1]["id"].as_str().unwrap();
    one.delete(&format!("/ui/api/sessions/{id}")).await.ok();
    one.delete(&format!("/ui/api/sessions/{id}")).await.check(404, "NOT_FOUND");
    other.get("/v1/contacts").await.check(401, "UNAUTHORIZED");
    other.get("/ui/api/sessions").await.check(401, "UNAUTHORIZED");
    let out = one.delete("/ui/api/session").await;
    assert_eq!(out.status, 204);
    assert!(out.cookies().first().copied().unwrap().contains("Max-Age=0"));
    one.get("/v1/contacts").await.check(401, "UNAUTHORIZED");
    one.delete("/ui/api/session").await.ok();
    let actions = ["session.create", "session.delete", "link.create", "user.create"];
    for action in actions {
        let records = admin.get(&format!("/admin/v1/audit?action={action}")).await.ok();
        assert!(!records["data"].as_array().unwrap().is_empty(), "{action}");
    }
    let began = admin.get("/admin/v1/audit?action=session.create").await.ok();
    assert_eq!(began["data"][0]["actor"]["kind"], "user");
    assert_eq!(began["data"][0]["actor"]["name"], "owner@localhost");
}

#[tokio::test]
async fn who_is_disabled_is_signed_out_and_their_stream_ends() {
    let server = TestServer::start().await;
    let agent = member(&server, "demo", "agent").await;
    let mut connection = crate::support::Connection::open(server.address()).await;
    connection.send(agent.request("GET", "/v1/events/stream?workspace=demo", &[], None)).await;
    connection.read_until("\"offset_seconds\":0").await;
    let admin = server.admin();
    let users = admin.get("/admin/v1/users?search=AGENT").await.ok();
    assert_eq!(users["total"], 1);
    let path = format!("/admin/v1/users/{}", users["data"][0]["id"].as_str().unwrap());
    let row = admin.send_json("PATCH", &path, &json!({"disabled": true})).await.ok();
    assert_eq!(row["disabled"], true);
    agent.get("/v1/me").await.check(401, "UNAUTHORIZED");
    // The next event wakes the stream, which finds that the session has ended.
    server.demo().post("/v1/otp/send", json!({"phone": "+15550123456"})).await.ok();
    connection.read_to_end().await;
    let body = json!({"email": "agent@demo.example.com"});
    admin.post("/admin/v1/users/link", body).await.check(409, "CONFLICT");
    admin.send_json("PATCH", &path, &json!({"disabled": false})).await.ok();
    server.browser().follow(&link(&server, "demo", "agent").await).await.ok();
}

#[tokio::test]
async fn passwords_are_tried_slowly() {
    let server = TestServer::with(&[("LIMITS__UNAUTHENTICATED_PER_MINUTE", "0")]).await;
    let owner = owner(&server).await;
    let right = "correct horse battery staple";
    let short = owner.put("/ui/api/password", json!({"new": "too short"})).await;
    short.check(400, "VALIDATION_ERROR");
    owner.put("/ui/api/password", json!({"new": right})).await.ok();
    let mut browser = server.browser();
    let try_with = |email: &str, password: &str| json!({"email": email, "password": password});
    browser.sign_in(try_with("Owner@localhost", right)).await.ok();
    let mut messages = Vec::new();
    for email in ["owner@localhost", "nobody@example.com"] {
        for _ in 0..5 {
            let refused = browser.sign_in(try_with(email, "wrong")).await;
            messages.push(refused.check(401, "UNAUTHORIZED")["message"].clone());
        }
        let sixth = browser.sign_in(try_with(email, right)).await.check(429, "RATE_LIMITED");
        assert!(sixth["retry_after"].as_u64().unwrap() <= 2, "{sixth}");
    }
    messages.dedup();
    assert_eq!(messages.len(), 1, "nothing tells whether an account is there");
    assert!(!server.log().contains(right));
}

#[tokio::test]
async fn an_admin_token_signs_an_operator_in() {
    let server = TestServer::start().await;
    let mut browser = server.browser();
    browser
        .sign_in(json!({"admin_token": "not-it-at-all-really"}))
        .await
        .check(401, "UNAUTHORIZED");
    browser.sign_in(json!({"link": "a", "admin_token": "b"})).await.check(400, "VALIDATION_ERROR");
    let me = browser.sign_in(json!({"admin_token": server.admin().token()})).await.ok();
    assert_eq!(me["principal"]["kind"], "admin_token");
    assert_eq!((&me["operator"], &me["workspace"]), (&json!(true), &json!(null)));
    browser.get("/admin/v1/workspaces").await.ok();
    browser.get("/v1/contacts").await.check(400, "VALIDATION_ERROR");
    browser.with("Postrider-Workspace", "demo").get("/v1/contacts").await.ok();
    // A revoked token ends the sessions that it started.
    let made = server.admin().post("/admin/v1/tokens", json!({"name": "alice"})).await.ok();
    let mut browser = server.browser();
    browser.sign_in(json!({"admin_token": made["token"]})).await.ok();
    browser.get("/admin/v1/workspaces").await.ok();
    let path = format!("/admin/v1/tokens/{}", made["id"].as_str().unwrap());
    server.admin().delete(&path).await.ok();
    browser.get("/admin/v1/workspaces").await.check(401, "UNAUTHORIZED");
}

#[tokio::test]
async fn a_session_ends_with_the_admin_token_that_it_began_with() {
    const TOKEN: &str = "the-token-of-administrators";
    let mut server = TestServer::with(&[("ADMIN__TOKEN", TOKEN)]).await;
    let (admin, demo) = (server.admin(), server.demo());
    let now = millis(demo.get("/v1/sandbox/clock").await.ok()["now"].as_str().unwrap());
    let ends = Timestamp::from_millis(now + 600_000).to_string();
    let made = admin.post("/admin/v1/tokens", json!({"name": "alice", "expires_at": ends})).await;
    let [mut of_made, mut of_settings, mut stays] = [(); 3].map(|()| server.browser());
    let made = made.ok();
    of_made.sign_in(json!({"admin_token": made["token"]})).await.ok();
    of_settings.sign_in(json!({"admin_token": admin.token()})).await.ok();
    let lasting = admin.post("/admin/v1/tokens", json!({"name": "bob"})).await.ok();
    stays.sign_in(json!({"admin_token": lasting["token"]})).await.ok();
    let mut connection = crate::support::Connection::open(server.address()).await;
    let stream = "/v1/events/stream?workspace=demo";
    connection.send(of_made.request("GET", stream, &[], None)).await;
    connection.read_until("\"offset_seconds\":0").await;
    // The token expires.
    server.advance(599).await;
    of_made.get("/admin/v1/workspaces").await.ok();
    server.advance(2).await;
    of_made.get("/admin/v1/workspaces").await.check(401, "UNAUTHORIZED");
    of_made.post("/admin/v1/tokens", json!({"name": "eve"})).await.check(401, "UNAUTHORIZED");
    demo.post("/v1/otp/send", json!({"phone": "+15550123456"})).await.ok();
    connection.read_to_end().await;
    // The token in the settings is replaced, and then restored.
    server.restart().await;
    of_settings.get("/admin/v1/workspaces").await.ok();
    server.set("ADMIN__TOKEN", "another-token-of-the-settings");
    server.restart().await;
    of_settings.get("/admin/v1/workspaces").await.check(401, "UNAUTHORIZED");
    stays.get("/admin/v1/workspaces").await.ok();
    server.set("ADMIN__TOKEN", TOKEN);
    server.restart().await;
    stays.get("/admin/v1/workspaces").await.ok();
    of_settings.get("/admin/v1/workspaces").await.check(401, "UNAUTHORIZED");
}

/// A body that is withheld does not keep a session alive.
#[tokio::test]
async fn what_was_admitted_before_its_session_ended_is_not_done() {
    let server = TestServer::start().await;
    let (one, other) = (owner(&server).await, owner_again(&server).await);
    let body = json!({"new": "of the intruder, who is out"});
    let (key, named) =
        (server.key("demo", &["contacts:write"], json!({})).await, json!({"name": "Ada"}));
    let requests = [
        one.request("PUT", "/ui/api/password", &[OWN], Some(&body)),
        one.request("POST", "/admin/v1/tokens", &[OWN], Some(&named)),
        key.1.request(
            "POST",
            "/v1/contacts",
            &[("Content-Type", "application/json")],
            named.to_string().as_bytes(),
        ),
    ];
    let mut open = Vec::new();
    for request in requests {
        let mut connection = crate::support::Connection::open(server.address()).await;
        let (sent, withheld) = request.split_at(request.len() - 1);
        connection.send(sent.to_vec()).await;
        open.push((connection, withheld.to_vec()));
    }
    other.delete("/ui/api/sessions").await.ok();
    let path = format!("/admin/v1/workspaces/demo/keys/{}", key.0);
    server.admin().delete(&path).await.ok();
    for (mut connection, withheld) in open {
        connection.send(withheld).await;
        connection.read_until("401").await;
    }
    assert_eq!(server.admin().get("/admin/v1/tokens").await.ok()["total"], 0);
    let body = json!({"email": "owner@localhost", "password": "of the intruder, who is out"});
    server.browser().sign_in(body).await.check(401, "UNAUTHORIZED");
}

#[tokio::test]
async fn a_stream_ends_when_its_reader_lowers_their_own_role() {
    let server = TestServer::start().await;
    let (owner, _second) =
        (member(&server, "demo", "owner").await, member(&server, "demo", "admin").await);
    let mut connection = crate::support::Connection::open(server.address()).await;
    connection.send(owner.request("GET", "/v1/events/stream?workspace=demo", &[], None)).await;
    connection.read_until("\"offset_seconds\":0").await;
    let members = owner.get("/admin/v1/workspaces/demo/members").await.ok();
    let rows = members["data"].as_array().unwrap();
    let own = rows.iter().find(|row| row["email"] == "owner@demo.example.com").unwrap();
    let path = format!("/admin/v1/workspaces/demo/members/{}", own["user_id"].as_str().unwrap());
    owner.patch(&path, json!({"role": "analyst"})).await.ok();
    server.demo().post("/v1/otp/send", json!({"phone": "+15550123456"})).await.ok();
    assert!(!connection.rest().await.contains("+15550123456"));
}

/// Returns the owner in another browser.
async fn owner_again(server: &TestServer) -> crate::support::Browser {
    let made =
        server.admin().post("/admin/v1/users/link", json!({"email": "owner@localhost"})).await;
    let mut browser = server.browser();
    browser.follow(made.ok()["url"].as_str().unwrap()).await.ok();
    browser
}
