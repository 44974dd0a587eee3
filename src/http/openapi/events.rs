//! Describes the `data` of each event type in the OpenAPI document.

#![allow(dead_code, reason = "these structs describe what the engine writes")]

use postrider_actors::domain::PublicEvent;
use utoipa::openapi::schema::{AllOfBuilder, Schema};
use utoipa::openapi::{Components, ObjectBuilder, OpenApi, Ref, RefOr, Type};
use utoipa::{Modify, ToSchema};

use crate::http::messages::{MessageErrorAnswer, TemplateAnswer};

/// Adds one schema for each event type.
pub(crate) struct Events;

impl Modify for Events {
    fn modify(&self, document: &mut OpenApi) {
        let components = document.components.get_or_insert_default();
        for (kind, what) in PublicEvent::KINDS {
            let Some(data) = data_of(kind, components) else { continue };
            let name = ObjectBuilder::new().schema_type(Type::String).enum_values(Some([*kind]));
            let own = ObjectBuilder::new()
                .property("type", name)
                .property("data", data)
                .required("type")
                .required("data");
            let event = AllOfBuilder::new()
                .description(Some(*what))
                .item(Ref::from_schema_name("EventRow"))
                .item(own)
                .build();
            components.schemas.insert(schema_of(kind), RefOr::T(Schema::AllOf(event)));
        }
    }
}

/// The schema name of an event type.
pub(super) fn schema_of(kind: &str) -> String {
    format!("Event-{kind}")
}

fn data_of(kind: &str, components: &mut Components) -> Option<Ref> {
    Some(match kind {
        "otp.sent" => reference::<OtpSentData>(components),
        "otp.verified" | "otp.expired" | "otp.delivered" => reference::<OtpData>(components),
        "otp.failed" => reference::<OtpFailedData>(components),
        "otp.pumping_suspected" => reference::<OtpPumpingData>(components),
        "message.received" => reference::<MessageReceivedData>(components),
        "contact.opted_out" => reference::<OptedOutData>(components),
        "contact.opted_in" => reference::<OptedInData>(components),
        "template.status_changed" => reference::<TemplateStatusData>(components),
        "number.stopped" => reference::<NumberStoppedData>(components),
        "number.recovered" => reference::<NumberData>(components),
        "webhook.disabled" => reference::<WebhookDisabledData>(components),
        "webhook.test" => reference::<WebhookData>(components),
        "broadcast.completed" => reference::<BroadcastCompletedData>(components),
        _ => match kind.split('.').next()? {
            "broadcast" => reference::<BroadcastData>(components),
            "contact" => reference::<ContactData>(components),
            "conversation" => reference::<ConversationData>(components),
            "message" => reference::<MessageData>(components),
            _ => return None,
        },
    })
}

fn reference<T: ToSchema>(components: &mut Components) -> Ref {
    let mut schemas = vec![(T::name().into_owned(), T::schema())];
    T::schemas(&mut schemas);
    components.schemas.extend(schemas);
    Ref::from_schema_name(T::name())
}

/// A one-time password on its way.
#[derive(ToSchema)]
struct OtpSentData {
    /// The request.
    request_id: String,
    /// Where it goes, in E.164.
    phone: String,
    /// When the code stops being valid.
    #[schema(format = DateTime)]
    expires_at: String,
    /// Whether it was sent before, and now once more.
    resend: bool,
}

/// A request for a one-time password.
#[derive(ToSchema)]
struct OtpData {
    /// The request.
    request_id: String,
    /// Where it went, in E.164.
    phone: String,
}

/// A request for a one-time password that came to nothing.
#[derive(ToSchema)]
struct OtpFailedData {
    /// The request.
    request_id: String,
    /// Where it was to go, in E.164.
    phone: String,
    /// `max_attempts`, `channel_refused` or `not_sent_in_time`.
    reason: String,
    /// The channel's own error code, where it gave one.
    error_code: Option<u32>,
}

/// Codes that nobody submits.
#[derive(ToSchema)]
struct OtpPumpingData {
    /// The calling code of the country, without `+`.
    calling_code: String,
    /// Codes of this hour that were not submitted.
    unverified: u32,
    /// When the hour began.
    #[schema(format = DateTime)]
    hour: String,
    /// Whether more are refused.
    refused: bool,
}

/// A broadcast.
#[derive(ToSchema)]
struct BroadcastData {
    /// The broadcast.
    broadcast_id: String,
    /// What it is called.
    name: String,
    /// `scheduled`, `queued`, `sending`, `paused`, `completed`, `cancelled` or `failed`.
    status: String,
    /// To how many it goes.
    total_recipients: u32,
    /// Why it is where it is, if nobody asked for it.
    reason: Option<String>,
}

/// A broadcast all of which has been handed over.
#[derive(ToSchema)]
struct BroadcastCompletedData {
    /// The broadcast.
    broadcast_id: String,
    /// What it is called.
    name: String,
    /// `completed`.
    status: String,
    /// To how many it goes.
    total_recipients: u32,
    /// Why it was paused before, if nobody asked for it.
    reason: Option<String>,
    /// What has become of its recipients so far, each counted once.
    counts: CompletedCounts,
}

