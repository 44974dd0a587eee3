//! A separate listener for operators, and the answers of both listeners.

use std::net::SocketAddr;

use crate::support::{Api, Connection, Reply, TestServer};

/// Calls a listener. Its answers may differ from the document, which describes both together.
async fn ask(address: SocketAddr, api: &Api, path: &str) -> Reply {
    let mut connection = Connection::open(address).await;
    connection.send(api.request("GET", path, &[], b"")).await;
    let reply = connection.reply().await.expect("an answer");
    reply.check_always(path);
    reply
}

#[tokio::test]
async fn operators_have_a_listener_of_their_own() {
    let server = TestServer::with(&[("ADMIN__LISTEN", "127.0.0.1:0")]).await;
    let (main, other) = (server.address(), server.admin_address());
    assert_ne!(main, other);
    let (demo, admin, stranger) = (server.demo(), server.admin(), server.stranger());
    let workspaces = "/admin/v1/workspaces";
    // The main listener has no operators' paths any more, for any caller.
    for path in ["/healthz", "/readyz", "/metrics", workspaces] {
        ask(main, &stranger, path).await.check(404, "NOT_FOUND");
        ask(main, &admin, path).await.check(404, "NOT_FOUND");
    }
    demo.get("/v1/sandbox/clock").await.ok();
    stranger.get("/openapi.json").await.ok();
    // The other one has these paths, and no others.
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(ask(other, &stranger, path).await.status, 200, "{path}");
    }
    ask(other, &admin, workspaces).await.ok();
    ask(other, &stranger, workspaces).await.check(401, "UNAUTHORIZED");
    for path in ["/v1/sandbox/clock", "/openapi.json", "/docs", "/channels/cloud-api/x"] {
        ask(other, &demo, path).await.check(404, "NOT_FOUND");
    }
    let operators = format!("http://{other}");
    assert!(server.banner().contains(&operators), "{}", server.banner());
}
