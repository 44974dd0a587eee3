//! Callbacks of the Cloud API to any node: each shard of the app takes its part before a 200.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::nodes::{Cluster, TOKEN, done};
use super::state::{NODES, WORKSPACES, is_spread, once, owner};
use crate::channel::cloud_api::{APP_SECRET, VERIFY_TOKEN, number};
use crate::fake::{FakeCloudApi, callback, sign};
use crate::faults::{Client, Process};
use crate::support::{Api, Reply, eventually};

/// A workspace with a number of the app.
struct Tenant {
    id: &'static str,
    shard: usize,
    phone_number_id: &'static str,
    /// The path of its callbacks.
    path: String,
    key: String,
}

fn shard_of(workspace: &str) -> usize {
    usize::from(postrider_actors::home_of(&workspace.parse().unwrap()) >> 14)
}

fn api(node: &Process, token: Option<&str>) -> Api {
    Api::new(&Arc::new(Mutex::new(node.address())), token)
}

async fn connect(node: &Process, workspace: &str, phone_number_id: &str) -> Reply {
    let mut number = number();
    number["phone_number_id"] = json!(phone_number_id);
    number["phone"] = json!(format!("+15550002{phone_number_id}"));
    let path = format!("/admin/v1/workspaces/{workspace}/numbers");
    api(node, Some(TOKEN)).post(&path, number).await
}

async fn tenant(node: &Process, id: &'static str, phone_number_id: &'static str) -> Tenant {
    let mut admin = Client::new(node.address(), TOKEN);
    done(&mut admin, "/admin/v1/workspaces", json!({"id": id, "name": id})).await;
    let path = format!("/admin/v1/workspaces/{id}/keys");
    let key = done(&mut admin, &path, json!({"name": "test", "scopes": ["contacts:read"]})).await;
    let key = key["key"].as_str().unwrap().to_owned();
    let connected = connect(node, id, phone_number_id).await.ok();
    let path = connected["callback_path"].as_str().unwrap().to_owned();
    Tenant { id, shard: shard_of(id), phone_number_id, path, key }
}

/// Returns the part of a callback that this phone has written to a number.
fn written_to(tenant: &Tenant, phone: &str) -> Value {
    let message = json!({
        "from": phone, "id": format!("wamid.{phone}.{}", tenant.id),
        "timestamp": "1750857384", "type": "text", "text": {"body": "Hello"},
    });
    callback(tenant.phone_number_id, json!({"messages": [message]}))
}

/// Returns a callback about two numbers of one app: this phone has written to both.
fn written(tenants: [&Tenant; 2], phone: &str) -> Value {
    let [mut both, second] = tenants.map(|tenant| written_to(tenant, phone));
    let entry = second["entry"][0].clone();
    both["entry"].as_array_mut().unwrap().push(entry);
    both
}

async fn post(node: &Process, path: &str, secret: &str, body: &Value) -> Reply {
    let body = body.to_string();
    let signature = sign(secret, body.as_bytes());
    let headers =
        [("X-Hub-Signature-256", signature.as_str()), ("Content-Type", "application/json")];
    api(node, None).call("POST", path, &headers, body.as_bytes()).await
}

/// Returns the number of contacts with this phone in a workspace.
async fn count(node: &Process, tenant: &Tenant, phone: &str) -> u64 {
    let listed = api(node, Some(&tenant.key)).get(&format!("/v1/contacts?search={phone}")).await;
    listed.ok()["total"].as_u64().unwrap()
}

/// Returns two workspaces whose shards have different owners. The last node does not own the
/// second.
fn apart(state: &Value) -> [&'static str; 2] {
    let owner = |id: &str| owner(state, shard_of(id)).to_owned();
    let second = WORKSPACES.into_iter().find(|id| owner(id) != "pr-3").unwrap();
    let first = WORKSPACES.into_iter().find(|id| owner(id) != owner(second)).unwrap();
    [first, second]
}

