//! What does harm asks a person to confirm that it is them, ten minutes after they signed in.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use postrider_actors::store::{Change, Direction, FjallView, MarkedView as _, Table, View as _};
use serde_json::{Value, json};

use super::owner;
use super::permissions::{ask, operations};
use crate::support::TestServer;

/// What asks, with any id as `{}`.
const ASKS: [&str; 22] = [
    "DELETE /admin/v1/tokens/{}",
    "DELETE /admin/v1/workspaces/{}",
    "DELETE /admin/v1/workspaces/{}/invites/{}",
    "DELETE /admin/v1/workspaces/{}/keys/{}",
    "DELETE /admin/v1/workspaces/{}/members/{}",
    "DELETE /admin/v1/workspaces/{}/numbers/{}",
    "GET /v1/contacts/export",
    "PATCH /admin/v1/users/{}",
    "PATCH /admin/v1/workspaces/{}/keys/{}",
    "PATCH /admin/v1/workspaces/{}/members/{}",
    "POST /admin/v1/tokens",
    "POST /admin/v1/users/link",
    "POST /admin/v1/workspaces/{}/credits",
    "POST /admin/v1/workspaces/{}/email",
    "POST /admin/v1/workspaces/{}/invites",
    "POST /admin/v1/workspaces/{}/keys",
    "POST /admin/v1/workspaces/{}/webhooks",
    "POST /admin/v1/workspaces/{}/webhooks/{}/rotate-secret",
    "POST /v1/webhooks",
    "POST /v1/webhooks/{}/rotate-secret",
    "PUT /admin/v1/workspaces/{}/credits",
    "PUT /admin/v1/workspaces/{}/sms",
];

/// Makes all sessions as they are when ten minutes have passed.
async fn let_time_pass(server: &mut TestServer) {
    server.stop();
    {
        let view = FjallView::open(&server.data_dir().join("view"), Default::default()).unwrap();
        let mut changes = Vec::new();
        let mut visit = |key: &[u8], value: &[u8]| {
            let mut session: Value = serde_json::from_slice(value).unwrap();
            assert!(!session["elevated_until"].is_null(), "{session}");
            session["elevated_until"] = Value::Null;
            changes.push(Change::put(Table::Meta, key, session.to_string().into_bytes()));
            ControlFlow::Continue(())
        };
        view.scan(Table::Meta, b"session/", None, Direction::Forward, &mut visit).unwrap();
        assert!(!changes.is_empty());
        view.apply(&view.applied().unwrap(), &changes).unwrap();
    }
    server.restart().await;
}

fn of_any_id(path: &str) -> String {
    let part = |part| if str::starts_with(part, "{") { "{}" } else { part };
    path.split('/').map(part).collect::<Vec<_>>().join("/")
}

#[tokio::test]
async fn ten_minutes_after_a_sign_in_what_does_harm_asks_again() {
    let many = [("LIMITS__SESSION_REQUESTS_PER_MINUTE", "100000")];
    let mut server = TestServer::with(&many).await;
    let owner = owner(&server).await;
    let right = "correct horse battery staple";
    owner.put("/ui/api/password", json!({"new": right})).await.ok();
    let_time_pass(&mut server).await;
    let mut asked = BTreeSet::new();
    for operation in operations() {
        // The stream does not end, and the archive is all that there is.
        let is_long = operation.path.starts_with("/admin/v1/archive");
        if is_long || operation.path == "/v1/events/stream" {
            continue;
        }
        let reply = ask(&owner, &operation).await;
        let is_refusal = reply.status == 403 && reply.json()["reason"] == "step_up_required";
        if is_refusal {
            asked.insert(format!("{} {}", operation.method, of_any_id(&operation.path)));
        }
    }
    assert_eq!(asked.iter().map(String::as_str).collect::<Vec<_>>(), ASKS);
    let totp = owner.post("/ui/api/totp", json!({})).await.check(403, "FORBIDDEN");
    assert_eq!(totp["reason"], "step_up_required");
    owner.post("/ui/api/session/elevate", json!({"password": right})).await.ok();
    let key = json!({"name": "mine", "scopes": ["messaging:send"]});
    owner.post("/admin/v1/workspaces/demo/keys", key).await.ok();
}
