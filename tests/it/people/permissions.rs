//! The permission that each operation needs, and the refusal of everybody without it.

use serde_json::{Value, json};

use super::member;
use crate::support::{Browser, Reply, TestServer};

const ROLES: [&str; 6] = ["owner", "admin", "marketer", "agent", "analyst", "developer"];
/// Each session and key makes hundreds of requests here.
const MANY: &[(&str, &str)] = &[("LIMITS__SESSION_REQUESTS_PER_MINUTE", "100000")];

const REPLY: (&str, &str) = ("POST", "/v1/conversations/{conversation_id}/messages");
/// An agent's reply may contain a file.
const UPLOAD: (&str, &str) = ("POST", "/v1/media");
const READ: (&str, &str) = ("POST", "/v1/conversations/{conversation_id}/read");

/// The permissions to read and to change, by the prefix of the path; the first match counts.
const ABOUT: &[(&str, &str, &str)] = &[
    ("/v1/workspace", "any", "settings:write"),
    ("/v1/events/stream", "any", "any"),
    ("/v1/events", "events:read", "events:read"),
    ("/v1/otp", "otp:read", "otp:send"),
    ("/v1/messaging/otp", "otp:read", "otp:send"),
    ("/v1/messaging/broadcasts", "broadcasts:read", "broadcasts:write"),
    ("/v1/messaging/templates", "templates:read", "templates:read"),
    ("/v1/messaging/", "messages:read", "messages:send"),
    ("/v1/media/", "inbox:read", "messages:send"),
    ("/v1/media", "inbox:read", "inbox:write"),
    ("/v1/me", "any", "any"),
    ("/v1/templates", "templates:read", "templates:write"),
    ("/v1/contacts/export", "contacts:export", "-"),
    ("/v1/contacts", "contacts:read", "contacts:write"),
    ("/v1/segments/count", "contacts:read", "contacts:read"),
    ("/v1/segments", "contacts:read", "contacts:write"),
    ("/v1/suppressions", "contacts:read", "contacts:write"),
    ("/v1/conversations", "inbox:read", "inbox:write"),
    ("/v1/quick-replies", "inbox:read", "inbox:write"),
    ("/v1/webhooks", "webhooks:manage", "webhooks:manage"),
    ("/v1/analytics", "analytics:read", "-"),
    ("/v1/requests", "requests:read", "-"),
    ("/v1/sandbox", "sandbox:use", "sandbox:use"),
    ("/admin/v1/workspaces/{workspace}/keys", "keys:manage", "keys:manage"),
    ("/admin/v1/workspaces/{workspace}/members", "people:manage", "people:manage"),
    ("/admin/v1/workspaces/{workspace}/invites", "people:manage", "people:manage"),
    ("/admin/v1/workspaces/{workspace}/numbers", "numbers:manage", "numbers:manage"),
    ("/admin/v1/workspaces/{workspace}/portfolios", "numbers:manage", "numbers:manage"),
    ("/admin/v1/workspaces/{workspace}/templates", "templates:read", "templates:write"),
    ("/admin/v1/workspaces/{workspace}/webhooks", "webhooks:manage", "webhooks:manage"),
    ("/admin/v1/workspaces/{workspace}/credits", "operator", "operator"),
    ("/admin/v1/workspaces/{workspace}/limits", "operator", "operator"),
    ("/admin/v1/workspaces/{workspace}/unpark", "operator", "operator"),
    ("/admin/v1/workspaces/{workspace}/", "settings:write", "settings:write"),
    ("/admin/v1/workspaces/{workspace}", "operator", "workspace:delete"),
    ("/admin/", "operator", "operator"),
];

pub(super) struct Operation {
    pub(super) method: String,
    pub(super) path: String,
    pub(super) permission: String,
}

/// Returns the operations that need a permission.
pub(super) fn operations() -> Vec<Operation> {
    let document: Value = serde_json::to_value(postrider::openapi_document()).unwrap();
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let Some(permission) = operation["x-permission"].as_str() else { continue };
            let (method, path) = (method.to_uppercase(), path.clone());
            found.push(Operation { method, path, permission: permission.to_owned() });
        }
    }
    assert!(found.len() > 120, "{}", found.len());
    found
}