async fn rig() -> (FakeCloudApi, Cluster, Vec<Process>, [Tenant; 2]) {
    let fake = FakeCloudApi::start();
    let base_url = fake.base_url();
    let cluster = Cluster::with(&[("CLOUD_API__BASE_URL", &base_url)]);
    let nodes: Vec<_> = NODES.map(|node| cluster.start(node)).into();
    let state = once(&nodes[2], "shards for each", is_spread).await;
    let [first, second] = apart(&state);
    let tenants = [tenant(&nodes[0], first, "106").await, tenant(&nodes[1], second, "206").await];
    (fake, cluster, nodes, tenants)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_callback_to_any_node_reaches_every_shard_of_its_app() {
    let (_fake, _cluster, nodes, [first, second]) = rig().await;
    assert_ne!(first.shard, second.shard);
    for (at, node) in nodes.iter().enumerate() {
        // The callback goes to the address of either number, through any node.
        let (to, phone) = ([&first, &second][at % 2], format!("1555010000{at}"));
        let body = written([&first, &second], &phone);
        post(node, &to.path, "not the secret", &body).await.check(401, "UNAUTHORIZED");
        let taken = post(node, &to.path, APP_SECRET, &body).await;
        assert_eq!(taken.status, 200, "{}", taken.text());
        for tenant in [&first, &second] {
            assert_eq!(count(node, tenant, &phone).await, 1, "{} has no {phone}", tenant.id);
        }
        let query = format!("hub.mode=subscribe&hub.verify_token={VERIFY_TOKEN}&hub.challenge=7");
        let verified = api(node, None).get(&format!("{}?{query}", to.path)).await;
        assert_eq!((verified.status, verified.text().as_str()), (200, "7"));
        let nobody = "/channels/cloud-api/num_01jd3v0x5n8m7k2q4r6s8t0w2y";
        post(node, nobody, APP_SECRET, &body).await.check(404, "NOT_FOUND");
    }
    // A part that names no number is about the number that the callback was sent to.
    let (nameless, named) = ("15550100008", "15550100009");
    let mut body = written([&first, &second], named);
    let value = &mut body["entry"][0]["changes"][0]["value"];
    value.as_object_mut().unwrap().remove("metadata");
    value["messages"][0]["from"] = json!(nameless);
    for node in &nodes {
        assert_eq!(post(node, &first.path, APP_SECRET, &body).await.status, 200);
    }
    for (tenant, of_nameless, of_named) in [(&first, 1, 0), (&second, 0, 1)] {
        assert_eq!(count(&nodes[0], tenant, nameless).await, of_nameless, "{}", tenant.id);
        assert_eq!(count(&nodes[0], tenant, named).await, of_named, "{}", tenant.id);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_number_of_the_provider_is_connected_once_over_all_shards() {
    let (_fake, _cluster, nodes, [first, second]) = rig().await;
    for node in &nodes {
        let refused = connect(node, second.id, "106").await.check(409, "CONFLICT");
        assert!(refused["message"].as_str().unwrap().contains("phone_number_id"), "{refused}");
    }
    // Once it is disconnected, another shard may have the number at once, and its callbacks.
    let number = first.path.rsplit('/').next().unwrap();
    let path = format!("/admin/v1/workspaces/{}/numbers/{number}", first.id);
    assert_eq!(api(&nodes[2], Some(TOKEN)).delete(&path).await.status, 204);
    let connected = connect(&nodes[1], second.id, "106").await.ok();
    let path = connected["callback_path"].as_str().unwrap();
    let body = written([&first, &second], "15550100009");
    post(&nodes[0], &first.path, APP_SECRET, &body).await.check(404, "NOT_FOUND");
    assert_eq!(post(&nodes[0], path, APP_SECRET, &body).await.status, 200);
    assert_eq!(count(&nodes[0], &second, "15550100009").await, 1);
    assert_eq!(count(&nodes[0], &first, "15550100009").await, 0);
    // The same holds when a workspace is deleted.
    let path = format!("/admin/v1/workspaces/{}", second.id);
    let repeated = json!({"confirm": second.id});
    let removed = api(&nodes[0], Some(TOKEN)).send_json("DELETE", &path, &repeated).await;
    assert_eq!(removed.status, 202, "{}", removed.text());
    connect(&nodes[2], first.id, "106").await.ok();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_callback_is_not_taken_while_a_shard_that_it_concerns_has_no_owner() {
    let (_fake, _cluster, nodes, [first, second]) = rig().await;
    let mut nodes = nodes;
    let state = once(&nodes[2], "shards for each", is_spread).await;
    let at = NODES.iter().position(|node| *node == owner(&state, second.shard)).unwrap();
    nodes.remove(at).kill();
    let last = nodes.last().unwrap();
    let body = written([&first, &second], "15550100007");
    let own = written_to(&first, "15550100006");
    let taken = post(last, &first.path, APP_SECRET, &own).await;
    assert_eq!(taken.status, 200, "it is about no number of the other shard: {}", taken.text());
    let refused = post(last, &first.path, APP_SECRET, &body).await;
    assert_eq!(refused.check(503, "SERVICE_UNAVAILABLE")["reason"], "no_owner");
    assert_eq!(count(last, &first, "15550100007").await, 1, "the others have taken theirs");
    eventually("the provider's repetition", async || {
        (post(last, &first.path, APP_SECRET, &body).await.status == 200).then_some(())
    })
    .await;
    for tenant in [&first, &second] {
        assert_eq!(count(last, tenant, "15550100007").await, 1, "{}", tenant.id);
    }
}
