//! The operator's view of the whole server, and of each workspace at a glance.

use postrider_actors::store::{Change, FjallView, MarkedView as _, Table};
use serde_json::{Value, json};

use crate::messages::{text, write};
use crate::support::{Answer, Sink, TestServer, eventually, millis};
use crate::webhooks::{events, register};

const SYSTEM: &str = "/admin/v1/system";
const OVERVIEW: &str = "/admin/v1/overview";
const TOKEN: &str = "a-token-of-the-settings";

/// Returns the row of a workspace.
async fn glance(server: &TestServer, id: &str) -> Value {
    let all = server.admin().get(OVERVIEW).await.ok();
    let rows = all["data"].as_array().unwrap();
    assert_eq!(all["total"], rows.len());
    rows.iter().find(|row| row["workspace"] == id).unwrap().clone()
}

#[tokio::test]
async fn an_operator_sees_how_the_server_does_and_no_secret() {
    let settings = [
        ("ADMIN__TOKEN", TOKEN),
        ("EMAIL__PASSWORD", "hush-hush"),
        ("STORAGE__SNAPSHOT_JOURNAL_BYTES", "1048576"),
    ];
    let server = TestServer::with(&settings).await;
    let admin = server.admin();
    let reply = admin.get(SYSTEM).await;
    assert!(!reply.text().contains(TOKEN) && !reply.text().contains("hush-hush"));
    let system = reply.ok();
    assert_eq!((&system["ready"], &system["offset_seconds"]), (&json!(true), &json!(0)));
    assert_eq!(system["version"], env!("CARGO_PKG_VERSION"));
    let storage = &system["storage"];
    assert_eq!(storage["state"], "ok");
    assert!(storage["commit_p99_ms"].as_f64().unwrap() > 0.0, "{storage}");
    assert!(storage["disk_free_bytes"].as_u64().unwrap() > 0, "{storage}");
    // The log's first file alone is a mebibyte.
    assert!(storage["data_bytes"].as_u64().unwrap() >= 1 << 20, "{storage}");
    assert_eq!(system["snapshots"], json!({"last_at": null, "bytes": null}));
    let workspaces = &system["workspaces"];
    assert!(workspaces["live"].as_u64().unwrap() <= 1 && workspaces["parked"] == 0, "{workspaces}");
    let settings = &system["settings"];
    let of = |name: &str| settings[name].clone();
    assert_eq!([of("admin.token"), of("email.password")], ["set", "set"]);
    assert_eq!(of("secrets.master_key"), "", "it is in a file");
    assert_eq!(of("server.data_dir"), server.data_dir().display().to_string());
    assert_eq!(of("sandbox.enabled"), true);
    server.advance(3600).await;
    let later = admin.get(SYSTEM).await.ok();
    assert_eq!(
        (&later["offset_seconds"], &later["started_at"]),
        (&json!(3600), &system["started_at"])
    );
    let moment = |name: &str| millis(later[name].as_str().unwrap());
    assert!(moment("now") - moment("started_at") >= 3_600_000);
}

#[tokio::test]
async fn only_operators_see_the_server() {
    let server = TestServer::start().await;
    let acme = server.workspace("acme").await;
    let link = json!({"email": "ada@acme.com", "workspace": "acme", "role": "owner"});
    let link = server.admin().post("/admin/v1/users/link", link).await.ok();
    let (mut ada, mut operator) = (server.browser(), server.browser());
    ada.follow(link["url"].as_str().unwrap()).await.ok();
    operator.follow(&server.banner()).await.ok();
    for path in [SYSTEM, OVERVIEW] {
        server.stranger().get(path).await.check(401, "UNAUTHORIZED");
        acme.get(path).await.check(401, "UNAUTHORIZED");
        ada.get(path).await.check(403, "FORBIDDEN");
        operator.get(path).await.ok();
    }
    let unpark = "/admin/v1/workspaces/acme/unpark";
    acme.post(unpark, json!({})).await.check(401, "UNAUTHORIZED");
    ada.post(unpark, json!({})).await.check(403, "FORBIDDEN");
    assert_eq!(operator.post(unpark, json!({})).await.status, 202);
}

#[tokio::test]
async fn each_workspace_is_seen_at_a_glance() {
    let server = TestServer::with(&[("LIMITS__OTP_PER_PHONE_10M", "0")]).await;
    let (acme, sink) = (server.workspace("acme").await, Sink::start());
    let fresh = glance(&server, "acme").await;
    let expected = json!({"workspace": "acme", "state": fresh["state"], "parked_reason": null,
        "credits": 100_000, "otp_last_hour": 0, "messages_last_hour": 0, "numbers_stopped": 0,
        "webhooks_failing": 0});
    assert_eq!(fresh, expected);
    let (codes, to) = (3, "+15550100001");
    events(&acme, codes).await;
    write(&acme, to).await;
    acme.post("/v1/messaging/send", text(to)).await.ok();
    let counted = async || {
        let row = glance(&server, "acme").await;
        (row["messages_last_hour"] == 1).then_some(row)
    };
    let row = eventually("the message is counted", counted).await;
    assert_eq!((&row["otp_last_hour"], &row["state"]), (&json!(codes), &json!("live")));
    assert!(row["credits"].as_u64().unwrap() < 100_000, "{row}");
    assert_eq!(glance(&server, "demo").await["messages_last_hour"], 0, "another workspace's");
    sink.next("/", std::iter::repeat_n(Answer::Status(500, ""), 100));
    register(&acme, &sink.url("/"), json!({"events": ["otp.sent"]})).await;
    events(&acme, 20).await;
    let failing = async || (glance(&server, "acme").await["webhooks_failing"] == 1).then_some(());
    eventually("the endpoint is left alone", failing).await;
    let unavailable = json!({"to": "*", "outcome": "unavailable"});
    acme.post("/v1/sandbox/outcomes", unavailable).await.ok();
    let send = json!({"phone": crate::otp::PHONE});
    while acme.post("/v1/otp/send", &send).await.status < 300 {}
    let stopped = async || (glance(&server, "acme").await["numbers_stopped"] == 1).then_some(());
    eventually("the number is left alone", stopped).await;
    server.advance(3700).await;
    let row = glance(&server, "acme").await;
    assert_eq!(row["messages_last_hour"], 0, "{row}");
}

