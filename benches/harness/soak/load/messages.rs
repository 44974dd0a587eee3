//! Single messages: each acknowledged one comes to an end, and no recipient gets two.

use std::sync::Arc;

use serde_json::json;

use super::super::api::Call;
use super::super::world::{TEMPLATE, World};
use crate::Result;

/// Sends a template to a new phone, until it is certain that it is accepted.
pub(super) async fn sent(world: Arc<World>) -> Result<()> {
    let (phone, key) = (world.phone(), world.key());
    let template = json!({"name": TEMPLATE, "language": "en"});
    let body = json!({"to": phone, "type": "template", "template": template});
    let call = Call::once("/v1/messaging/send", &body, &key);
    let (answer, _) = world.api.certain(&call).await?;
    if answer.status != 200 {
        return Err(format!("a message to {phone}: {answer:?}").into());
    }
    let id = answer.text("message_id");
    // The same request again has the same answer.
    let (again, _) = world.api.certain(&call).await?;
    world.expect(again.text("message_id") == id, || format!("{key}: {answer:?}, then {again:?}"));
    world.books().messages.push((id, phone));
    world.count("messages acknowledged", 1);
    Ok(())
}
