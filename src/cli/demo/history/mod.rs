//! Fills the workspace of a demo with the data of a week of work, through the public API.

mod broadcasts;
mod conversations;
mod setup;

use std::path::Path;

use postrider::RunningServer;
use serde_json::{Value, json};

use super::client::{DemoClient, print, text};
use crate::cli::error::CliError;
pub(super) use setup::WebhookReceiver;

const HOUR: u32 = 3600;
/// The number of days before the last one.
const DAYS: u32 = 6;

/// The number of phones that the codes of a day may go to.
const PHONES_PER_DAY: u32 = 40;
/// The number of wrong codes after which a request is invalid.
const WRONG_CODES_MAX: u32 = 5;

/// Makes the history. The engine's clock is a week ahead afterwards.
pub(super) async fn make_history(
    server: &RunningServer,
    directory: &Path,
) -> Result<WebhookReceiver, CliError> {
    let api = DemoClient::of(server)?.with_admin(directory)?;
    let receiver = WebhookReceiver::start().await?;
    print("Creating a week of history")?;
    let people = setup::fill_workspace(&api, receiver.address).await?;
    for day in 0..DAYS {
        print(".")?;
        make_codes(&api, day).await?;
        conversations::make_day(&api, day, &people).await?;
        broadcasts::make_day(&api, day).await?;
        // Unverified codes expire, and reply windows close.
        advance(&api, 24 * HOUR).await?;
    }
    conversations::make_nearly_closed(&api).await?;
    advance(&api, 23 * HOUR + 1200).await?;
    setup::add_failing_webhook(&api).await?;
    make_codes(&api, DAYS).await?;
    conversations::make_newest(&api, &people).await?;
    broadcasts::make_newest(&api).await?;
    print(" done.\n")?;
    Ok(receiver)
}

/// Makes the codes of a day: each day has more than the day before.
///
/// They are verified at the first or a second try, guessed, forgotten, and never delivered.
async fn make_codes(api: &DemoClient, day: u32) -> Result<(), CliError> {
    for n in 0..8 + 2 * day {
        let to = phone(1000 + day * PHONES_PER_DAY + n);
        match n % 8 {
            0..=3 => send_and_verify(api, &to, 0).await?,
            4 => send_and_verify(api, &to, 1).await?,
            5 => send_and_verify(api, &to, WRONG_CODES_MAX).await?,
            6 => send_undelivered(api, &to).await?,
            // Nobody enters it.
            _ => drop(send_code(api, &to).await?),
        }
    }
    Ok(())
}

/// Sends a code and enters it after this number of wrong ones.
async fn send_and_verify(api: &DemoClient, to: &str, wrong: u32) -> Result<(), CliError> {
    let request = send_code(api, to).await?;
    let path = format!("/sandbox/messages?to=%2B{}&limit=1", &to[1..]);
    let code = |found: &Value| {
        found.pointer("/data/0/code").and_then(|code| code.as_str()).map(str::to_owned)
    };
    let code = api.wait(&path, code).await?;
    let guess = if code == "000000" { "111111" } else { "000000" };
    for _ in 0..wrong {
        let body = json!({ "request_id": request, "otp": guess });
        accept_refusal(api.post("/otp/verify", &body).await)?;
    }
    accept_refusal(api.post("/otp/verify", &json!({ "request_id": request, "otp": code })).await)
}

async fn send_undelivered(api: &DemoClient, to: &str) -> Result<(), CliError> {
    let script = json!({ "to": to, "outcome": "failed", "error_code": 131026, "times": 1 });
    api.post("/sandbox/outcomes", &script).await?;
    send_code(api, to).await?;
    Ok(())
}

async fn send_code(api: &DemoClient, to: &str) -> Result<String, CliError> {
    let sent = api.post("/otp/send", &json!({ "phone": to })).await?;
    Ok(text(&sent["request_id"]).to_owned())
}

async fn advance(api: &DemoClient, seconds: u32) -> Result<(), CliError> {
    api.post("/sandbox/clock", &json!({ "advance_seconds": seconds })).await?;
    Ok(())
}

/// Returns a phone of the history: of five countries in turn.
fn phone(number: u32) -> String {
    let country = ["+1555010", "+4915510", "+9665550", "+5511955", "+3460055"];
    format!("{}{number:04}", country[number as usize % country.len()])
}

/// Accepts a refusal that belongs to the history.
fn accept_refusal(answer: Result<Value, CliError>) -> Result<(), CliError> {
    match answer {
        Ok(_) | Err(CliError::Refused { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}
