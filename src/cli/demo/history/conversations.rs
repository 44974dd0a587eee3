//! Conversations: answered and resolved, waiting for somebody, and just started.

use reqwest::Method;
use serde_json::{Value, json};

use super::phone;
use crate::cli::demo::client::{DemoClient, text};
use crate::cli::error::CliError;

/// The questions of customers and their answers, two of them a day.
const TALKS: [(&str, &str); 12] = [
    ("Where is my order 7731?", "It left our warehouse this morning."),
    ("Can I still change the address?", "Yes. What is the new one?"),
    ("Do you ship to Norway?", "We do, in four to six days."),
    ("مرحبا، أين طلبي؟", "أهلا، طلبك في الطريق."),
    ("The parcel was damaged 😞", "I am sorry. We send a new one at once."),
    ("¿Tienen esta camisa en azul?", "Sí, en todas las tallas."),
    ("I was charged twice", "You get the second amount back within three days."),
    ("Wann öffnet ihr am Samstag?", "Von 9 bis 18 Uhr."),
    ("Is there a student discount?", "Ten percent, with the code STUDENT."),
    ("Obrigado pela ajuda!", "De nada!"),
    ("Please cancel my subscription", "It ends with this month."),
    ("Can I pay by invoice?", "Yes, choose it at the checkout."),
];
const NEWEST: [&str; 5] = [
    "Hello, is anybody there?",
    "I would like to exchange the shoes for a larger pair",
    "هل يمكنني تغيير موعد التسليم؟",
    "Is http://example.com/sale really yours?",
    "Thanks!",
];
/// The number of the first contact that writes.
const FROM: u32 = 100;

pub(super) async fn make_day(
    api: &DemoClient,
    day: u32,
    people: &[String; 2],
) -> Result<(), CliError> {
    for n in [2 * day, 2 * day + 1] {
        let Some((asked, answer)) = TALKS.get(n as usize) else { continue };
        let id = write(api, &phone(FROM + n), asked).await?;
        reply(api, &id, answer).await?;
        let status = if n % 3 == 2 { "pending" } else { "resolved" };
        let agent = &people[n as usize % people.len()];
        update(api, &id, json!({ "status": status, "assigned_to": agent })).await?;
    }
    Ok(())
}

/// Makes a conversation whose reply window has little time left at the end.
pub(super) async fn make_nearly_closed(api: &DemoClient) -> Result<(), CliError> {
    write(api, &phone(FROM + 40), "My parcel has not come yet. Can you look?").await?;
    Ok(())
}

pub(super) async fn make_newest(api: &DemoClient, people: &[String; 2]) -> Result<(), CliError> {
    let advertisement = json!({ "source_type": "ad", "source_id": "120208999",
        "headline": "Spring sale" });
    for (n, asked) in (0..).zip(NEWEST) {
        let from = phone(FROM + 50 + n);
        let mut inbound = json!({ "from": from, "text": asked });
        if n == 0 {
            inbound["referral"] = advertisement.clone();
        }
        api.post("/sandbox/inbound", &inbound).await?;
        let id = wait_for_conversation(api, &from).await?;
        if n == 1 {
            update(api, &id, json!({ "assigned_to": people[1] })).await?;
            reply(api, &id, "Of course. Which size do you need?").await?;
            api.post("/sandbox/inbound", &json!({ "from": from, "text": "43, please" })).await?;
        }
    }
    // Makes a message that fails, and one that is on its way.
    let order = |to: String| {
        let parameters =
            json!([{ "type": "text", "text": "Ada" }, { "type": "text", "text": "77" }]);
        json!({ "to": to, "type": "template", "template": { "name": "order_update",
            "language": "en", "components": [{ "type": "body", "parameters": parameters }] } })
    };
    let script = json!({ "to": phone(7), "outcome": "failed", "error_code": 131047, "times": 1 });
    api.post("/sandbox/outcomes", &script).await?;
    for n in [7, 8, 9] {
        api.post("/messaging/send", &order(phone(n))).await?;
    }
    Ok(())
}

/// Makes a customer write; returns the conversation.
async fn write(api: &DemoClient, from: &str, asked: &str) -> Result<String, CliError> {
    api.post("/sandbox/inbound", &json!({ "from": from, "text": asked })).await?;
    wait_for_conversation(api, from).await
}

/// Waits for the newest conversation to be this contact's.
async fn wait_for_conversation(api: &DemoClient, from: &str) -> Result<String, CliError> {
    let theirs = |found: &Value| {
        let newest = found.pointer("/data/0")?;
        (newest.pointer("/contact/phone")?.as_str() == Some(from))
            .then(|| text(&newest["id"]).to_owned())
    };
    api.wait("/conversations?limit=1", theirs).await
}

async fn reply(api: &DemoClient, id: &str, answer: &str) -> Result<(), CliError> {
    let path = format!("/conversations/{id}/messages");
    api.post(&path, &json!({ "type": "text", "text": answer })).await?;
    Ok(())
}

async fn update(api: &DemoClient, id: &str, change: Value) -> Result<(), CliError> {
    api.call(Method::PATCH, &format!("/conversations/{id}"), Some(&change)).await?;
    Ok(())
}
