//! The administration: workspaces, keys, credits, limits, numbers.

use serde_json::{Value, json};

use crate::support::{TestServer, millis};

const ROOT: &str = "/admin/v1/workspaces";

#[tokio::test]
async fn it_takes_the_admin_token_only() {
    let server = TestServer::start().await;
    for api in [server.stranger(), server.demo(), server.api("x")] {
        for path in [ROOT, "/admin/v1", "/admin/v1/nothing", "/admin/v1/workspaces/demo"] {
            api.get(path).await.check(401, "UNAUTHORIZED");
        }
        api.post(ROOT, json!({"id": "x", "name": "x"})).await.check(401, "UNAUTHORIZED");
    }
    let admin = server.admin();
    admin.get("/admin/v1/nothing").await.check(404, "NOT_FOUND");
    assert_eq!(admin.get(ROOT).await.header("x-ratelimit-limit"), None);
    admin.get("/v1/sandbox/clock").await.check(401, "UNAUTHORIZED");
}

#[tokio::test]
async fn a_workspace_is_made_once() {
    let server = TestServer::start().await;
    let admin = server.admin();
    let made = admin.post(ROOT, json!({"id": "acme", "name": "Acme Ltd. ✓"})).await;
    assert_eq!(made.status, 201);
    let made = made.ok();
    assert_eq!((&made["id"], &made["name"]), (&json!("acme"), &json!("Acme Ltd. ✓")));
    assert_eq!((&made["credits"], &made["counts"]["keys"]), (&json!(0), &json!(0)));
    assert_eq!(made["limits"]["otp_per_phone_10m"], 5);
    millis(made["created_at"].as_str().unwrap());
    admin.post(ROOT, json!({"id": "acme", "name": "Other"})).await.check(409, "CONFLICT");
    admin.post(ROOT, json!({"id": "demo", "name": "Other"})).await.check(409, "CONFLICT");
    assert_eq!(admin.get(&format!("{ROOT}/acme")).await.ok()["name"], "Acme Ltd. ✓");
    let longest = "a-0".repeat(13) + "z";
    for id in ["a", "0", "-", &longest] {
        admin.post(ROOT, json!({"id": id, "name": "x"})).await.ok();
    }
    let longer = format!("{longest}z");
    for bad in ["", "A", "a_b", "a b", "a/b", "ä", "a.b", "..", &longer] {
        admin.post(ROOT, json!({"id": bad, "name": "x"})).await.check_field("id");
    }
    let long_name = "x".repeat(101);
    for bad in ["", "a\nb", &long_name] {
        admin.post(ROOT, json!({"id": "bad", "name": bad})).await.check_field("name");
    }
    admin.post(ROOT, json!({"id": "bad"})).await.check_field("name");
    admin.post(ROOT, json!({"name": "bad"})).await.check_field("id");
    admin.post(ROOT, json!({"id": 7, "name": "bad"})).await.check_field("id");
}

#[tokio::test]
async fn what_does_not_exist_is_404() {
    let server = TestServer::start().await;
    let admin = server.admin();
    let key = "key_01jd3v0x5n8m7k2q4r6s8t0w2y";
    let number = "num_01jd3v0x5n8m7k2q4r6s8t0w2y";
    for ws in ["nobody", "NOBODY", "no%20body", "%2e%2e"] {
        let path = |rest: &str| format!("{ROOT}/{ws}{rest}");
        for rest in ["", "/keys", "/numbers"] {
            admin.get(&path(rest)).await.check(404, "NOT_FOUND");
        }
        let new_key = json!({"name": "k", "scopes": ["messaging:send"]});
        admin.post(&path("/keys"), new_key).await.check(404, "NOT_FOUND");
        admin.put(&path("/credits"), json!({"credits": 1})).await.check(404, "NOT_FOUND");
        admin.post(&path("/credits"), json!({"add": 1})).await.check(404, "NOT_FOUND");
        admin.put(&path("/limits"), json!({})).await.check(404, "NOT_FOUND");
        let new_number = json!({"kind": "sandbox"});
        admin.post(&path("/numbers"), new_number).await.check(404, "NOT_FOUND");
        admin.delete(&path(&format!("/keys/{key}"))).await.check(404, "NOT_FOUND");
        admin.delete(&path(&format!("/numbers/{number}"))).await.check(404, "NOT_FOUND");
    }
    for rest in [format!("keys/{key}"), format!("keys/{number}"), "keys/x".to_owned()] {
        admin.delete(&format!("{ROOT}/demo/{rest}")).await.check(404, "NOT_FOUND");
    }
    for rest in [format!("numbers/{number}"), "numbers/0".to_owned()] {
        admin.delete(&format!("{ROOT}/demo/{rest}")).await.check(404, "NOT_FOUND");
    }
}

