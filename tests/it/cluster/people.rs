//! People over three nodes: they sign in at any, and are the same at all; so are admin tokens.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::nodes::{Cluster, TOKEN, read};
use super::state::{NODES, WORKSPACES, is_spread, once, owner};
use crate::faults::{Client, Process};
use crate::support::{Api, Browser, eventually};

pub fn shard_of(workspace: &str) -> usize {
    usize::from(postrider_actors::home_of(&workspace.parse().unwrap()) >> 14)
}

fn address(node: &Process) -> Arc<Mutex<std::net::SocketAddr>> {
    Arc::new(Mutex::new(node.address()))
}

pub fn admin(node: &Process) -> Api {
    Api::new(&address(node), Some(TOKEN))
}

/// Returns the same browser at another node.
fn at(browser: &Browser, node: &Process) -> Browser {
    Browser::new(&address(node)).with("Cookie", browser.cookie().unwrap())
}

async fn link(node: &Process, body: Value) -> String {
    let made = admin(node).post("/admin/v1/users/link", body).await.ok();
    made["url"].as_str().unwrap().to_owned()
}

/// Creates two workspaces that are neither in the shard of people nor in the same one.
pub async fn rig() -> (Cluster, Vec<Process>, [&'static str; 2]) {
    rig_with(&[]).await
}

/// Creates the same with other settings too.
async fn rig_with(more: &[(&str, &str)]) -> (Cluster, Vec<Process>, [&'static str; 2]) {
    let cluster = Cluster::with(&[&[("DASHBOARD__ENABLED", "true")], more].concat());
    let nodes: Vec<_> = NODES.map(|node| cluster.start(node)).into();
    once(&nodes[2], "shards for each", is_spread).await;
    let mut others = WORKSPACES.into_iter().filter(|id| shard_of(id) != 0);
    let first = others.next().unwrap();
    let second = others.find(|id| shard_of(id) != shard_of(first)).unwrap();
    for (id, node) in [first, second].into_iter().zip(&nodes) {
        let body = json!({"id": id, "name": format!("The {id}")});
        admin(node).post("/admin/v1/workspaces", body).await.ok();
    }
    (cluster, nodes, [first, second])
}

async fn member(node: &Process, workspace: &str, role: &str) -> Browser {
    let email = format!("{role}@{workspace}.example.com");
    let link = link(node, json!({"email": email, "workspace": workspace, "role": role})).await;
    let mut browser = Browser::new(&address(node));
    let me = browser.follow(&link).await.ok();
    assert_eq!(me["workspace"], json!({"id": workspace, "name": format!("The {workspace}")}));
    assert_eq!(me["role"], role);
    browser
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_signs_in_at_one_node_is_known_at_all_and_has_their_workspaces() {
    let (_cluster, nodes, [first, second]) = rig().await;
    let mut me = Value::Null;
    let owner = member(&nodes[1], first, "owner").await;
    for node in &nodes {
        let here = at(&owner, node);
        let mut now = here.get("/v1/me").await.ok();
        for moment in ["now", "elevated_until"] {
            now[moment] = Value::Null;
        }
        assert!(me.is_null() || me == now, "{me} {now}");
        assert_eq!(now["workspaces"].as_array().unwrap().len(), 1);
        me = now;
        // The request comes with and without the name of their only workspace.
        here.get("/v1/contacts").await.ok();
        here.with("Postrider-Workspace", first).get("/v1/contacts").await.ok();
        let other = here.with("Postrider-Workspace", second);
        other.get("/v1/contacts").await.check(404, "NOT_FOUND");
        let members = format!("/admin/v1/workspaces/{first}/members");
        let listed = here.get(&members).await.ok();
        assert_eq!(listed["data"][0]["email"], format!("owner@{first}.example.com"));
        here.get(&members.replace(first, second)).await.check(404, "NOT_FOUND");
        here.get("/admin/v1/users").await.check(403, "FORBIDDEN");
        here.get("/admin/v1/workspaces").await.check(403, "FORBIDDEN");
        // A page of another origin may not use the session.
        let foreign = [("Sec-Fetch-Site", "cross-site")];
        let body = json!({"name": "Theirs"});
        here.send("PATCH", "/v1/workspace", &foreign, Some(&body)).await.check(403, "FORBIDDEN");
    }
    let invites = format!("/admin/v1/workspaces/{first}/invites");
    let body = json!({"email": "agent@example.com", "role": "agent"});
    let invite = at(&owner, &nodes[2]).post(&invites, body).await.ok();
    let token = invite["url"].as_str().unwrap().split("#invite=").nth(1).unwrap();
    let mut agent = Browser::new(&address(&nodes[0]));
    let body = json!({"invite": token, "name": "Ann", "password": "correct horse battery staple"});
    assert_eq!(agent.join(body).await.ok()["workspace"]["id"], first);
    // Every node checks a right that members need.
    at(&agent, &nodes[1]).patch("/v1/workspace", json!({})).await.check(403, "FORBIDDEN");
    at(&owner, &nodes[2]).delete("/ui/api/session").await;
    for node in &nodes {
        at(&owner, node).get("/v1/contacts").await.check(401, "UNAUTHORIZED");
        at(&agent, node).get("/v1/contacts").await.ok();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_outlives_the_node_of_people_and_a_membership_ends_with_its_workspace() {
    let (_cluster, mut nodes, [first, second]) = rig().await;
    let body = json!({"email": "ada@example.com", "operator": true});
    let mut operator = Browser::new(&address(&nodes[0]));
    let me = operator.follow(&link(&nodes[1], body).await).await.ok();
    assert_eq!(me["workspaces"].as_array().unwrap().len(), 2, "{me}");
    let agent = member(&nodes[2], second, "agent").await;
    for node in &nodes {
        let listed = at(&operator, node).get("/admin/v1/workspaces").await.ok();
        assert_eq!(listed["total"], 2, "{listed}");
        let here = at(&operator, node).with("Postrider-Workspace", first);
        here.get("/v1/contacts").await.ok();
    }
    for node in &nodes {
        let state = at(&operator, node).get("/admin/v1/cluster").await.ok();
        assert_eq!((&state["shards_total"], &state["ready"]), (&json!(4), &json!(true)), "{state}");
        at(&agent, node).get("/admin/v1/cluster").await.check(403, "FORBIDDEN");
        let stranger = Api::new(&address(node), None);
        stranger.get("/admin/v1/cluster").await.check(401, "UNAUTHORIZED");
        let drain = "/admin/v1/cluster/nodes/pr-9/drain";
        stranger.post(drain, json!({})).await.check(401, "UNAUTHORIZED");
        at(&agent, node).post(drain, json!({})).await.check(403, "FORBIDDEN");
        at(&operator, node).post(drain, json!({})).await.check(404, "NOT_FOUND");
        let foreign = [("Sec-Fetch-Site", "cross-site")];
        let refused = at(&operator, node).send("POST", drain, &foreign, Some(&json!({}))).await;
        refused.check(403, "FORBIDDEN");
        let to = json!({"to": "PR 9"});
        let moved = at(&operator, node).post("/admin/v1/cluster/shards/0/move", to).await;
        moved.check_field("to");
    }
    // A new workspace of this name does not get the members of the deleted one.
    let path = format!("/admin/v1/workspaces/{second}");
    let removed = admin(&nodes[0]).send_json("DELETE", &path, &json!({"confirm": second})).await;
    assert_eq!(removed.status, 202, "{}", removed.text());
    eventually("the end of the workspace", async || {
        let body = json!({"id": second, "name": "Another"});
        (admin(&nodes[1]).post("/admin/v1/workspaces", body).await.status == 201).then_some(())
    })
    .await;
    let here = at(&agent, &nodes[1]).with("Postrider-Workspace", second);
    here.get("/v1/contacts").await.check(404, "NOT_FOUND");
    let members = admin(&nodes[2]).get(&format!("{path}/members")).await.ok();
    assert_eq!(members["total"], 0, "{members}");
    let state = once(&nodes[2], "an owner of people", is_spread).await;
    let owner = NODES.iter().position(|node| *node == owner(&state, 0)).unwrap();
    nodes.remove(owner).kill();
    eventually("another owner of people", async || {
        let here = at(&operator, &nodes[0]).with("Postrider-Workspace", first);
        let answer = here.get("/v1/contacts").await;
        assert!([200, 503].contains(&answer.status), "{}", answer.text());
        (answer.status == 200).then_some(())
    })
    .await;
    let mut anew = Browser::new(&address(&nodes[1]));
    anew.sign_in(json!({"admin_token": TOKEN})).await.ok();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_admin_token_works_at_every_node_until_it_is_revoked() {
    let (_cluster, nodes, [first, second]) = rig().await;
    let made = admin(&nodes[0]).post("/admin/v1/tokens", json!({"name": "ci"})).await.ok();
    let token = made["token"].as_str().unwrap();
    let paths = ["/admin/v1/audit", "/admin/v1/workspaces", "/admin/v1/tokens"].map(str::to_owned);
    let numbers = [first, second].map(|id| format!("/admin/v1/workspaces/{id}/numbers"));
    for node in &nodes {
        let api = Api::new(&address(node), Some(token));
        for path in paths.iter().chain(&numbers) {
            api.get(path).await.ok();
        }
        assert_eq!(api.get("/v1/me").await.ok()["principal"]["name"], "ci");
        let mut client = Client::new(node.address(), token);
        read(&mut client, "/admin/v1/cluster").await;
        let wrong = Api::new(&address(node), Some("pra_wrong"));
        for path in paths.iter().chain(&numbers) {
            wrong.get(path).await.check(401, "UNAUTHORIZED");
        }
    }
    let path = format!("/admin/v1/tokens/{}", made["id"].as_str().unwrap());
    assert_eq!(admin(&nodes[1]).delete(&path).await.status, 204);
    for node in &nodes {
        let api = Api::new(&address(node), Some(token));
        for path in paths.iter().chain(&numbers) {
            api.get(path).await.check(401, "UNAUTHORIZED");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_an_owner_of_people_only_what_asks_for_them_waits() {
    let tries = ("LIMITS__UNAUTHENTICATED_PER_MINUTE", "1");
    let (_cluster, mut nodes, workspaces) = rig_with(&[tries]).await;
    let state = once(&nodes[0], "an owner of people", is_spread).await;
    let lost = owner(&state, 0);
    let id = workspaces.into_iter().find(|id| owner(&state, shard_of(id)) != lost).unwrap();
    let agent = member(&nodes[0], id, "agent").await;
    let numbers = format!("/admin/v1/workspaces/{id}/numbers");
    let guess = async |node: &Process| {
        Api::new(&address(node), Some("pra_made_up")).get(&numbers).await.status
    };
    let body = json!({"id": id, "name": "Another"});
    admin(&nodes[0]).post("/admin/v1/workspaces", &body).await.check(409, "CONFLICT");
    at(&agent, &nodes[1]).with("Postrider-Workspace", id).get("/v1/contacts").await.ok();
    assert_eq!(guess(&nodes[1]).await, 401);
    nodes.remove(NODES.iter().position(|node| *node == lost).unwrap()).kill();
    let foreign = [("Sec-Fetch-Site", "cross-site")];
    for node in &nodes {
        let here = at(&agent, node).with("Postrider-Workspace", id);
        // Every caller gets the document.
        assert_eq!(here.get("/openapi.json").await.status, 200);
        // A stranger's page and token are refused as ever, and no node is asked.
        here.send("PATCH", "/v1/workspace", &foreign, Some(&json!({})))
            .await
            .check(403, "FORBIDDEN");
        let stranger = Api::new(&address(node), Some("made_up"));
        let refused = stranger.post("/admin/v1/workspaces", &body).await.status;
        assert!([401, 429].contains(&refused), "{refused}");
        assert_eq!(guess(node).await, 429, "the address has used up its tries");
    }
    // An earlier member gets an answer as soon as the shard has an owner again.
    eventually("another owner of people", async || {
        let here = at(&agent, &nodes[0]).with("Postrider-Workspace", id);
        let answer = here.get("/v1/contacts").await;
        assert!([200, 503].contains(&answer.status), "{}", answer.text());
        (answer.status == 200).then_some(())
    })
    .await;
    let listed = admin(&nodes[1]).get(&format!("/admin/v1/workspaces/{id}/members")).await.ok();
    assert_eq!(listed["total"], 1, "{listed}");
}
