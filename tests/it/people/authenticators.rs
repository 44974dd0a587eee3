//! Authenticators: a code besides the password, and workspaces that ask for one.

use data_encoding::BASE32_NOPAD;
use hmac::{Hmac, KeyInit, Mac};
use postrider_actors::Clock;
use serde_json::{Value, json};
use sha1::Sha1;

use super::{member, owner};
use crate::support::{Browser, TestServer};

const PASSWORD: &str = "correct horse battery staple";

fn step() -> u64 {
    Clock::system().real().as_secs() / 30
}

/// Returns the code of a step, as apps compute it (RFC 4226, section 5.3).
fn code(secret: &str, step: u64) -> String {
    let secret = BASE32_NOPAD.decode(secret.as_bytes()).unwrap();
    let mut mac = Hmac::<Sha1>::new_from_slice(&secret).unwrap();
    mac.update(&step.to_be_bytes());
    let hash = mac.finalize().into_bytes();
    let at = usize::from(hash[19] & 0xf);
    let number = u32::from_be_bytes(hash[at..at + 4].try_into().unwrap()) & 0x7fff_ffff;
    format!("{:06}", number % 1_000_000)
}

/// Sets up an authenticator; returns the secret and the recovery codes.
async fn enrol(browser: &Browser) -> (String, Vec<String>) {
    let shown = browser.send("POST", "/ui/api/totp", &[super::OWN], None).await.ok();
    let secret = shown["secret"].as_str().unwrap().to_owned();
    let uri = shown["uri"].as_str().unwrap();
    assert!(uri.starts_with("otpauth://totp/Postrider:") && uri.contains(&secret), "{uri}");
    assert!(!uri.contains('@'), "{uri}");
    let body = json!({ "code": code(&secret, step() + 5) });
    browser.put("/ui/api/totp", body).await.check_field("code");
    let body = json!({ "code": code(&secret, step()) });
    let confirmed: Value = browser.put("/ui/api/totp", body).await.ok();
    let codes = confirmed["recovery_codes"].as_array().unwrap().iter();
    (secret, codes.map(|code| code.as_str().unwrap().to_owned()).collect())
}

#[tokio::test]
async fn a_sign_in_by_password_needs_a_code_that_was_not_used() {
    let mut server = TestServer::start().await;
    let owner = owner(&server).await;
    owner.put("/ui/api/password", json!({"new": PASSWORD})).await.ok();
    owner.put("/ui/api/totp", json!({"code": "123456"})).await.check(409, "CONFLICT");
    let (secret, codes) = enrol(&owner).await;
    assert_eq!(codes.len(), 10);
    let again = owner.send("POST", "/ui/api/totp", &[super::OWN], None).await;
    assert_eq!(again.check(409, "CONFLICT")["reason"], "totp_exists");
    let users = server.admin().get("/admin/v1/users?search=owner").await.ok();
    assert_eq!(users["data"][0]["totp"], true);
    let body = |password: &str, totp: Option<&str>| json!({"email": "owner@localhost", "password": password, "totp": totp});
    let mut browser = server.browser();
    let without = browser.sign_in(body(PASSWORD, None)).await.check(401, "UNAUTHORIZED");
    assert_eq!(without["reason"], "totp_required");
    let wrong = browser.sign_in(body("not the password", None)).await.check(401, "UNAUTHORIZED");
    assert_eq!(wrong["reason"], Value::Null, "only a right password tells that a code is needed");
    let next = code(&secret, step() + 1);
    browser.sign_in(body(PASSWORD, Some(&next))).await.ok();
    let used = browser.sign_in(body(PASSWORD, Some(&next))).await.check(401, "UNAUTHORIZED");
    assert_eq!(used["reason"], "totp_required");
    server.restart().await;
    browser.sign_in(body(PASSWORD, Some(&next))).await.check(401, "UNAUTHORIZED");
    browser.sign_in(body(PASSWORD, Some(&codes[0]))).await.ok();
    browser.sign_in(body(PASSWORD, Some(&codes[0]))).await.check(401, "UNAUTHORIZED");
    let elevate = async |body: Value| browser.post("/ui/api/session/elevate", body).await;
    elevate(json!({})).await.check(400, "VALIDATION_ERROR");
    let half = elevate(json!({"password": PASSWORD})).await.check(401, "UNAUTHORIZED");
    assert_eq!(half["reason"], "totp_required");
    elevate(json!({"password": PASSWORD, "totp": codes[1]})).await.ok();
    // With a link no code is asked for.
    server.browser().follow(&server.banner()).await.ok();
    let log = server.log();
    assert!(!log.contains(&secret) && !log.contains(&codes[0]));
    browser.delete("/ui/api/totp").await.ok();
    browser.delete("/ui/api/totp").await.check(409, "CONFLICT");
    browser.sign_in(body(PASSWORD, None)).await.ok();
    for action in ["totp.create", "totp.delete"] {
        let records = server.admin().get(&format!("/admin/v1/audit?action={action}")).await.ok();
        assert_eq!(records["data"].as_array().unwrap().len(), 1, "{action}");
    }
}

#[tokio::test]
async fn wrong_codes_are_tried_slowly() {
    let server = TestServer::with(&[("LIMITS__UNAUTHENTICATED_PER_MINUTE", "0")]).await;
    let owner = owner(&server).await;
    owner.put("/ui/api/password", json!({"new": PASSWORD})).await.ok();
    let (secret, _) = enrol(&owner).await;
    let mut browser = server.browser();
    let body = |totp: &str| json!({"email": "owner@localhost", "password": PASSWORD, "totp": totp});
    for step in [100, 101, 102, 103, 104] {
        let refused = browser.sign_in(body(&code(&secret, step))).await;
        refused.check(401, "UNAUTHORIZED");
    }
    let right = code(&secret, step() + 1);
    browser.sign_in(body(&right)).await.check(429, "RATE_LIMITED");
}

#[tokio::test]
async fn a_workspace_asks_its_members_for_an_authenticator() {
    let server = TestServer::start().await;
    server.workspace("acme").await;
    let admin = member(&server, "acme", "admin").await;
    let agent = member(&server, "acme", "agent").await;
    let required = |required: bool| json!({ "require_totp": required });
    let refused = admin.patch("/v1/workspace", required(true)).await.check(409, "CONFLICT");
    assert_eq!(refused["reason"], "totp_required", "who asks for it has one");
    enrol(&admin).await;
    assert_eq!(admin.patch("/v1/workspace", required(true)).await.ok()["require_totp"], true);
    let refused = agent.get("/v1/conversations").await.check(403, "FORBIDDEN");
    assert_eq!(refused["reason"], "totp_required");
    let me = agent.get("/v1/me").await.ok();
    assert_eq!((&me["role"], &me["permissions"]), (&json!("agent"), &json!([])));
    admin.get("/admin/v1/workspaces/acme/members").await.ok();
    enrol(&agent).await;
    agent.get("/v1/conversations").await.ok();
    agent.delete("/ui/api/totp").await.ok();
    agent.get("/v1/conversations").await.check(403, "FORBIDDEN");
    assert_eq!(admin.patch("/v1/workspace", required(false)).await.ok()["require_totp"], false);
    agent.get("/v1/conversations").await.ok();
    let audit = server.admin().get("/admin/v1/audit?action=workspace.require_totp").await.ok();
    let asked: Vec<_> = audit["data"].as_array().unwrap().iter().collect();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[0]["changes"], json!({"require_totp": true}));
}
