//! The headers of every answer for browsers and caches, and the description of the interface.

use serde_json::json;

use crate::support::TestServer;

#[tokio::test]
async fn what_is_for_one_caller_is_kept_by_no_cache() {
    let server = TestServer::start().await;
    let (admin, demo) = (server.admin(), server.demo());
    let key = json!({"name": "k", "scopes": ["messaging:send"]});
    let hook = json!({"url": "https://example.com/hook"});
    let made = demo.post("/v1/webhooks", hook).await;
    let rotate = format!("/v1/webhooks/{}/rotate-secret", made.ok()["id"].as_str().unwrap());
    for reply in [
        made,
        demo.post(&rotate, json!({})).await,
        admin.post("/admin/v1/workspaces/demo/keys", key).await,
        demo.get("/v1/sandbox/messages").await,
        demo.get("/v1/contacts").await,
    ] {
        reply.ok();
        assert_eq!(reply.header("cache-control"), Some("no-store"), "{reply:?}");
    }
}

#[tokio::test]
async fn no_answer_is_taken_for_another_type() {
    let server = TestServer::start().await;
    let (stranger, demo) = (server.stranger(), server.demo());
    for reply in [
        stranger.get("/healthz").await,
        stranger.get("/docs").await,
        stranger.get("/nothing").await,
        stranger.get("/v1/contacts").await,
        demo.get("/v1/contacts").await,
        demo.get("/v1/contacts/export").await,
        demo.delete("/v1/contacts").await,
    ] {
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"), "{reply:?}");
    }
}

#[tokio::test]
async fn no_other_page_may_frame_the_interface() {
    let server = TestServer::start().await;
    let page = server.browser().get("/ui/explorer").await;
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
}

#[tokio::test]
async fn a_refusal_links_to_the_page_about_its_code() {
    let server = TestServer::start().await;
    for refused in [
        server.stranger().get("/v1/contacts").await,
        server.stranger().get("/nothing").await,
        server.demo().post("/v1/otp/send", json!({"phone": "x"})).await,
        server.admin().get("/admin/v1/workspaces/nobody").await,
    ] {
        let code = refused.json()["code"].as_str().unwrap().to_owned();
        let path = format!("/docs/errors/{code}");
        let link = format!("<{path}>; rel=\"help\"");
        assert_eq!(refused.header("link"), Some(link.as_str()), "{refused:?}");
        let page = server.stranger().get(&path).await;
        assert_eq!(page.header("content-type"), Some("text/markdown; charset=utf-8"));
        assert!(page.text().starts_with(&format!("# {code}\n")), "{page:?}");
    }
    assert_eq!(server.demo().get("/v1/contacts").await.header("link"), None);
    server.stranger().get("/docs/errors/NOTHING").await.check(404, "NOT_FOUND");
}

#[tokio::test]
async fn the_settings_say_where_the_pages_about_errors_are() {
    for (settings, link) in [
        (("SERVER__ERRORS_URL", ""), None),
        (("SERVER__DOCS", "false"), None),
        (
            ("SERVER__ERRORS_URL", "https://help.example/e/"),
            Some("<https://help.example/e/NOT_FOUND>; rel=\"help\""),
        ),
    ] {
        let server = TestServer::with(&[settings]).await;
        let refused = server.stranger().get("/nothing").await;
        assert_eq!(refused.header("link"), link, "{settings:?}");
    }
}

#[tokio::test]
async fn the_interface_is_described_unless_the_settings_say_no() {
    let server = TestServer::with(&[("SERVER__DOCS", "false")]).await;
    let stranger = server.stranger();
    for path in ["/docs", "/docs/errors/CONFLICT", "/openapi.json"] {
        stranger.get(path).await.check(404, "NOT_FOUND");
    }
    stranger.get("/readyz").await.ok();
    assert!(!server.banner().contains("/docs"), "{}", server.banner());
}
