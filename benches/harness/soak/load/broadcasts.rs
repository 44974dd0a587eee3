//! Broadcasts: each recipient has one outcome, and the counts add up at every check.

use std::sync::Arc;
use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};

use super::super::api::Call;
use super::super::world::{TEMPLATE, World};
use crate::Result;
use crate::measure::Stopwatch;

const PATH: &str = "/v1/messaging/broadcasts";
const RECIPIENTS: usize = 500;
const LOOK: Duration = Duration::from_millis(500);
/// The maximum time of a broadcast.
const PATIENCE: Duration = Duration::from_secs(600);

/// Makes a broadcast and waits for its end. If it pauses, because the provider fails, resumes it.
pub(super) async fn completed(world: Arc<World>) -> Result<()> {
    let phones: Vec<_> = (0..RECIPIENTS).map(|_| world.phone()).collect();
    let body = json!({"name": "Soak", "template_name": TEMPLATE, "recipients": phones});
    let (made, _) = world.api.certain(&Call::once(PATH, &body, &world.key())).await?;
    if made.status != 200 {
        return Err(format!("a broadcast: {made:?}").into());
    }
    let id = made.text("broadcast_id");
    world.books().broadcasts.push((id.clone(), phones));
    world.count("broadcasts acknowledged", 1);
    let (path, watch) = (format!("{PATH}/{id}"), Stopwatch::start());
    while watch.elapsed() < PATIENCE {
        let found = world.api.fetch(&Call::get(&path)).await?;
        let counts = found["counts"].as_object().ok_or("a broadcast has counts")?;
        let counted: u64 = counts.values().filter_map(Value::as_u64).sum();
        world.expect(counted == RECIPIENTS as u64, || format!("{id} does not add up: {found}"));
        match found["status"].as_str() {
            Some("completed") => return Ok(()),
            Some("paused") => {
                let resume = format!("{path}/resume");
                // A try that had no answer may have resumed it.
                world.api.certain(&Call::of(Method::POST, &resume, &json!({}))).await?;
                world.count("broadcasts resumed", 1);
            }
            Some("queued" | "sending") => {}
            _ => return Err(format!("{id}: {found}").into()),
        }
        tokio::time::sleep(LOOK).await;
    }
    Err(format!("{id} does not come to its end").into())
}