/// Returns a path of the operation, in the workspace `demo`.
pub(super) fn filled(path: &str) -> String {
    let part = |part: &str| match part {
        "{workspace}" => "demo".to_owned(),
        part if part.starts_with('{') => "none".to_owned(),
        part => part.to_owned(),
    };
    path.split('/').map(part).collect::<Vec<_>>().join("/")
}

pub(super) async fn ask(who: &Browser, operation: &Operation) -> Reply {
    let (method, path) = (operation.method.as_str(), filled(&operation.path));
    let body = (method != "GET").then(|| json!({}));
    who.send(method, &path, &[super::OWN], body.as_ref()).await
}

#[test]
fn each_operation_asks_for_the_permission_of_what_it_is_about() {
    for Operation { method, path, permission } in operations() {
        let (_, read, write) = ABOUT.iter().find(|(about, ..)| path.starts_with(about)).unwrap();
        let expected = if method == "GET" { read } else { write };
        assert_eq!(permission, *expected, "{method} {path}");
    }
}

#[tokio::test]
async fn a_role_is_refused_whatever_it_may_not() {
    let server = TestServer::with(MANY).await;
    let operations = operations();
    for role in ROLES {
        let who = member(&server, "demo", role).await;
        let me = who.get("/v1/me").await.ok();
        let mut refused = 0;
        for operation in &operations {
            let permission = operation.permission.as_str();
            let has = me["permissions"].as_array().unwrap().contains(&json!(permission));
            if has || permission == "any" {
                continue;
            }
            let reply = ask(&who, operation).await;
            let about = format!("{role}: {} {}", operation.method, operation.path);
            assert_eq!(reply.status, 403, "{about}: {}", reply.text());
            let message = reply.json()["message"].as_str().unwrap().to_owned();
            assert!(message.contains(permission), "{about}: {message}");
            refused += 1;
        }
        assert!(refused > 10, "{role}: {refused}");
    }
}

#[tokio::test]
async fn members_of_another_workspace_reach_nothing_of_this_one() {
    let server = TestServer::with(MANY).await;
    server.workspace("acme").await;
    let owner = member(&server, "acme", "owner").await.with("Postrider-Workspace", "demo");
    for operation in operations() {
        let Operation { method, path, permission } = &operation;
        let about = format!("{method} {path}");
        if permission == "operator" {
            assert_eq!(ask(&owner, &operation).await.status, 403, "{about}");
            continue;
        }
        let reply = match path.as_str() {
            "/v1/events/stream" => owner.get("/v1/events/stream?workspace=demo").await,
            _ => ask(&owner, &operation).await,
        };
        assert_eq!(reply.status, 404, "{about}: {}", reply.text());
        assert_eq!(reply.json()["message"], "no such workspace", "{about}");
    }
}

#[tokio::test]
async fn a_key_is_refused_whatever_its_scope_does_not_allow() {
    let server = TestServer::start().await;
    server.workspace("acme").await;
    let operations = operations();
    let scopes =
        ["messaging:send", "contacts:write", "contacts:read", "webhooks:manage", "analytics:read"];
    for scope in scopes {
        let (_, api) = server.key("acme", &[scope], json!({})).await;
        let me = api.get("/v1/me").await.ok();
        let mut refused = 0;
        for Operation { method, path, permission } in &operations {
            let has = me["permissions"].as_array().unwrap().contains(&json!(permission));
            // Below /admin a key has no rights. A sender may also reply, with a file, and report
            // reads.
            let is_reply = [REPLY, UPLOAD, READ].contains(&(method.as_str(), path.as_str()));
            let is_other = path.starts_with("/admin/") || is_reply;
            if has || permission == "any" || is_other {
                continue;
            }
            let body = if method == "GET" { "" } else { "{}" };
            let json = [("Content-Type", "application/json")];
            let reply = api.call(method, &filled(path), &json, body.as_bytes()).await;
            assert_eq!(reply.status, 403, "{scope}: {method} {path}: {}", reply.text());
            refused += 1;
        }
        assert!(refused > 10, "{scope}: {refused}");
        let reply = api.post(&filled(REPLY.1), json!({})).await;
        assert_eq!(reply.status == 403, scope != "messaging:send", "{scope}: {}", reply.text());
    }
}
