//! The page and its files: addresses, headers, and a server without them.

use std::io::Read as _;

use serde_json::json;

use super::owner;
use crate::support::{Connection, TestServer};

#[tokio::test]
async fn every_address_of_the_dashboard_is_its_shell() {
    let server = TestServer::start().await;
    let browser = server.browser();
    let root = browser.get("/").await;
    assert_eq!((root.status, root.header("location")), (307, Some("/ui/")));
    let below = browser.get("/ui").await;
    assert_eq!((below.status, below.header("location")), (308, Some("/ui/")));
    for path in ["/ui/", "/ui/phone", "/ui/inbox/cnv_1", "/ui/no/such/page"] {
        let page = browser.get(path).await;
        assert_eq!(page.status, 200, "{path}");
        assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
        assert_eq!(page.header("cache-control"), Some("no-cache"));
        let text = page.text();
        assert!(text.contains("/ui/assets/") && !text.contains("{{"), "{text}");
        let policy = page.header("content-security-policy").unwrap();
        for rule in [
            "default-src 'none'",
            "script-src 'self'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
        ] {
            assert!(policy.contains(rule), "{policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(page.header("referrer-policy"), Some("no-referrer"));
        assert_eq!(page.header("cross-origin-resource-policy"), Some("same-origin"));
        let tag = page.header("etag").unwrap();
        let known = [("If-None-Match", tag)];
        let again = browser.send("GET", path, &known, None).await;
        assert_eq!((again.status, again.body.len()), (304, 0), "{path}");
    }
    for path in [
        "/ui/assets/0123456789abcdef/app.js",
        "/ui/assets/0123456789abcdef/index.html",
        "/ui/assets/0123456789abcdef/../../Cargo.toml",
        "/ui/assets/0123456789abcdef/%2e%2e/mod.rs",
        "/ui/assets",
        "/ui/api/no",
    ] {
        browser.get(path).await.check(404, "NOT_FOUND");
    }
}

#[tokio::test]
async fn the_document_is_sent_compressed_and_once() {
    let server = TestServer::start().await;
    let anyone = server.stranger();
    let plain = anyone.get("/openapi.json").await;
    assert_eq!(plain.header("content-encoding"), None);
    let coded = [("Accept-Encoding", "gzip, br")];
    let browser = server.browser();
    let small = browser.send("GET", "/openapi.json", &coded, None).await;
    assert_eq!(small.header("content-encoding"), Some("br"));
    assert!(small.body.len() * 10 < plain.body.len(), "{} bytes", small.body.len());
    let known = [coded[0], ("If-None-Match", small.header("etag").unwrap())];
    assert_eq!(browser.send("GET", "/openapi.json", &known, None).await.status, 304);
}

#[tokio::test]
async fn what_a_browser_reads_is_sent_compressed_where_it_is_long() {
    let server = TestServer::start().await;
    let owner = owner(&server).await;
    let contacts: Vec<_> = (0..50).map(|i| json!({"name": format!("Contact {i}")})).collect();
    server.demo().post("/v1/contacts/batch", json!({ "contacts": contacts })).await.ok();
    let gzip = ("Accept-Encoding", "br, gzip");
    let long = "/v1/contacts?limit=50";
    let plain = owner.get(long).await;
    assert_eq!((plain.status, plain.header("content-encoding")), (200, None));
    let raw = async |path: &str, headers: &[(&str, &str)]| {
        let mut connection = Connection::open(server.address()).await;
        connection.send(owner.request("GET", path, headers, None)).await;
        connection.reply().await.unwrap()
    };
    let coded = raw(long, &[gzip]).await;
    assert_eq!((coded.status, coded.header("content-encoding")), (200, Some("gzip")));
    assert_eq!(coded.header("vary"), Some("Accept-Encoding"));
    assert!(coded.body.len() * 4 < plain.body.len(), "{} bytes", coded.body.len());
    let mut text = Vec::new();
    flate2::read::GzDecoder::new(&*coded.body).read_to_end(&mut text).unwrap();
    assert_eq!(text, plain.body);
    let refused = raw(long, &[("Accept-Encoding", "br, gzip;q=0")]).await;
    assert_eq!(refused.header("content-encoding"), None);
    let short = raw("/v1/contacts?limit=1", &[gzip]).await;
    assert_eq!(short.header("content-encoding"), None);
    // A program is close to the server, and calls more often.
    let key = format!("Bearer {}", server.demo().token());
    let program = raw(long, &[gzip, ("Authorization", key.as_str())]).await;
    assert_eq!((program.status, program.header("content-encoding")), (200, None));
}

#[tokio::test]
async fn a_server_without_a_dashboard_has_none_of_it() {
    let server = TestServer::with(&[("DASHBOARD__ENABLED", "false")]).await;
    assert!(!server.banner().contains("/ui/"), "{}", server.banner());
    let browser = server.browser();
    let bearer = format!("Bearer {}", server.admin().token());
    let admin = [("Authorization", bearer.as_str())];
    for path in ["/", "/ui", "/ui/", "/ui/phone", "/docs", "/ui/api/session", "/admin/v1/users"] {
        // They are in the document of a server with pages.
        let mut connection = Connection::open(server.address()).await;
        connection.send(browser.request("GET", path, &admin, None)).await;
        connection.reply().await.unwrap().check(404, "NOT_FOUND");
    }
    let document = browser.get("/openapi.json").await.ok();
    assert!(document["paths"]["/ui/api/session"].is_null());
    assert!(document["paths"]["/admin/v1/users"].is_null());
    server.demo().get("/v1/me").await.ok();
}
