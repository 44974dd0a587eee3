//! Pages of other origins, and hosts that are not the server's, get nothing.

use serde_json::{Value, json};

use super::owner;
use crate::support::TestServer;

/// The headers of requests from other origins. These are another site, another port of the same
/// host, or a browser that does not name the site.
const OTHERS: [&[(&str, &str)]; 5] = [
    &[("Sec-Fetch-Site", "cross-site"), ("Origin", "https://evil.example.com")],
    &[("Sec-Fetch-Site", "same-site"), ("Origin", "http://127.0.0.1:1")],
    &[("Origin", "http://127.0.0.1:1")],
    &[("Origin", "null")],
    &[],
];

fn reason(reply: &crate::support::Reply) -> Value {
    reply.check(403, "FORBIDDEN")["reason"].clone()
}

#[tokio::test]
async fn pages_of_other_origins_change_nothing() {
    let server = TestServer::start().await;
    let owner = owner(&server).await;
    let link = super::link(&server, "demo", "agent").await;
    let token = link.split("#in=").nth(1).unwrap();
    let contact = json!({"phone": "+15550001111", "name": "Ada"});
    for headers in OTHERS {
        let made = owner.send("POST", "/v1/contacts", headers, Some(&contact)).await;
        assert_eq!(reason(&made), "cross_site", "{headers:?}");
        let none = owner.send("DELETE", "/ui/api/session", headers, None).await;
        assert_eq!(reason(&none), "cross_site", "{headers:?}");
        let keys = "/admin/v1/workspaces/demo/templates/sync";
        assert_eq!(reason(&owner.send("POST", keys, headers, None).await), "cross_site");
        // No page of another origin can sign anybody in, not even without a cookie.
        let body = json!({"link": token});
        let sign_in = server.browser().send("POST", "/ui/api/session", headers, Some(&body)).await;
        assert_eq!(reason(&sign_in), "cross_site", "{headers:?}");
    }
    assert_eq!(owner.get("/v1/contacts").await.ok()["total"], 0);
    server.browser().follow(&link).await.ok();
    // The browser's header, or else the origin, is enough.
    owner.post("/v1/contacts", contact).await.ok();
    let own = format!("http://{}", server.address());
    let contact = json!({"phone": "+15550002222", "name": "Bob"});
    let origin = [("Origin", own.as_str())];
    owner.send("POST", "/v1/contacts", &origin, Some(&contact)).await.ok();
}

#[tokio::test]
async fn pages_of_other_origins_read_nothing() {
    let server = TestServer::start().await;
    let owner = owner(&server).await;
    for site in ["cross-site", "same-site"] {
        for path in ["/v1/contacts", "/v1/events/stream?workspace=demo", "/ui/api/sessions"] {
            let read = owner.send("GET", path, &[("Sec-Fetch-Site", site)], None).await;
            assert_eq!(reason(&read), "cross_site", "{site} {path}");
            assert_eq!(read.header("access-control-allow-origin"), None);
        }
    }
    // A person who types an address, and a program with a key, are not pages.
    owner.send("GET", "/v1/contacts", &[("Sec-Fetch-Site", "none")], None).await.ok();
    let demo = server.demo();
    let both = format!("Bearer {}", demo.token());
    let headers = [("Authorization", both.as_str()), ("Sec-Fetch-Site", "cross-site")];
    let with_both = owner.send("GET", "/v1/contacts", &headers, None).await;
    assert_eq!(with_both.number("x-ratelimit-limit"), 1000, "only the key counts");
}

#[tokio::test]
async fn only_the_servers_own_names_are_answered() {
    let server = TestServer::start().await;
    let owner = owner(&server).await;
    let port = server.address().port();
    for host in ["evil.example.com", &format!("evil.example.com:{port}"), "192.0.2.1"] {
        let there = owner.with("Host", host);
        for path in
            ["/", "/ui", "/ui/", "/ui/phone", "/ui/assets/0123456789abcdef/x.js", "/ui/api/session"]
        {
            assert_eq!(reason(&there.get(path).await), "host", "{host} {path}");
        }
        assert_eq!(reason(&there.get("/v1/contacts").await), "host", "{host}");
        assert_eq!(reason(&there.get("/admin/v1/workspaces").await), "host", "{host}");
    }
    for host in ["localhost", &format!("localhost:{port}"), &format!("[::1]:{port}")] {
        owner.with("Host", host).get("/v1/contacts").await.ok();
    }
    // Requests with a key may be for any name.
    server.demo().get("/v1/contacts").await.ok();
}

#[tokio::test]
async fn without_a_public_address_nobody_signs_in_from_elsewhere() {
    let proxied = [("SERVER__TRUSTED_PROXIES", "127.0.0.0/8")];
    let server = TestServer::with(&proxied).await;
    let mut elsewhere = server.browser().with("X-Forwarded-For", "192.0.2.7");
    let refused = elsewhere.follow(&server.banner()).await;
    assert_eq!(reason(&refused), "public_url_missing");
    server.browser().follow(&server.banner()).await.ok();
    let public = [proxied[0], ("DASHBOARD__PUBLIC_URL", "http://post.example.com")];
    let server = TestServer::with(&public).await;
    let mut elsewhere =
        server.browser().with("X-Forwarded-For", "192.0.2.7").with("Host", "post.example.com");
    elsewhere.follow(&server.banner()).await.ok();
    let sessions = elsewhere.get("/ui/api/sessions").await.ok();
    assert_eq!(sessions["data"][0]["address"], "192.0.2.7");
}
