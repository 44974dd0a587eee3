//! Fills the workspace of a demo with the data of a week of work, through the public API.

mod broadcasts;
mod codes;
mod conversations;
mod receiver;
mod setup;

use std::path::Path;

use postrider::RunningServer;
use serde_json::{Value, json};

pub(super) use receiver::Receiver;

use super::client::{DemoClient, print};
use crate::cli::error::CliError;

const HOUR: u32 = 3600;
/// The number of days before the last one.
const DAYS: u32 = 6;

/// Makes the history. The engine's clock is a week ahead afterwards.
pub(super) async fn make(server: &RunningServer, directory: &Path) -> Result<Receiver, CliError> {
    let api = DemoClient::of(server)?.with_admin(directory)?;
    let receiver = Receiver::start().await?;
    print("Making a week of history")?;
    let people = setup::workspace(&api, receiver.address).await?;
    for day in 0..DAYS {
        print(".")?;
        codes::of_day(&api, day).await?;
        conversations::of_day(&api, day, &people).await?;
        broadcasts::of_day(&api, day).await?;
        // Unverified codes expire, and reply windows close.
        advance(&api, 24 * HOUR).await?;
    }
    conversations::nearly_closed(&api).await?;
    advance(&api, 23 * HOUR + 1200).await?;
    setup::failing_webhook(&api).await?;
    codes::of_day(&api, DAYS).await?;
    conversations::newest(&api, &people).await?;
    broadcasts::newest(&api).await?;
    print(" done.\n")?;
    Ok(receiver)
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
fn refused(answer: Result<Value, CliError>) -> Result<(), CliError> {
    match answer {
        Ok(_) | Err(CliError::Refused { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}
