//! The contents of a workspace before anything is sent, from people to webhooks.
//!
//! Each of them is a record of the audit log too.

use std::net::{Ipv4Addr, SocketAddr};

use axum::Router;
use axum::http::StatusCode;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::phone;
use crate::cli::demo::client::{DemoClient, text};
use crate::cli::error::CliError;

const WORKSPACE: &str = "/workspaces/demo";
const CONTACTS: u32 = 240;
const FIRST: [&str; 16] = [
    "Ada",
    "Grace",
    "Alan",
    "Katherine",
    "Edsger",
    "Barbara",
    "Donald",
    "Frances",
    "João",
    "Lucía",
    "Zoë",
    "Jürgen",
    "ليلى",
    "عمر",
    "Ngọc",
    "Søren",
];
const LAST: [&str; 15] = [
    "Lovelace",
    "Hopper",
    "Turing",
    "Johnson",
    "Dijkstra",
    "Liskov",
    "Knuth",
    "Allen",
    "da Silva",
    "García Márquez",
    "Müller-Lüdenscheidt",
    "Þórsdóttir",
    "العلي",
    "O'Hara",
    "Nguyễn",
];
const CITIES: [&str; 6] = ["Paris", "São Paulo", "Berlin", "الرياض", "New York", "Sevilla"];
const MEMBERS: [(&str, &str); 5] = [
    ("ada@example.com", "admin"),
    ("grace@example.com", "marketer"),
    ("alan@example.com", "agent"),
    ("katherine@example.com", "analyst"),
    ("edsger@example.com", "developer"),
];

/// Makes the contents, and returns the ids of two people who answer customers.
pub(super) async fn fill_workspace(
    api: &DemoClient,
    receiver: SocketAddr,
) -> Result<[String; 2], CliError> {
    let [first, _, second, _, _] = make_members(api).await?;
    make_keys(api).await?;
    make_templates(api).await?;
    make_contacts(api).await?;
    make_webhooks(api, receiver).await?;
    let limits = json!({ "otp_per_workspace_hour": 500 });
    administer(api, Method::PUT, "/limits", limits).await?;
    administer(api, Method::POST, "/credits", json!({ "add": 250_000 })).await?;
    let settings = json!({ "auto_deliver": "delivered" });
    api.call(Method::PUT, "/sandbox/settings", Some(&settings)).await?;
    Ok([first, second])
}

/// Calls `path` of the administration of the workspace.
pub(super) async fn administer(
    api: &DemoClient,
    method: Method,
    path: &str,
    body: Value,
) -> Result<Value, CliError> {
    api.administer(method, &format!("{WORKSPACE}{path}"), Some(&body)).await
}

async fn make_members(api: &DemoClient) -> Result<[String; 5], CliError> {
    let mut ids = [const { String::new() }; 5];
    for (id, (email, role)) in ids.iter_mut().zip(MEMBERS) {
        let body = json!({ "email": email, "workspace": "demo", "role": role });
        let made = api.administer(Method::POST, "/users/link", Some(&body)).await?;
        text(&made["user_id"]).clone_into(id);
    }
    Ok(ids)
}

async fn make_keys(api: &DemoClient) -> Result<(), CliError> {
    for (name, scopes) in [
        ("shop, production", json!(["messaging:send"])),
        ("nightly contacts import", json!(["contacts:read", "contacts:write"])),
        ("reports", json!(["analytics:read", "contacts:read"])),
    ] {
        let body = json!({ "name": name, "scopes": scopes });
        administer(api, Method::POST, "/keys", body).await?;
    }
    let body = json!({ "name": "a contractor's", "scopes": ["webhooks:manage"] });
    let made = administer(api, Method::POST, "/keys", body).await?;
    let path = format!("{WORKSPACE}/keys/{}", text(&made["id"]));
    api.administer(Method::DELETE, &path, None).await?;
    Ok(())
}

