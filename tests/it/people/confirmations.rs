//! Harmful changes need a person's confirmation, ten minutes after they signed in.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use postrider_actors::store::{Change, Direction, FjallView, MarkedView as _, Table, View as _};
use serde_json::{Value, json};

use super::owner;
use super::permissions::{Operation, ask, operations};
use crate::support::TestServer;

/// The permissions of these changes: they send data elsewhere, weaken a sign-in, or spend.
const CHANGES_ASK: [&str; 8] = [
    "keys:manage",
    "numbers:manage",
    "operator",
    "owners:manage",
    "people:manage",
    "settings:write",
    "webhooks:manage",
    "workspace:delete",
];
/// The paths that read everything, and need a confirmation too.
const READINGS_ASK: [&str; 5] = [
    "/admin/v1/archive",
    "/admin/v1/archive/files",
    "/admin/v1/archive/files/{sha256}",
    "/admin/v1/archive/log",
    "/v1/contacts/export",
];
/// Turns all sessions into those of ten minutes ago.
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

#[tokio::test]
async fn ten_minutes_after_a_sign_in_what_does_harm_asks_again() {
    let many = [("LIMITS__SESSION_REQUESTS_PER_MINUTE", "100000")];
    let mut server = TestServer::with(&many).await;
    let owner = owner(&server).await;
    let right = "correct horse battery staple";
    owner.put("/ui/api/password", json!({"new": right})).await.ok();
    let_time_pass(&mut server).await;
    let (mut asked, mut expected) = (BTreeSet::new(), BTreeSet::new());
    for Operation { method, path, permission } in operations() {
        // The stream does not end.
        if path == "/v1/events/stream" {
            continue;
        }
        let name = format!("{method} {path}");
        let is_change = method != "GET" && CHANGES_ASK.contains(&permission.as_str());
        if is_change || READINGS_ASK.contains(&path.as_str()) {
            expected.insert(name.clone());
        }
        let reply = ask(&owner, &Operation { method, path, permission }).await;
        if reply.status == 403 && reply.json()["reason"] == "step_up_required" {
            asked.insert(name);
        }
    }
    assert_eq!(asked, expected);
    assert!(asked.len() > 50, "{asked:?}");
    let totp = owner.post("/ui/api/totp", json!({})).await.check(403, "FORBIDDEN");
    assert_eq!(totp["reason"], "step_up_required");
    owner.post("/ui/api/session/elevate", json!({"password": right})).await.ok();
    let key = json!({"name": "mine", "scopes": ["messaging:send"]});
    owner.post("/admin/v1/workspaces/demo/keys", key).await.ok();
}
