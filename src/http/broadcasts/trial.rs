//! Sends the message of a broadcast to one phone, as a test.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use postrider_actors::domain::{PartyId, Phone, SenderNotes};
use postrider_actors::{
    MessageContent, NewBroadcast, Permission, Replayable, Route, SendMessage, TemplateMessage,
    Variables, with_variables,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::create::{Members, NewBroadcastBody, new_broadcast};
use super::recipients::Recipients;
use super::sent_from::SentFrom;
use crate::http::messages::{SentAnswer, sent_reply};
use crate::http::pipeline::{
    Answer, ApiError, BodySize, Call, Key, Principal, Routes, Takes, route,
};

/// The prefix of a test's reference.
const TEST_MARK: &str = "[test]";

pub(super) fn routes() -> Routes {
    Routes::default().routes(
        route!(test)
            .takes(Takes::Json(BodySize::Broadcast))
            .guarded(Key::of(Permission::BroadcastsWrite)),
    )
}

/// A broadcast of which one message is sent.
#[derive(Debug, ToSchema)]
#[allow(dead_code, reason = "describes what `test` reads as a broadcast and a phone")]
pub(crate) struct BroadcastTestBody<'a> {
    /// Where the message goes, in E.164.
    #[schema(example = "+15550123456", pattern = r"^\+[1-9][0-9]{6,14}$")]
    to: Cow<'a, str>,
    /// The broadcast's name, for people.
    #[schema(example = "Spring sale", min_length = 1, max_length = 200)]
    name: Cow<'a, str>,
    /// The template's name.
    #[schema(example = "spring_sale")]
    template_name: Cow<'a, str>,
    /// The template's language; `en` by default.
    #[schema(example = "en", default = "en")]
    language: Option<Cow<'a, str>>,
    /// As of a broadcast; the message has the variables of `to`, if it is among them, or else of
    /// the first.
    #[schema(value_type = Option<Vec<super::recipients::RecipientSchema>>, min_items = 1,
        example = json!(["+15550123456", "+15550123457"]))]
    recipients: Option<Recipients>,
    /// A segment instead of `recipients`.
    segment_id: Option<Cow<'a, str>>,
    /// As of a broadcast; the message has the values of the contact with this phone, or else of
    /// the newest contact of the segment.
    #[schema(value_type = Option<Vec<super::variables::SourceSchema>>, max_items = 100)]
    variables_from: Option<Vec<serde_json::Value>>,
    /// As of a broadcast; the test is sent now.
    #[schema(format = DateTime, example = "2030-01-31T09:30:00Z")]
    schedule_at: Option<Cow<'a, str>>,
    /// As of a broadcast.
    #[schema(value_type = Option<Vec<Object>>)]
    components: Option<&'a RawValue>,
    /// As of a broadcast.
    #[schema(example = "at_most_once", default = "at_most_once")]
    policy: Option<Cow<'a, str>>,
    /// As of a broadcast; that of the message has `[test]` before it.
    #[schema(example = "spring-2026", min_length = 1, max_length = 128)]
    reference: Option<Cow<'a, str>>,
    /// As of a broadcast.
    #[schema(example = json!({"shop": "north"}))]
    metadata: Option<BTreeMap<String, String>>,
    /// The number that it is sent from, by its id or its phone, or a list of them, of which the
    /// first counts; left out: one of the pool.
    #[schema(example = "num_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    from: Option<SentFrom>,
}

/// The field of the body that only a test has.
#[derive(Deserialize)]
struct Recipient<'a> {
    #[serde(borrow)]
    to: Cow<'a, str>,
}

#[utoipa::path(
    post,
    path = "/v1/messaging/broadcasts/test",
    operation_id = "testBroadcast",
    tag = "Messaging",
    summary = "Send the message of a broadcast to one phone",
    description = "A single message, which costs what one does and is listed with them. No \
                   broadcast is made. Honours `Idempotency-Key`, as `POST /v1/messaging/send`.",
    request_body = BroadcastTestBody,
    responses((status = 200, description = "Durable, and on its way", body = SentAnswer))
)]
async fn test(call: Call<Principal>) -> Answer {
    let permit = Arc::clone(&call.edge.parsers).acquire_owned().await;
    let permit = permit.map_err(|_| ApiError::internal())?;
    let read = tokio::task::spawn_blocking(move || {
        let (new, segment) = new_broadcast(call.json::<NewBroadcastBody<'_>>()?)?;
        let to: Recipient<'_> = call.json()?;
        let to: Phone = to.to.parse().map_err(|error| ApiError::field("to", error))?;
        let key = call.idempotency_key(Route::SendMessage)?;
        Ok::<_, ApiError>((call.caller, new, segment, to, key, permit))
    });
    let (caller, new, segment, to, key, permit) =
        read.await.map_err(|_| ApiError::internal())??;
    let variables = match segment {
        Some(segment) => of_segment(&caller, segment, to).await?,
        None => of_recipients(&new, to),
    };
    let components = with_variables(&new.components, &variables);
    let (name, language) = (new.template, new.language);
    let from = new.from.into_iter().next();
    let content = MessageContent::Template(TemplateMessage { name, language, components });
    let (to, notes) = (PartyId::from(to), of_test(new.notes));
    let message = SendMessage { to, content, answers: None, notes, from };
    let Replayable { answer, replayed } = caller.workspace().send_message(message, key).await?;
    drop(permit);
    Ok(sent_reply(answer).replayed(replayed))
}

/// Marks the notes of a broadcast as those of a test.
fn of_test(notes: SenderNotes) -> SenderNotes {
    let reference = match notes.reference {
        // A reference may have 128 characters.
        Some(own) => format!("{TEST_MARK} {own}").chars().take(128).collect(),
        None => TEST_MARK.to_owned(),
    };
    SenderNotes { reference: Some(reference), ..notes }
}

/// Returns the variables of this phone, or else of the first recipient.
fn of_recipients(new: &NewBroadcast, to: Phone) -> Variables {
    let Some(all) = &new.audience.variables else { return Variables::default() };
    let own = new.audience.phones.iter().position(|phone| Phone::from_digits(*phone) == Ok(to));
    all.get(own.unwrap_or(0)).cloned().unwrap_or_default()
}

/// Returns the values of the contact with this phone, or else of the segment's newest contact.
async fn of_segment(
    caller: &Principal,
    (segment, sources): Members,
    to: Phone,
) -> Result<Variables, ApiError> {
    caller.check(Permission::ContactsRead)?;
    let workspace = caller.workspace();
    let newest = workspace.segment_contacts(segment, 0, 1).await?.contacts;
    let own = workspace.contact_with_phone(to).await?;
    let contact = own.as_ref().or(newest.first());
    let contact = contact
        .ok_or_else(|| ApiError::field("segment_id", "must name a segment with a contact in it"))?;
    let values: Variables = sources.iter().map(|source| source.value_of(contact)).collect();
    if values.iter().any(|value| value.is_empty()) {
        let rule = format_args!("has no value for the contact {}", contact.id);
        return Err(ApiError::field("variables_from", rule));
    }
    Ok(values)
}
