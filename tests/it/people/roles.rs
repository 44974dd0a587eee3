//! The rights of a role, and the workspace in which they hold.

use serde_json::{Value, json};

use super::{member, owner};
use crate::support::TestServer;

/// Returns the permission that each operation names in the document.
fn permissions() -> Vec<(String, Option<String>)> {
    let document: Value = serde_json::to_value(postrider::openapi_document()).unwrap();
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let permission = operation["x-permission"].as_str().map(str::to_owned);
            found.push((format!("{method} {path}"), permission));
        }
    }
    found
}

#[test]
fn every_operation_names_what_it_needs() {
    let known: Vec<_> = postrider_actors::Permission::ALL.iter().map(|it| it.as_str()).collect();
    for (operation, permission) in permissions() {
        let path = operation.split(' ').nth(1).unwrap();
        let has = permission.is_some();
        assert_eq!(has, path.starts_with("/v1/") || path.starts_with("/admin/"), "{operation}");
        let permission = permission.unwrap_or_default();
        let is_known = ["any", "operator", ""].contains(&permission.as_str());
        assert!(is_known || known.contains(&permission.as_str()), "{operation}: {permission}");
        let for_anybody = ["get /v1/me", "get /v1/workspace", "get /v1/events/stream"];
        assert!(permission != "any" || for_anybody.contains(&&*operation), "{operation}");
        let in_workspace = path.starts_with("/admin/v1/workspaces/{workspace}/");
        let for_operators = ["credits", "limits", "unpark"].iter().any(|end| path.ends_with(end));
        let is_operators = permission == "operator";
        assert!(!in_workspace || is_operators == for_operators, "{operation}: {permission}");
    }
}

#[tokio::test]
async fn an_agent_answers_customers_and_nothing_else() {
    let server = TestServer::start().await;
    let agent = member(&server, "demo", "agent").await;
    let me = agent.get("/v1/me").await.ok();
    assert_eq!((&me["role"], &me["operator"]), (&json!("agent"), &json!(false)));
    assert_eq!(me["workspaces"], json!([{"id": "demo", "name": "Demo", "role": "agent"}]));
    agent.get("/v1/conversations").await.ok();
    agent.get("/v1/sandbox/messages").await.ok();
    for path in ["/v1/events", "/v1/webhooks", "/v1/analytics/campaigns"] {
        agent.get(path).await.check(403, "FORBIDDEN");
    }
    let send = agent.post("/v1/otp/send", json!({"phone": "+15550123456"})).await;
    let refusal = send.check(403, "FORBIDDEN");
    assert_eq!(refusal["message"], "you lack the permission otp:send");
    let keys = "/admin/v1/workspaces/demo/keys";
    agent.get(keys).await.check(403, "FORBIDDEN");
    let new = json!({"name": "mine", "scopes": ["messaging:send"]});
    agent.post(keys, new).await.check(403, "FORBIDDEN");
    for path in ["/admin/v1/workspaces", "/admin/v1/users", "/admin/v1/audit"] {
        agent.get(path).await.check(403, "FORBIDDEN");
    }
    let limits = agent.put("/admin/v1/workspaces/demo/credits", json!({"credits": 5})).await;
    limits.check(403, "FORBIDDEN");
}

#[tokio::test]
async fn another_workspace_is_as_if_it_were_not_there() {
    let server = TestServer::start().await;
    let acme = server.workspace("acme").await;
    acme.post("/v1/contacts", json!({"phone": "+15550001111", "name": "Ada"})).await.ok();
    let admin = member(&server, "demo", "admin").await;
    admin.get("/v1/contacts").await.ok();
    admin.get("/admin/v1/workspaces/demo/keys").await.ok();
    for workspace in ["acme", "nothing", "%00", ""] {
        let there = admin.with("Postrider-Workspace", workspace);
        there.get("/v1/contacts").await.check(404, "NOT_FOUND");
        there.get("/v1/me").await.check(404, "NOT_FOUND");
    }
    for workspace in ["acme", "nothing"] {
        let keys = format!("/admin/v1/workspaces/{workspace}/keys");
        let refusal = admin.get(&keys).await.check(404, "NOT_FOUND");
        assert_eq!(refusal["message"], "no such workspace");
    }
    let stream = "/v1/events/stream?workspace=acme";
    admin.get(stream).await.check(404, "NOT_FOUND");
    // An operator may use all workspaces, but must name those other than their only one.
    let owner = owner(&server).await;
    let contacts = owner.with("Postrider-Workspace", "acme").get("/v1/contacts").await.ok();
    assert_eq!(contacts["total"], 1);
    assert_eq!(owner.get("/v1/contacts").await.ok()["total"], 0);
}

