//! Members of a workspace, and invites to it.

use serde_json::{Value, json};

use super::{member, owner};
use crate::support::{Browser, Reply, TestServer};

const PASSWORD: &str = "correct horse battery staple";

async fn join(browser: &mut Browser, url: &str, password: &str) -> Reply {
    let token = url.split("#invite=").nth(1).unwrap();
    browser.join(json!({"invite": token, "name": "Bob", "password": password})).await
}

async fn invite(by: &Browser, email: &str, role: &str) -> Reply {
    by.post("/admin/v1/workspaces/acme/invites", json!({"email": email, "role": role})).await
}

#[tokio::test]
async fn who_is_invited_joins_once() {
    let server = TestServer::start().await;
    server.workspace("acme").await;
    let admin = member(&server, "acme", "admin").await;
    let (email, role) = ("Bob@acme.com", "agent");
    let first = invite(&admin, email, role).await.ok();
    let made = invite(&admin, email, role).await.ok();
    assert_eq!((&made["email"], &made["role"]), (&json!("bob@acme.com"), &json!("agent")));
    let url = made["url"].as_str().unwrap();
    assert!(url.starts_with(&format!("http://{}/ui/join#invite=", server.address())), "{url}");
    let open = admin.get("/admin/v1/workspaces/acme/invites").await.ok();
    assert_eq!((&open["total"], &open["data"][0]["id"]), (&json!(1), &made["id"]));
    assert!(open["data"][0]["url"].is_null());
    let mut browser = server.browser();
    join(&mut browser, first["url"].as_str().unwrap(), PASSWORD).await.check(401, "UNAUTHORIZED");
    join(&mut browser, url, "too short").await.check_field("password");
    let me = join(&mut browser, url, PASSWORD).await.ok();
    assert_eq!((&me["role"], &me["principal"]["name"]), (&json!("agent"), &json!("Bob")));
    assert_eq!(browser.get("/v1/me").await.ok()["workspace"]["id"], "acme");
    join(&mut server.browser(), url, PASSWORD).await.check(401, "UNAUTHORIZED");
    let sign_in = json!({"email": "bob@acme.com", "password": PASSWORD});
    server.browser().sign_in(sign_in).await.ok();
    let again = invite(&admin, email, role).await.check(409, "CONFLICT");
    assert_eq!(again["reason"], "already_member");
    let other = invite(&admin, "eve@acme.com", role).await.ok();
    let path = format!("/admin/v1/workspaces/acme/invites/{}", other["id"].as_str().unwrap());
    admin.delete(&path).await.ok();
    admin.delete(&path).await.check(404, "NOT_FOUND");
    let taken_back = join(&mut server.browser(), other["url"].as_str().unwrap(), PASSWORD).await;
    taken_back.check(401, "UNAUTHORIZED");
    assert!(!server.log().contains(url.split("#invite=").nth(1).unwrap()));
    let audit =
        server.admin().get("/admin/v1/audit?action=member.set&actor=bob%40acme.com").await.ok();
    assert_eq!(audit["data"][0]["changes"]["role"], "agent");
}

#[tokio::test]
async fn an_invite_opens_no_account_that_is_there() {
    let server = TestServer::start().await;
    server.workspace("acme").await;
    let owner = owner(&server).await;
    let admin = member(&server, "acme", "admin").await;
    let made = invite(&admin, "owner@localhost", "agent").await.ok();
    let url = made["url"].as_str().unwrap();
    let refused = join(&mut server.browser(), url, PASSWORD).await.check(409, "CONFLICT");
    assert_eq!(refused["reason"], "sign_in_first");
    owner.put("/ui/api/password", json!({"new": PASSWORD})).await.ok();
    let wrong = join(&mut server.browser(), url, "the password of another").await;
    wrong.check(401, "UNAUTHORIZED");
    let mut own = owner.clone();
    let me = join(&mut own, url, "whatever else, twelve").await.ok();
    let workspaces: Vec<_> = me["workspaces"].as_array().unwrap().iter().collect();
    let acme = workspaces.iter().find(|it| it["id"] == "acme").unwrap();
    assert_eq!(acme["role"], "agent");
}

