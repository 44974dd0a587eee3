//! Nothing of a workspace exists for another one, by any id that leaks out.

use serde_json::{Value, json};

use super::member;
use crate::support::{Api, Reply, TestServer, eventually};

const PHONE: &str = "+15550123456";

/// The ids of a workspace's things.
struct Things {
    contact: String,
    conversation: String,
    message: String,
    quick_reply: String,
    segment: String,
    broadcast: String,
    webhook: String,
    delivery: String,
    event: String,
}

fn id(made: &Value) -> String {
    let id = ["id", "message_id", "broadcast_id"].into_iter().find_map(|name| made[name].as_str());
    id.unwrap_or_else(|| panic!("{made}")).to_owned()
}

async fn things(api: &Api) -> Things {
    let hook = json!({"url": "http://127.0.0.1:9/hooks", "events": ["webhook.test"]});
    let webhook = id(&api.post("/v1/webhooks", hook).await.ok());
    let tested = api.post(&format!("/v1/webhooks/{webhook}/test"), json!({})).await;
    assert!(tested.status < 300, "{}", tested.text());
    let said = json!({"from": PHONE, "name": "Ada", "text": "Hello"});
    api.post("/v1/sandbox/inbound", said).await.ok();
    let first = async |path: &str| api.get(path).await.ok()["data"][0].clone();
    let some = async |path: String| {
        let found = || async { Some(first(&path).await).filter(|it| !it.is_null()) };
        eventually("the first row", found).await
    };
    let conversation = id(&some("/v1/conversations".to_owned()).await);
    let note = json!({"text": "Wants a refund"});
    api.post(&format!("/v1/conversations/{conversation}/notes"), note).await.ok();
    let reply = json!({"type": "text", "text": "We look"});
    let path = format!("/v1/conversations/{conversation}/messages");
    let message = id(&api.post(&path, reply).await.ok());
    let quick = json!({"name": "Thanks", "text": "Thank you"});
    let segment = json!({"name": "All", "filter": {"tags_any": ["vip"]}});
    let broadcast =
        json!({"name": "Spring", "template_name": "welcome", "recipients": ["+15550100001"]});
    let contact = id(&some("/v1/contacts".to_owned()).await);
    let tags = json!({"ids": [contact], "add_tags": ["vip"]});
    api.post("/v1/contacts/bulk", tags).await.ok();
    Things {
        quick_reply: id(&api.post("/v1/quick-replies", quick).await.ok()),
        segment: id(&api.post("/v1/segments", segment).await.ok()),
        broadcast: id(&api.post("/v1/messaging/broadcasts", broadcast).await.ok()),
        delivery: id(&some(format!("/v1/webhooks/{webhook}/deliveries")).await),
        event: id(&some("/v1/events".to_owned()).await),
        contact,
        conversation,
        message,
        webhook,
    }
}

async fn missing(api: &Api, method: &str, path: &str, body: Value) {
    let reply = match method {
        "GET" => api.get(path).await,
        _ => api.send_json(method, path, &body).await,
    };
    assert_eq!(reply.status, 404, "{method} {path}: {}", reply.text());
}