#[tokio::test]
async fn a_role_follows_the_person_and_goes_with_the_workspace() {
    let server = TestServer::start().await;
    server.workspace("acme").await;
    let analyst = member(&server, "acme", "analyst").await;
    analyst.get("/v1/analytics/campaigns").await.ok();
    let body = json!({"email": "analyst@acme.example.com", "workspace": "acme", "role": "owner"});
    let made = server.admin().post("/admin/v1/users/link", body).await.ok();
    analyst.get("/v1/me").await.check(401, "UNAUTHORIZED");
    let mut owner = server.browser();
    owner.follow(made["url"].as_str().unwrap()).await.ok();
    let new = json!({"name": "mine", "scopes": ["messaging:send"]});
    owner.post("/admin/v1/workspaces/acme/keys", new).await.ok();
    let keys = server.admin().get("/admin/v1/audit?action=key.create&workspace=acme").await.ok();
    let last = keys["data"].as_array().unwrap().last().unwrap();
    assert_eq!(last["actor"]["name"], "analyst@acme.example.com");
    let confirm = json!({"name": "acme"});
    let admin = server.admin();
    admin.send_json("DELETE", "/admin/v1/workspaces/acme", &confirm).await.ok();
    let me = owner.get("/v1/me").await.ok();
    assert_eq!((&me["workspace"], &me["workspaces"]), (&json!(null), &json!([])));
    owner.get("/v1/contacts").await.check(400, "VALIDATION_ERROR");
}

#[tokio::test]
async fn nobody_gives_a_key_what_they_may_not_do() {
    const ALL: [&str; 5] =
        ["messaging:send", "contacts:write", "contacts:read", "webhooks:manage", "analytics:read"];
    let server = TestServer::with(&[("SANDBOX__ENABLED", "false")]).await;
    server.workspace("acme").await;
    let path = "/admin/v1/workspaces/acme/keys";
    for (role, may) in [
        ("owner", &ALL[..]),
        ("admin", &ALL),
        ("developer", &["contacts:read", "webhooks:manage", "analytics:read"]),
    ] {
        let person = member(&server, "acme", role).await;
        for scope in ALL {
            for scopes in [vec![scope], vec!["analytics:read", scope]] {
                let made = person.post(path, json!({"name": "mine", "scopes": scopes})).await;
                if may.contains(&scope) {
                    made.ok();
                    continue;
                }
                let refused = made.check(403, "FORBIDDEN");
                assert_eq!(refused["reason"], "scope_beyond_role", "{role} {scope}");
                assert!(refused["message"].as_str().unwrap().contains(scope), "{refused}");
            }
        }
    }
    // An expired key is not extended, and gets no higher limits.
    let admin = server.admin();
    let made = admin.post(path, json!({"name": "theirs", "scopes": ["messaging:send"]})).await.ok();
    let developer = member(&server, "acme", "developer").await;
    let key = format!("{path}/{}", made["id"].as_str().unwrap());
    for change in [
        json!({"expires_at": null}),
        json!({"expires_at": "2099-01-01T00:00:00Z"}),
        json!({"limits": {"key_requests_per_hour": 100}}),
    ] {
        let refused = developer.patch(&key, change).await.check(403, "FORBIDDEN");
        assert_eq!(refused["reason"], "scope_beyond_role");
    }
    developer.patch(&key, json!({"name": "renamed"})).await.ok();
    // In a sandbox a developer tries everything.
    let sandbox = TestServer::start().await;
    let developer = member(&sandbox, "demo", "developer").await;
    let body = json!({"name": "mine", "scopes": ALL});
    developer.post("/admin/v1/workspaces/demo/keys", body).await.ok();
}

#[tokio::test]
async fn what_does_harm_needs_a_recent_sign_in() {
    let server = TestServer::start().await;
    let mut owner = owner(&server).await;
    let new = || json!({"name": "mine", "scopes": ["messaging:send"]});
    let keys = "/admin/v1/workspaces/demo/keys";
    owner.post(keys, new()).await.ok();
    // Engine time does not count: a sandbox that moves it needs no new sign-in.
    server.advance(24 * 3600).await;
    owner.post(keys, new()).await.ok();
    let right = "correct horse battery staple";
    owner.put("/ui/api/password", json!({"new": right})).await.ok();
    let wrong = owner.post("/ui/api/session/elevate", json!({"password": "wrong"})).await;
    wrong.check(401, "UNAUTHORIZED");
    let elevated = owner.post("/ui/api/session/elevate", json!({"password": right})).await.ok();
    assert!(elevated["elevated_until"].is_string());
    let limited = TestServer::with(&[("LIMITS__SESSION_REQUESTS_PER_MINUTE", "3")]).await;
    owner = super::owner(&limited).await;
    for left in [2, 1, 0] {
        let reply = owner.get("/v1/contacts").await;
        assert_eq!((reply.status, reply.number("x-ratelimit-remaining")), (200, left));
    }
    owner.get("/v1/contacts").await.check(429, "RATE_LIMITED");
    owner.get("/ui/api/session").await.check(429, "RATE_LIMITED");
}