#[tokio::test]
async fn owners_are_made_by_owners_and_the_last_one_stays() {
    let server = TestServer::start().await;
    server.workspace("acme").await;
    let acme_owner = member(&server, "acme", "owner").await;
    let admin = member(&server, "acme", "admin").await;
    let agent = member(&server, "acme", "agent").await;
    let members = "/admin/v1/workspaces/acme/members";
    agent.get(members).await.check(403, "FORBIDDEN");
    let rows = admin.get(members).await.ok();
    assert_eq!(rows["total"], 3);
    let path = |role: &str| {
        let mut rows = rows["data"].as_array().unwrap().iter();
        let row = rows.find(|row| row["role"] == role).unwrap();
        assert!(row["seen_at"].is_string() && row["totp"] == false, "{row}");
        format!("{members}/{}", row["user_id"].as_str().unwrap())
    };
    let role = |role: &str| json!({ "role": role });
    let refused = admin.patch(&path("agent"), role("owner")).await.check(403, "FORBIDDEN");
    assert_eq!(refused["message"], "you lack the permission owners:manage");
    admin.patch(&path("owner"), role("admin")).await.check(403, "FORBIDDEN");
    admin.delete(&path("owner")).await.check(403, "FORBIDDEN");
    invite(&admin, "x@acme.com", "owner").await.check(403, "FORBIDDEN");
    let last = |reply: Reply| assert_eq!(reply.check(409, "CONFLICT")["reason"], "last_owner");
    last(acme_owner.patch(&path("owner"), role("admin")).await);
    last(acme_owner.delete(&path("owner")).await);
    acme_owner.patch(&path("agent"), role("king")).await.check_field("role");
    let changed: Value = acme_owner.patch(&path("agent"), role("marketer")).await.ok();
    assert_eq!(changed["role"], "marketer");
    agent.get("/v1/me").await.check(401, "UNAUTHORIZED");
    acme_owner.patch(&path("admin"), role("owner")).await.ok();
    // A person's own session continues.
    assert_eq!(acme_owner.patch(&path("owner"), role("agent")).await.ok()["role"], "agent");
    assert_eq!(acme_owner.get("/v1/me").await.ok()["role"], "agent");
    server.admin().delete(&path("owner")).await.ok();
    assert_eq!(acme_owner.get("/v1/me").await.ok()["workspaces"], json!([]));
    server.admin().delete(&path("owner")).await.check(404, "NOT_FOUND");
    let none = server.admin().get("/admin/v1/workspaces/nothing/members").await;
    none.check(404, "NOT_FOUND");
}

#[tokio::test]
async fn an_operator_is_made_and_unmade() {
    let server = TestServer::start().await;
    let operator = owner(&server).await;
    let agent = member(&server, "demo", "agent").await;
    let users = operator.get("/admin/v1/users?search=agent").await.ok();
    let path = format!("/admin/v1/users/{}", users["data"][0]["id"].as_str().unwrap());
    agent.patch(&path, json!({"operator": true})).await.check(403, "FORBIDDEN");
    operator.patch(&path, json!({"name": ""})).await.check_field("name");
    let row = operator.patch(&path, json!({"name": "Eve", "operator": true})).await.ok();
    assert_eq!((&row["name"], &row["operator"]), (&json!("Eve"), &json!(true)));
    agent.get("/v1/me").await.check(401, "UNAUTHORIZED");
    let agent = member(&server, "demo", "agent").await;
    agent.get("/admin/v1/workspaces").await.ok();
    let own = operator.get("/admin/v1/users?search=owner").await.ok();
    let own = format!("/admin/v1/users/{}", own["data"][0]["id"].as_str().unwrap());
    operator.patch(&own, json!({"operator": false})).await.ok();
    operator.get("/admin/v1/workspaces").await.check(403, "FORBIDDEN");
    assert_eq!(operator.get("/v1/me").await.ok()["role"], "owner");
}