#[tokio::test]
async fn nothing_of_a_workspace_is_there_for_the_key_of_another_one() {
    let server = TestServer::start().await;
    let demo = server.demo();
    let ours = things(&demo).await;
    let other = server.workspace("other").await;
    let hook = json!({"url": "http://127.0.0.1:9/other", "events": ["webhook.test"]});
    let own = id(&other.post("/v1/webhooks", hook).await.ok());
    let Things { contact, conversation, message, quick_reply, .. } = &ours;
    let Things { segment, broadcast, webhook, delivery, event, .. } = &ours;
    let name = || json!({"name": "Mine"});
    let text = || json!({"type": "text", "text": "Mine"});
    for (method, path, body) in [
        ("GET", format!("/v1/contacts/{contact}"), json!({})),
        ("PATCH", format!("/v1/contacts/{contact}"), name()),
        ("DELETE", format!("/v1/contacts/{contact}"), json!({})),
        ("GET", format!("/v1/contacts/{contact}/timeline"), json!({})),
        ("GET", format!("/v1/conversations/{conversation}"), json!({})),
        ("PATCH", format!("/v1/conversations/{conversation}"), json!({"status": "resolved"})),
        ("GET", format!("/v1/conversations/{conversation}/messages"), json!({})),
        ("POST", format!("/v1/conversations/{conversation}/messages"), text()),
        ("GET", format!("/v1/conversations/{conversation}/notes"), json!({})),
        ("POST", format!("/v1/conversations/{conversation}/notes"), json!({"text": "Mine"})),
        ("POST", format!("/v1/conversations/{conversation}/typing"), json!({})),
        ("POST", format!("/v1/conversations/{conversation}/read"), json!({})),
        ("DELETE", format!("/v1/quick-replies/{quick_reply}"), json!({})),
        ("GET", format!("/v1/messaging/messages/{message}"), json!({})),
        ("GET", format!("/v1/segments/{segment}"), json!({})),
        ("GET", format!("/v1/segments/{segment}/contacts"), json!({})),
        ("PATCH", format!("/v1/segments/{segment}"), name()),
        ("DELETE", format!("/v1/segments/{segment}"), json!({})),
        ("GET", format!("/v1/messaging/broadcasts/{broadcast}"), json!({})),
        ("GET", format!("/v1/messaging/broadcasts/{broadcast}/recipients"), json!({})),
        ("PATCH", format!("/v1/messaging/broadcasts/{broadcast}"), name()),
        ("POST", format!("/v1/messaging/broadcasts/{broadcast}/cancel"), json!({})),
        ("GET", format!("/v1/webhooks/{webhook}"), json!({})),
        ("GET", format!("/v1/webhooks/{webhook}/deliveries"), json!({})),
        ("GET", format!("/v1/webhooks/{webhook}/deliveries/{delivery}"), json!({})),
        // It is not found beneath an endpoint of one's own either.
        ("GET", format!("/v1/webhooks/{own}/deliveries/{delivery}"), json!({})),
        ("POST", format!("/v1/webhooks/{webhook}/rotate-secret"), json!({})),
        ("GET", format!("/v1/events/{event}"), json!({})),
        ("GET", "/v1/messaging/templates/welcome/en".to_owned(), json!({})),
    ] {
        missing(&other, method, &path, body).await;
    }
    let tag = json!({"ids": [contact], "add_tags": ["stolen"]});
    assert_eq!(other.post("/v1/contacts/bulk", tag).await.status, 202);
    assert_eq!(other.get("/v1/contacts/tags").await.ok()["data"], json!([]));
    let requests = other.get("/v1/requests").await.check(403, "FORBIDDEN");
    assert!(requests["message"].as_str().unwrap().contains("requests:read"), "{requests}");
    // All of it still exists.
    let tags = demo.get(&format!("/v1/contacts/{contact}")).await.ok()["tags"].clone();
    assert_eq!(tags, json!(["vip"]));
    assert_eq!(demo.get("/v1/quick-replies").await.ok()["total"], 1);
    let notes = demo.get(&format!("/v1/conversations/{conversation}/notes")).await.ok();
    assert_eq!(notes["data"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn keys_invites_and_members_are_changed_below_their_own_workspace_only() {
    let server = TestServer::start().await;
    server.workspace("acme").await;
    server.workspace("other").await;
    let owner = member(&server, "acme", "owner").await;
    let thief = member(&server, "other", "owner").await;
    let (key, acme) = server.key("acme", &["contacts:read"], json!({})).await;
    let invite = json!({"email": "bob@acme.com", "role": "agent"});
    let invite = id(&owner.post("/admin/v1/workspaces/acme/invites", invite).await.ok());
    let members = owner.get("/admin/v1/workspaces/acme/members").await.ok();
    let user = members["data"][0]["user_id"].as_str().unwrap();
    let not_there = |reply: Reply| drop(reply.check(404, "NOT_FOUND"));
    for workspace in ["acme", "other"] {
        let below = format!("/admin/v1/workspaces/{workspace}");
        not_there(thief.patch(&format!("{below}/keys/{key}"), json!({"name": "mine"})).await);
        not_there(thief.delete(&format!("{below}/keys/{key}")).await);
        not_there(thief.delete(&format!("{below}/invites/{invite}")).await);
        let role = json!({"role": "agent"});
        not_there(thief.patch(&format!("{below}/members/{user}"), role).await);
        not_there(thief.delete(&format!("{below}/members/{user}")).await);
    }
    assert_eq!(acme.get("/v1/contacts").await.status, 200);
    assert_eq!(owner.get("/admin/v1/workspaces/acme/invites").await.ok()["total"], 1);
    assert_eq!(owner.get("/v1/me").await.ok()["role"], "owner");
}

#[tokio::test]
async fn an_admin_takes_no_invite_of_an_owner_back() {
    let server = TestServer::start().await;
    server.workspace("acme").await;
    let owner = member(&server, "acme", "owner").await;
    let admin = member(&server, "acme", "admin").await;
    let invites = "/admin/v1/workspaces/acme/invites";
    let made = owner.post(invites, json!({"email": "next@acme.com", "role": "owner"})).await;
    let path = format!("{invites}/{}", id(&made.ok()));
    let refused = admin.delete(&path).await.check(403, "FORBIDDEN");
    assert_eq!(refused["message"], "you lack the permission owners:manage");
    owner.delete(&path).await.ok();
}
