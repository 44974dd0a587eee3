//! A follower of the event stream that resumes after the last event whenever the stream breaks.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt;
use serde_json::Value;

use super::super::api::Call;
use super::super::world::World;
use crate::Result;

/// The rest before it connects again.
const REST: Duration = Duration::from_millis(200);
/// The interval between checks whether it must end.
const LOOK: Duration = Duration::from_secs(1);

/// Follows the stream to the end of the load: no event is missing, and none comes twice.
pub(super) async fn followed(world: Arc<World>) -> Result<()> {
    let mut last: Option<(String, u64)> = None;
    while !world.is_ended() {
        let call = match &last {
            None => Call::get("/v1/events/stream"),
            Some((id, _)) => Call::get("/v1/events/stream").with("last-event-id", id.clone()),
        };
        let Ok(response) = world.api.open(&call).await else {
            tokio::time::sleep(REST).await;
            continue;
        };
        if response.status() == 400 {
            return Err(format!("the log is behind what it showed: {last:?}").into());
        }
        if !response.status().is_success() {
            tokio::time::sleep(REST).await;
            continue;
        }
        let (mut body, mut text) = (response.into_body(), String::new());
        while !world.is_ended() {
            let Ok(frame) = tokio::time::timeout(LOOK, body.frame()).await else { continue };
            let Some(Ok(frame)) = frame else { break };
            text.push_str(std::str::from_utf8(frame.data_ref().ok_or("trailers")?)?);
            while let Some((message, rest)) = text.split_once("\n\n") {
                take(&world, message, &mut last)?;
                text = rest.to_owned();
            }
        }
        world.count("streams cut", 1);
    }
    Ok(())
}

/// Processes one message of the stream.
fn take(world: &World, message: &str, last: &mut Option<(String, u64)>) -> Result<()> {
    let field = |name: &str| message.lines().find_map(|line| line.strip_prefix(name));
    let (Some(id), Some(data)) = (field("id: "), field("data: ")) else { return Ok(()) };
    let event: Value = serde_json::from_str(data)?;
    // Events about the engine itself have no place in the log.
    let Some(sequence) = event["sequence"].as_u64() else { return Ok(()) };
    if let Some((_, before)) = last {
        world.expect(sequence == *before + 1, || {
            format!("the stream went from {before} to {sequence}")
        });
    }
    *last = Some((id.to_owned(), sequence));
    world.count("events of the stream", 1);
    Ok(())
}
