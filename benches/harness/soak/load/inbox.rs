//! Customers who write, each message called back until it is accepted, and answers to them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hyper::Method;
use serde_json::json;

use super::super::api::Call;
use super::super::world::{APP_SECRET, PHONE_NUMBER_ID, World};
use crate::Result;
use crate::cloud_api::{callback, sign};

/// The number of customers who write repeatedly.
const CUSTOMERS: usize = 200;
/// The first of their phones, which are separate from those that are used once.
const FIRST: u64 = 448_000_000_000;

/// Sends a message of a customer, twice with the same id, and answers in the window that it opens.
pub(super) async fn written_and_answered(world: Arc<World>) -> Result<()> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let digits = (FIRST + (number % CUSTOMERS) as u64).to_string();
    let seconds = world.clock.real().as_secs();
    let value = json!({
        "contacts": [{"profile": {"name": "Customer"}, "wa_id": digits}],
        "messages": [{
            "from": digits, "id": format!("wamid.soak{number}"), "timestamp": seconds.to_string(),
            "type": "text", "text": {"body": format!("Message {number}")},
        }],
    });
    let body = callback(PHONE_NUMBER_ID, value);
    let signature = sign(APP_SECRET, body.to_string().as_bytes());
    let call =
        Call::of(Method::POST, &world.callback_path, &body).with("x-hub-signature-256", signature);
    for _ in 0..2 {
        world.provider.fetch(&call).await?;
    }
    *world.books().written.entry(format!("+{digits}")).or_default() += 1;
    world.count("inbound messages acknowledged", 1);
    let text = json!({"to": format!("+{digits}"), "type": "text", "text": "Hello"});
    let (answer, _) =
        world.api.certain(&Call::once("/v1/messaging/send", &text, &world.key())).await?;
    world.expect(answer.status == 200, || format!("the window of +{digits} is closed: {answer:?}"));
    Ok(())
}
