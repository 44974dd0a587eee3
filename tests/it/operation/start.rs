//! The results of a start, and the state that outlives a restart.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::support::TestServer;

#[tokio::test]
async fn the_first_start_makes_a_workspace_that_can_send_at_once() {
    let server = TestServer::start().await;
    let sent = server.demo().post("/v1/otp/send", json!({"phone": "+15550123456"})).await;
    assert!(sent.ok()["request_id"].as_str().unwrap().starts_with("otp_"));
    let demo = server.admin().get("/admin/v1/workspaces/demo").await.ok();
    assert_eq!(demo["credits"], 999_999);
    assert_eq!(demo["counts"]["keys"], 1);
    assert_eq!(demo["counts"]["numbers"], 1);
}

#[tokio::test]
async fn secrets_are_in_files_of_one_line_for_nobody_else() {
    let server = TestServer::start().await;
    for name in ["demo.key", "admin.token", "master.key"] {
        let path = server.data_dir().join(name);
        let mode = path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{name}");
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.ends_with('\n') && text.lines().count() == 1, "{name}");
    }
    let mode = server.data_dir().metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o700);
}

#[tokio::test]
async fn with_an_admin_token_set_no_file_is_made() {
    let server = TestServer::with(&[("ADMIN__TOKEN", "of-the-environment")]).await;
    assert!(!server.data_dir().join("admin.token").exists());
    server.api("of-the-environment").get("/admin/v1/workspaces").await.ok();
    server.api("of-the-environmen").get("/admin/v1/workspaces").await.check(401, "UNAUTHORIZED");
}

#[tokio::test]
async fn a_restart_keeps_the_secrets_and_what_was_sent() {
    let mut server = TestServer::start().await;
    let demo = server.demo();
    let sent = demo.post("/v1/otp/send", json!({"phone": "+15550123456"})).await.ok();
    let code = server.code(&demo, "+15550123456").await;
    server.restart().await;
    let verify = json!({"request_id": sent["request_id"], "otp": code});
    assert_eq!(demo.post("/v1/otp/verify", &verify).await.ok()["verified"], true);
    let workspace = server.admin().get("/admin/v1/workspaces/demo").await.ok();
    assert_eq!(workspace["credits"], 999_999);
    assert_eq!(workspace["counts"]["keys"], 1, "a second start makes no second key");
    let messages = demo.get("/v1/sandbox/messages").await.ok();
    assert_eq!(messages["data"], json!([]), "they are in memory");
}

#[tokio::test]
async fn a_crash_keeps_what_was_answered() {
    let mut server = TestServer::start().await;
    let demo = server.demo();
    let sent = demo.post("/v1/otp/send", json!({"phone": "+15550123456"})).await.ok();
    let code = server.code(&demo, "+15550123456").await;
    let right = json!({"request_id": sent["request_id"], "otp": code});
    let wrong = json!({"request_id": sent["request_id"], "otp": "x"});
    demo.post("/v1/otp/verify", &wrong).await.ok();
    server.crash().await;
    let state = demo.get(&format!("/v1/otp/{}", sent["request_id"].as_str().unwrap())).await.ok();
    assert_eq!(state["attempts_remaining"], 4);
    assert_eq!(demo.post("/v1/otp/verify", &right).await.ok()["verified"], true);
    server.crash().await;
    demo.post("/v1/otp/verify", &right).await.check(422, "UNPROCESSABLE");
}

#[tokio::test]
async fn data_is_not_opened_with_another_master_key() {
    const RIGHT: &str = "0707070707070707070707070707070707070707070707070707070707070707";
    const WRONG: &str = "0808080808080808080808080808080808080808080808080808080808080808";
    let mut server = TestServer::with(&[("SECRETS__MASTER_KEY", RIGHT)]).await;
    for (setting, expected) in [
        ("", "there is no such file, but there is data"),
        (WRONG, "master key version 1 is not the one that the data was written under"),
    ] {
        server.set("SECRETS__MASTER_KEY", setting);
        let refused = server.refused_restart().await;
        assert!(refused.contains(expected), "{refused}");
        assert!(!server.data_dir().join("master.key").exists());
    }
    server.set("SECRETS__MASTER_KEY", RIGHT);
    server.restart().await;
    server.stranger().get("/readyz").await.ok();
}

#[tokio::test]
async fn the_data_of_a_sandbox_is_not_taken_for_real_traffic_without_a_word() {
    let mut server = TestServer::start().await;
    assert!(!server.log().contains("sandbox numbers"));
    server.set("SANDBOX__ENABLED", "false");
    server.restart().await;
    let log = server.log();
    let warnings: Vec<_> = log.lines().filter(|line| line.contains("WARN")).collect();
    let banner = server.banner();
    for warning in ["sandbox numbers", "workspaces: demo", "the sandbox key of", "demo.key"] {
        assert!(warnings.iter().any(|line| line.contains(warning)), "{warning}: {warnings:?}");
        assert!(banner.contains(warning), "{banner}");
    }
    server.set("SANDBOX__ENABLED", "true");
    server.restart().await;
    assert!(!server.banner().contains("WARNING"));
    server.advance(60).await;
    server.set("SANDBOX__ENABLED", "false");
    let refused = server.refused_restart().await;
    for named in ["moved ahead by 60 s", "sandbox.enabled", "server.data_dir"] {
        assert!(refused.contains(named), "{refused}");
    }
    server.set("SANDBOX__ENABLED", "true");
    server.restart().await;
}
