//! The figures and states that a number reports.

use serde_json::{Value, json};

use crate::support::{TestServer, eventually};

const NUMBERS: &str = "/admin/v1/workspaces/acme/numbers";
const PHONE: &str = "+15550123456";

#[tokio::test]
async fn a_number_reports_whether_it_sends_and_what_waits() {
    let off = [("LIMITS__OTP_PER_PHONE_10M", "0"), ("LIMITS__OTP_PER_WORKSPACE_HOUR", "0")];
    let server = TestServer::with(&off).await;
    let acme = server.workspace("acme").await;
    let admin = server.admin();
    let list = async || admin.get(NUMBERS).await.ok()["data"][0].clone();
    let fresh = list().await;
    let path = format!("{NUMBERS}/{}", fresh["id"].as_str().unwrap());
    assert_eq!(admin.get(&path).await.ok(), fresh);
    assert_eq!((&fresh["state"], &fresh["reason"]), (&json!("open"), &Value::Null));
    assert_eq!(fresh["since"], fresh["created_at"]);
    let closed = json!({"open": false, "failures": 0, "next_try_at": null});
    assert_eq!(fresh["breaker"], closed);
    let empty = json!({"waiting": 0, "oldest_seconds": 0});
    assert_eq!(fresh["lanes"], json!({"otp": empty, "single": empty, "broadcast": empty}));
    assert_eq!((&fresh["in_flight"], &fresh["sent_last_minute"]), (&json!(0), &json!(0)));
    let script = async |outcome: &str| {
        let body = json!({"to": "*", "outcome": outcome});
        acme.post("/v1/sandbox/outcomes", body).await.ok();
    };
    let send = async || {
        acme.post("/v1/otp/send", json!({"phone": PHONE})).await.ok();
    };
    send().await;
    let sent = async || (list().await["sent_last_minute"] == 1).then_some(());
    eventually("one was sent", sent).await;
    script("failed").await;
    send().await;
    let failed = async || Some(list().await["last_error"].clone()).filter(|it| !it.is_null());
    let error = eventually("the last error", failed).await;
    assert_eq!(error["code"], 131_026);
    script("unavailable").await;
    // From the fifth failure on, no code is accepted.
    let mut taken = 0_u64;
    while acme.post("/v1/otp/send", json!({"phone": PHONE})).await.status < 300 {
        taken += 1;
        assert!(taken < 100);
    }
    let stopped = async || Some(list().await).filter(|row| row["state"] == "stopped");
    let row = eventually("the number is left alone", stopped).await;
    assert_eq!((&row["breaker"]["open"], &row["in_flight"]), (&json!(true), &json!(0)));
    assert!(row["breaker"]["next_try_at"].is_string() && row["reason"].is_string(), "{row}");
    assert_eq!(row["lanes"]["otp"]["waiting"], taken);
    assert_eq!(row["lanes"]["single"]["waiting"], 0);
    assert!(row["since"].as_str() > fresh["since"].as_str());
    script("sent").await;
    server.advance(70).await;
    let open = async || {
        let row = list().await;
        (row["state"] == "open" && row["lanes"]["otp"]["waiting"] == 0).then_some(row)
    };
    let row = eventually("the number sends again", open).await;
    assert_eq!((&row["sent_last_minute"], &row["reason"]), (&json!(taken), &Value::Null));
    admin.get(&format!("{NUMBERS}/none")).await.check(404, "NOT_FOUND");
}
