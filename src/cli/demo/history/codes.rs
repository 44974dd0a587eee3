//! Codes: verified at the first or a second try, guessed, forgotten, and never delivered.

use serde_json::json;

use super::{phone, refused};
use crate::cli::demo::client::{DemoClient, text};
use crate::cli::error::CliError;

/// The number of phones that the codes of a day may go to.
const OF_DAY: u32 = 40;
/// The number of wrong codes after which a request is invalid.
const TRIES: u32 = 5;

/// Makes the codes of a day: each day has more than the day before.
pub(super) async fn of_day(api: &DemoClient, day: u32) -> Result<(), CliError> {
    for n in 0..8 + 2 * day {
        let to = phone(1000 + day * OF_DAY + n);
        match n % 8 {
            0..=3 => verified(api, &to, 0).await?,
            4 => verified(api, &to, 1).await?,
            5 => verified(api, &to, TRIES).await?,
            6 => undelivered(api, &to).await?,
            // Nobody enters it.
            _ => drop(send(api, &to).await?),
        }
    }
    Ok(())
}

/// Sends a code and enters it after this number of wrong ones.
async fn verified(api: &DemoClient, to: &str, wrong: u32) -> Result<(), CliError> {
    let request = send(api, to).await?;
    let path = format!("/sandbox/messages?to=%2B{}&limit=1", &to[1..]);
    let code = |found: &serde_json::Value| {
        found.pointer("/data/0/code").and_then(|code| code.as_str()).map(str::to_owned)
    };
    let code = api.wait(&path, code).await?;
    let guess = if code == "000000" { "111111" } else { "000000" };
    for _ in 0..wrong {
        let body = json!({ "request_id": request, "otp": guess });
        refused(api.post("/otp/verify", &body).await)?;
    }
    refused(api.post("/otp/verify", &json!({ "request_id": request, "otp": code })).await)
}

async fn undelivered(api: &DemoClient, to: &str) -> Result<(), CliError> {
    let script = json!({ "to": to, "outcome": "failed", "error_code": 131026, "times": 1 });
    api.post("/sandbox/outcomes", &script).await?;
    send(api, to).await?;
    Ok(())
}

async fn send(api: &DemoClient, to: &str) -> Result<String, CliError> {
    let sent = api.post("/otp/send", &json!({ "phone": to })).await?;
    Ok(text(&sent["request_id"]).to_owned())
}