/// Recipients of a broadcast that is complete.
#[derive(ToSchema)]
struct CompletedCounts {
    /// The channel took the message; whether it arrives is told by `message.delivered`.
    sent: u32,
    /// It was refused, or reported as failed.
    failed: u32,
    /// It was handed over and no answer came.
    unknown: u32,
    /// The phone had opted out.
    suppressed: u32,
}

/// A phone that wants no marketing and no broadcasts.
#[derive(ToSchema)]
struct OptedOutData {
    /// The phone, in E.164.
    phone: String,
    /// Whose it is, if anybody's.
    contact_id: Option<String>,
    /// Why, if somebody said so.
    reason: Option<String>,
}

/// A phone that had opted out and wants messages again.
#[derive(ToSchema)]
struct OptedInData {
    /// The phone, in E.164.
    phone: String,
    /// Whose it is, if anybody's.
    contact_id: Option<String>,
}

/// A contact, as it is now; of a deleted one, as it was.
#[derive(ToSchema)]
struct ContactData {
    /// The contact.
    contact_id: String,
    /// What it is called.
    name: String,
    /// Its phone, in E.164.
    #[schema(required)]
    phone: Option<String>,
    /// Its e-mail address.
    #[schema(required)]
    email: Option<String>,
    /// Its tags.
    tags: Vec<String>,
    /// Whatever else is known of it.
    #[schema(value_type = Object)]
    custom_fields: serde_json::Value,
    /// When it was made.
    #[schema(format = DateTime)]
    created_at: String,
    /// When it was last changed.
    #[schema(format = DateTime)]
    updated_at: String,
}

/// A conversation, as it is now.
#[derive(ToSchema)]
struct ConversationData {
    /// The conversation.
    conversation_id: String,
    /// With whom.
    contact_id: String,
    /// The contact's phone, in E.164.
    #[schema(required)]
    phone: Option<String>,
    /// `open`, `pending` or `resolved`.
    status: String,
    /// `messaging` or `email`
    channel: String,
    /// The agent who sees to it.
    #[schema(required)]
    assigned_to: Option<String>,
    /// What was written last, its first 200 characters.
    last_message: String,
    /// When.
    #[schema(format = DateTime)]
    last_message_at: String,
    /// When it was made.
    #[schema(format = DateTime)]
    created_at: String,
}

/// A message that goes out.
#[derive(ToSchema)]
struct MessageData {
    /// The message.
    message_id: String,
    /// The broadcast that it is of; its other fields are then told by the broadcast.
    broadcast_id: Option<String>,
    /// Who gets it: a phone in E.164, or of a mail the address. Of a broadcast's message where the
    /// channel tells it.
    to: Option<String>,
    /// `template`, `text` or `email`.
    r#type: Option<String>,
    /// `queued`, `sent`, `delivered`, `read` or `failed`.
    status: String,
    /// The template that it is made of.
    template: Option<TemplateAnswer>,
    /// Why it failed.
    error: Option<MessageErrorAnswer>,
}

/// A message that came in.
#[derive(ToSchema)]
struct MessageReceivedData {
    /// The message.
    message_id: String,
    /// The conversation that it is in.
    conversation_id: String,
    /// Who wrote it, or has just been made for whoever did.
    contact_id: String,
    /// The number that it came to; left out of a mail.
    number_id: Option<String>,
    /// `email` of a mail; left out of others.
    channel: Option<String>,
    /// Who wrote it: a phone in E.164, or of a mail the address.
    from: String,
    /// The subject of a mail.
    subject: Option<String>,
    /// What the sender is called on the channel, where it tells.
    name: Option<String>,
    /// `text`, `email`, or what else the channel calls it.
    r#type: String,
    /// Its text; of what is not text, what can be shown of it.
    text: String,
    /// When it was written.
    #[schema(format = DateTime)]
    at: String,
    /// The advertisement that it was written from.
    referral: Option<ReferralData>,
}

/// An advertisement that led to a message.
#[derive(ToSchema)]
struct ReferralData {
    /// `ad` or `post`.
    #[schema(required)]
    source_type: Option<String>,
    /// Its id at the provider.
    #[schema(required)]
    source_id: Option<String>,
    /// Its headline, where the provider tells it.
    headline: Option<String>,
}

/// A template whose status has changed.
#[derive(ToSchema)]
struct TemplateStatusData {
    /// Its name.
    name: String,
    /// Its language.
    language: String,
    /// `utility`, `marketing` or `authentication`.
    category: String,
    /// Its status now.
    status: String,
    /// Its status before.
    previous_status: String,
}

/// A number.
#[derive(ToSchema)]
struct NumberData {
    /// The number.
    number_id: String,
}

/// A number whose account cannot send.
#[derive(ToSchema)]
struct NumberStoppedData {
    /// The number.
    number_id: String,
    /// The channel's own error code, where it gave one.
    #[schema(required)]
    error_code: Option<u32>,
    /// What the channel says.
    reason: String,
}

/// A webhook.
#[derive(ToSchema)]
struct WebhookData {
    /// The webhook.
    webhook_id: String,
}

/// A webhook that is sent nothing more.
#[derive(ToSchema)]
struct WebhookDisabledData {
    /// The webhook.
    webhook_id: String,
    /// `gone`: its endpoint answered 410. `failing`: nothing arrived for days.
    reason: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_of_event_is_described() {
        let mut components = Components::new();
        for (kind, _) in PublicEvent::KINDS {
            assert!(data_of(kind, &mut components).is_some(), "{kind}");
        }
    }
}