#[tokio::test]
async fn lists_come_in_pages() {
    let server = TestServer::start().await;
    let admin = server.admin();
    for index in 0..4 {
        admin.post(ROOT, json!({"id": format!("w{index}"), "name": "x"})).await.ok();
        let key = json!({"name": format!("k{index}"), "scopes": ["messaging:send"]});
        admin.post(&format!("{ROOT}/demo/keys"), key).await.ok();
    }
    for list in [ROOT.to_owned(), format!("{ROOT}/demo/keys")] {
        let all = admin.get(&list).await.ok();
        assert_eq!((&all["total"], &all["page"]), (&json!(5), &json!(1)));
        let all = all["data"].as_array().unwrap().clone();
        assert_eq!(all.len(), 5);
        let mut paged = Vec::new();
        for page in 1..=4 {
            let part = admin.get(&format!("{list}?limit=2&page={page}")).await.ok();
            assert_eq!((&part["total"], &part["page"]), (&json!(5), &json!(page)));
            paged.extend(part["data"].as_array().unwrap().clone());
        }
        assert_eq!(paged, all);
        for bad in ["limit=0", "limit=201", "limit=x", "limit=-1"] {
            admin.get(&format!("{list}?{bad}")).await.check_field("limit");
        }
        for bad in ["page=0", "page=x", "page="] {
            admin.get(&format!("{list}?{bad}")).await.check_field("page");
        }
    }
}

#[tokio::test]
async fn a_key_is_shown_once_and_revoked_at_once() {
    let mut server = TestServer::start().await;
    server.workspace("acme").await;
    let admin = server.admin();
    let keys = format!("{ROOT}/acme/keys");
    let limits = json!({"key_requests_per_hour": 50});
    let body = json!({"name": "web", "scopes": ["messaging:send"], "limits": limits});
    let made = admin.post(&keys, body).await;
    assert_eq!(made.status, 201);
    let made = made.ok();
    let (id, key) = (made["id"].as_str().unwrap(), made["key"].as_str().unwrap());
    assert_eq!((&id[..4], id.len()), ("key_", 30));
    assert_eq!((&made["name"], &made["scopes"]), (&json!("web"), &json!(["messaging:send"])));
    millis(made["created_at"].as_str().unwrap());
    let listed = admin.get(&keys).await;
    assert!(!listed.text().contains(key), "a list shows a key");
    let rows = listed.ok()["data"].as_array().unwrap().clone();
    let row = rows.iter().find(|row| row["id"] == id).unwrap();
    let prefix = row["prefix"].as_str().unwrap();
    assert!(key.starts_with(prefix) && prefix.len() * 2 < key.len());

    let api = server.api(key);
    api.get("/v1/sandbox/clock").await.ok();
    let other = admin.delete(&format!("{ROOT}/demo/keys/{id}")).await;
    other.check(404, "NOT_FOUND");
    let revoked = admin.delete(&format!("{keys}/{id}")).await;
    assert_eq!((revoked.status, revoked.body.len()), (204, 0));
    api.get("/v1/sandbox/clock").await.check(401, "UNAUTHORIZED");
    admin.delete(&format!("{keys}/{id}")).await.check(404, "NOT_FOUND");
    assert!(!admin.get(&keys).await.text().contains(id));
    server.restart().await;
    api.get("/v1/sandbox/clock").await.check(401, "UNAUTHORIZED");
}

#[tokio::test]
async fn a_key_has_scopes_that_exist() {
    let server = TestServer::start().await;
    let admin = server.admin();
    let keys = format!("{ROOT}/demo/keys");
    for (scopes, field) in [
        (Value::Null, "scopes"),
        (json!("messaging:send"), "scopes"),
        (json!(["messaging:send", "x"]), "scopes[1]"),
        (json!(["MESSAGING:SEND"]), "scopes[0]"),
        (json!([""]), "scopes[0]"),
        (json!([7]), "scopes[0]"),
    ] {
        let body = json!({"name": "k", "scopes": scopes});
        admin.post(&keys, &body).await.check_field(field);
    }
    admin.post(&keys, json!({"name": "k"})).await.check_field("scopes");
    for (limits, field) in [
        (json!({"key_requests_per_hour": -1}), "limits.key_requests_per_hour"),
        (json!({"key_requests_per_hour": "5"}), "limits.key_requests_per_hour"),
        (json!({"otp_per_phone_10m": 5}), "limits.otp_per_phone_10m"),
        (json!(5), "limits"),
    ] {
        let body = json!({"name": "k", "scopes": ["messaging:send"], "limits": limits});
        admin.post(&keys, &body).await.check_field(field);
    }
    let doubled = json!(["contacts:read", "contacts:read"]);
    let made = admin.post(&keys, json!({"name": "k", "scopes": doubled})).await.ok();
    assert_eq!(made["scopes"], json!(["contacts:read"]));
    let api = server.api(made["key"].as_str().unwrap());
    api.get("/v1/events").await.check(403, "FORBIDDEN");
}