#[tokio::test]
async fn a_single_server_has_no_cluster() {
    let server = TestServer::start().await;
    let (admin, root) = (server.admin(), "/admin/v1/cluster");
    assert_eq!(admin.get(SYSTEM).await.ok()["node"], Value::Null);
    let (drain, undrain) =
        (format!("{root}/nodes/pr-1/drain"), format!("{root}/nodes/pr-1/undrain"));
    let moved = admin.post(&format!("{root}/shards/0/move"), json!({"to": "pr-1"})).await;
    let mut refused = vec![admin.get(root).await, moved];
    for path in [drain, undrain] {
        refused.push(admin.post(&path, json!({})).await);
    }
    for refused in refused {
        assert_eq!(refused.check(404, "NOT_FOUND")["reason"], "no_cluster");
    }
    server.stranger().get(root).await.check(401, "UNAUTHORIZED");
}

#[tokio::test]
async fn an_overview_comes_in_pages() {
    let server = TestServer::start().await;
    let admin = server.admin();
    for id in ["b", "a", "c"] {
        admin.post("/admin/v1/workspaces", json!({"id": id, "name": id})).await.ok();
    }
    let mut found = Vec::new();
    for page in 1..=2 {
        let part = admin.get(&format!("{OVERVIEW}?limit=3&page={page}")).await.ok();
        assert_eq!((&part["total"], &part["page"]), (&json!(4), &json!(page)));
        let rows = part["data"].as_array().unwrap();
        found.extend(rows.iter().map(|row| row["workspace"].as_str().unwrap().to_owned()));
    }
    assert_eq!(found, ["a", "b", "c", "demo"]);
    admin.get(&format!("{OVERVIEW}?limit=0")).await.check_field("limit");
}

#[tokio::test]
async fn a_parked_workspace_is_shown_and_tried_again() {
    let mut server = TestServer::start().await;
    let acme = server.workspace("acme").await;
    server.stop();
    {
        let view = FjallView::open(&server.data_dir().join("view"), Default::default()).unwrap();
        let damaged = Change::put(Table::Workspaces, *b"acme\0credits", *b"?");
        view.apply(&view.applied().unwrap(), &[damaged]).unwrap();
    }
    server.restart().await;
    // The call that starts it does not know the reason for its refusal.
    acme.get("/v1/workspace").await.check(503, "SERVICE_UNAVAILABLE");
    eventually("the reason", async || {
        let refused = acme.get("/v1/workspace").await;
        refused.check(503, "SERVICE_UNAVAILABLE");
        (refused.json()["reason"] == "damaged").then_some(())
    })
    .await;
    let warnings = server.stranger().get("/readyz").await.ok()["warnings"].clone();
    assert_eq!(warnings, json!(["damaged: the data of workspace acme cannot be read"]));
    eventually("it is counted", async || {
        let metrics = server.stranger().get("/metrics").await.text();
        metrics.contains("postrider_workspaces_damaged 1\n").then_some(())
    })
    .await;
    let row = glance(&server, "acme").await;
    assert_eq!((&row["state"], &row["credits"]), (&json!("parked"), &Value::Null), "{row}");
    assert!(row["parked_reason"].as_str().unwrap().contains("balance"), "{row}");
    let admin = server.admin();
    assert_eq!(admin.get(SYSTEM).await.ok()["workspaces"]["parked"], 1);
    let unpark = |id: &str| format!("/admin/v1/workspaces/{id}/unpark");
    let tried = admin.post(&unpark("acme"), json!({})).await;
    assert_eq!((tried.status, tried.body.len()), (202, 0));
    let again = async || Some(glance(&server, "acme").await).filter(|it| it["state"] == "parked");
    assert_eq!(eventually("it is parked again", again).await, row);
    let recorded = async || admin.get("/admin/v1/audit?action=workspace.unpark").await.ok();
    assert_eq!(recorded().await["data"][0]["target"], "acme");
    // A workspace that is not parked is left alone.
    let none = admin.post(&unpark("demo"), json!({})).await;
    assert_eq!(none.status, 202);
    assert_ne!(glance(&server, "demo").await["state"], "parked");
    admin.post(&unpark("none"), json!({})).await.check(404, "NOT_FOUND");
}