async fn make_templates(api: &DemoClient) -> Result<(), CliError> {
    for (name, language, category, status, body) in [
        ("loyalty_points", "en", "marketing", "approved", "Hello {{1}}, you have {{2}} points 🎉"),
        ("order_update", "ar", "utility", "approved", "مرحبا {{1}}، طلبك {{2}} في الطريق."),
        ("delivery_today", "de", "utility", "approved", "Guten Tag {{1}}, Ihr Paket kommt heute."),
        ("black_friday", "en", "marketing", "approved", "Black Friday: everything at half price."),
    ] {
        let components = json!([{ "type": "BODY", "text": body }]);
        let body = json!({ "name": name, "language": language, "category": category,
            "status": status, "components": components });
        administer(api, Method::POST, "/templates", body).await?;
    }
    let paused = json!({ "status": "paused" });
    administer(api, Method::PATCH, "/templates/delivery_today/de", paused).await?;
    Ok(())
}

async fn make_contacts(api: &DemoClient) -> Result<(), CliError> {
    let contacts: Vec<Value> = (0..CONTACTS).map(contact).collect();
    api.post("/contacts/batch", &json!({ "contacts": contacts })).await?;
    for (name, filter) in [
        ("Newsletter", json!({ "tags_any": ["newsletter"] })),
        ("Gold customers", json!({ "tags_all": ["gold", "newsletter"] })),
        (
            "Riyadh without newsletter",
            json!({ "custom_fields": { "city": "الرياض" }, "tags_none": ["newsletter"] }),
        ),
    ] {
        api.post("/segments", &json!({ "name": name, "filter": filter })).await?;
    }
    for n in [3, 17, 64] {
        let reason = "asked for it at the desk";
        api.post("/suppressions", &json!({ "phone": phone(n), "reason": reason })).await?;
    }
    let stop = json!({ "from": phone(21), "text": "STOP" });
    api.post("/sandbox/inbound", &stop).await?;
    Ok(())
}

fn contact(n: u32) -> Value {
    let of = |list: &[&'static str], n: u32| list[n as usize % list.len()];
    let mut tags = vec![];
    for (every, tag) in [(2, "newsletter"), (5, "gold"), (9, "wholesale"), (40, "vip")] {
        if n.is_multiple_of(every) {
            tags.push(tag);
        }
    }
    let email = (!n.is_multiple_of(4)).then(|| format!("customer{n}@example.com"));
    json!({
        "name": format!("{} {}", of(&FIRST, n), of(&LAST, n / 3)),
        "phone": phone(n),
        "email": email,
        "tags": tags,
        "custom_fields": { "city": of(&CITIES, n), "customer_since": 2012 + n % 14 },
    })
}

/// Makes an endpoint that has begun to fail.
///
/// It is still retried, while one that fails for days is disabled.
pub(super) async fn add_failing_webhook(api: &DemoClient) -> Result<(), CliError> {
    let types = json!(["message.received", "otp.verified"]);
    api.post("/webhooks", &json!({ "url": "http://127.0.0.1:9/shop", "events": types })).await?;
    Ok(())
}

async fn make_webhooks(api: &DemoClient, receiver: SocketAddr) -> Result<(), CliError> {
    let new = |url: String, events: Value| json!({ "url": url, "events": events });
    let types = json!(["otp.verified", "otp.failed", "message.received", "broadcast.completed"]);
    api.post("/webhooks", &new(format!("http://{receiver}/hooks"), types)).await?;
    // No server listens at this address.
    let failing = json!(["otp.failed", "conversation.opened"]);
    api.post("/webhooks", &new("http://127.0.0.1:9/crm".to_owned(), failing)).await?;
    let all =
        new("http://127.0.0.1:9/a/rather/long/path/of/an/old/warehouse".to_owned(), json!([]));
    let made = api.post("/webhooks", &all).await?;
    let path = format!("/webhooks/{}", text(&made["id"]));
    api.call(Method::PATCH, &path, Some(&json!({ "enabled": false }))).await?;
    Ok(())
}

/// An endpoint that accepts the deliveries of webhooks until it is dropped: it answers 204.
pub(in crate::cli::demo) struct WebhookReceiver {
    pub(super) address: SocketAddr,
    task: JoinHandle<()>,
}

impl WebhookReceiver {
    pub(super) async fn start() -> Result<Self, CliError> {
        let unbound = |source| CliError::Io { what: "cannot listen for webhooks", source };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(unbound)?;
        let address = listener.local_addr().map_err(unbound)?;
        let router = Router::new().fallback(|| async { StatusCode::NO_CONTENT });
        let task = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                tracing::warn!(%error, "the endpoint of the demo's webhook has ended");
            }
        });
        Ok(Self { address, task })
    }
}

impl Drop for WebhookReceiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}