#[tokio::test]
async fn a_key_allows_something() {
    let server = TestServer::start().await;
    let keys = format!("{ROOT}/demo/keys");
    let none = json!({"name": "k", "scopes": []});
    server.admin().post(&keys, none).await.check_field("scopes");
}

#[tokio::test]
async fn credits_are_set_and_added() {
    let mut server = TestServer::start().await;
    server.workspace("acme").await;
    let admin = server.admin();
    let path = format!("{ROOT}/acme/credits");
    assert_eq!(admin.put(&path, json!({"credits": 10})).await.ok()["credits"], 10);
    assert_eq!(admin.post(&path, json!({"add": 5})).await.ok()["credits"], 15);
    assert_eq!(admin.post(&path, json!({"add": 0})).await.ok()["credits"], 15);
    for bad in [json!({"credits": -1}), json!({"credits": 1.5}), json!({"credits": "1"}), json!({})]
    {
        admin.put(&path, &bad).await.check_field("credits");
    }
    for bad in [json!({"add": -5}), json!({"add": null}), json!({"credits": 1})] {
        admin.post(&path, &bad).await.check_field("add");
    }
    // Every program that reads JSON keeps whole numbers up to this one, and no larger ones.
    let most = (1_u64 << 53) - 1;
    assert_eq!(admin.put(&path, json!({"credits": most})).await.ok()["credits"], most);
    admin.put(&path, json!({"credits": most + 1})).await.check_field("credits");
    admin.post(&path, json!({"add": most + 1})).await.check_field("add");
    let refused = admin.post(&path, json!({"add": 1})).await.check(422, "UNPROCESSABLE");
    assert_eq!(refused["reason"], "credits_too_large");
    assert_eq!(admin.post(&path, json!({"add": 0})).await.ok()["credits"], most);
    admin.put(&path, json!({"credits": 15})).await.ok();
    server.restart().await;
    assert_eq!(admin.get(&format!("{ROOT}/acme")).await.ok()["credits"], 15);
}

#[tokio::test]
async fn limits_are_whole_numbers_and_stay() {
    let mut server = TestServer::start().await;
    server.workspace("acme").await;
    let admin = server.admin();
    let path = format!("{ROOT}/acme/limits");
    for bad in [json!(-1), json!(1.5), json!("5"), json!([]), json!(4_294_967_296_u64)] {
        let body = json!({"otp_per_phone_10m": bad});
        admin.put(&path, body).await.check_field("otp_per_phone_10m");
    }
    admin.put(&path, json!({"otp_per_phone": 9})).await.check_field("otp_per_phone");
    let body = json!({"otp_per_phone_10m": 9, "otp_per_phone_hour": null});
    let set = admin.put(&path, body).await.ok();
    assert_eq!(set["otp_per_phone_10m"], 9);
    assert_eq!(set["otp_per_phone_hour"], 0);
    let set = admin.put(&path, json!({"otp_per_workspace_hour": 0})).await.ok();
    assert_eq!((&set["otp_per_phone_10m"], &set["otp_per_workspace_hour"]), (&json!(9), &json!(0)));
    server.restart().await;
    assert_eq!(admin.get(&format!("{ROOT}/acme")).await.ok()["limits"], set);
}

#[tokio::test]
async fn numbers_are_connected_and_disconnected() {
    let server = TestServer::start().await;
    server.workspace("acme").await;
    let admin = server.admin();
    let numbers = format!("{ROOT}/acme/numbers");
    let made = admin.post(&numbers, json!({"kind": "sandbox"})).await;
    assert_eq!(made.status, 201);
    let made = made.ok();
    let id = made["id"].as_str().unwrap();
    assert_eq!((&id[..4], id.len()), ("num_", 30));
    assert!(made.as_object().unwrap().contains_key("callback_path"));
    for bad in [json!({"kind": "pigeon"}), json!({"kind": null}), json!({})] {
        admin.post(&numbers, &bad).await.check_field("kind");
    }
    assert_eq!(admin.get(&numbers).await.ok()["total"], 2);
    admin.delete(&format!("{ROOT}/demo/numbers/{id}")).await.check(404, "NOT_FOUND");
    assert_eq!(admin.delete(&format!("{numbers}/{id}")).await.status, 204);
    admin.delete(&format!("{numbers}/{id}")).await.check(404, "NOT_FOUND");
    assert_eq!(admin.get(&numbers).await.ok()["total"], 1);
}
