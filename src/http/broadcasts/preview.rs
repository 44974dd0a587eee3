//! Tries a broadcast before it is sent: reports its content and cost, or sends one message of it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use postrider_actors::domain::{PartyId, Phone, SenderNotes};
use postrider_actors::{
    BroadcastPreview, BroadcastSample, MessageContent, NewBroadcast, Permission, Replayable, Route,
    SendMessage, TemplateMessage, Variables, with_variables,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::create::{NewBroadcastBody, SegmentSource, SentFrom, new_broadcast, segment_audience};
use super::recipients::Recipients;
use crate::http::messages::{SentAnswer, sent_reply};
use crate::http::pipeline::{
    Answer, ApiError, BodyKind, BodySize, Call, Key, Principal, Reply, Routes, route,
};

/// The prefix of a test's reference.
const TEST_MARK: &str = "[test]";

pub(super) fn routes() -> Routes {
    Routes::default()
        .routes(
            route!(preview)
                .takes(BodyKind::Json(BodySize::Broadcast))
                .guarded(Key::of(Permission::BroadcastsWrite)),
        )
        .routes(
            route!(test)
                .takes(BodyKind::Json(BodySize::Broadcast))
                .guarded(Key::of(Permission::BroadcastsWrite)),
        )
}

/// What a broadcast would send and cost.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BroadcastPreview)]
pub(crate) struct PreviewAnswer {
    /// Recipients, each once, those that have opted out included.
    #[schema(example = 1200)]
    recipients: usize,
    /// Those that have opted out.
    #[schema(example = 12)]
    suppressed: usize,
    /// Contacts of the segment without a phone, which are left out.
    #[schema(example = 3)]
    without_phone: usize,
    /// Recipients whose variables are missing or do not fit. With one of them no broadcast is made.
    #[schema(example = 0)]
    missing_variables: usize,
    /// Credits for those that have not opted out.
    #[schema(example = 2376)]
    cost: u64,
    /// The balance.
    #[schema(example = 10_000)]
    credits_left: u64,
    /// Seconds that it takes at the pace of its numbers; null where one of them has no limit.
    #[schema(example = 60)]
    seconds_at_pace: Option<u64>,
    /// The messages of the first recipients, at most five.
    samples: Vec<SampleAnswer>,
}

/// The message of a recipient.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = BroadcastSample)]
pub(crate) struct SampleAnswer {
    /// Who gets it.
    #[schema(example = "+15550123456")]
    to: String,
    /// The contact's name; null without a contact, and for a caller without `contacts:read`.
    #[schema(example = "Ada")]
    name: Option<Box<str>>,
    /// What their phone shows, without media.
    #[schema(example = "Hello Ada, our spring sale begins.")]
    text: Box<str>,
}

#[utoipa::path(
    post,
    path = "/v1/messaging/broadcasts/preview",
    operation_id = "previewBroadcast",
    tag = "Messaging",
    summary = "See what a broadcast would send and cost",
    description = "Takes what `POST /v1/messaging/broadcasts` takes, refuses what it refuses, but \
                   for the balance, and makes nothing.",
    request_body = NewBroadcastBody,
    responses((status = 200, description = "What it would be", body = PreviewAnswer))
)]
async fn preview(call: Call<Principal>) -> Answer {
    let permit = Arc::clone(&call.edge.parsers).acquire_owned().await;
    let permit = permit.map_err(|_| ApiError::internal())?;
    // As in `create`: long bodies are parsed beside the async workers, a few at a time.
    let read = tokio::task::spawn_blocking(move || {
        let (new, segment) = new_broadcast(call.json()?)?;
        Ok::<_, ApiError>((call.caller, new, segment, permit))
    });
    let (caller, mut new, segment, permit) = read.await.map_err(|_| ApiError::internal())??;
    let mut without_phone = 0;
    if let Some(segment) = segment {
        let found = segment_audience(&caller, segment).await?;
        (new.audience, without_phone) = (found.audience, found.without_phone);
    }
    let found = caller.workspace().preview_broadcast(new).await?;
    drop(permit);
    let BroadcastPreview { recipients, suppressed, missing_variables, .. } = found;
    let reads_names = caller.check(Permission::ContactsRead).is_ok();
    let sample = |BroadcastSample { to, name, text }| SampleAnswer {
        to: to.to_string(),
        name: name.filter(|_| reads_names),
        text,
    };
    Ok(Reply::ok(&PreviewAnswer {
        recipients,
        suppressed,
        without_phone,
        missing_variables,
        cost: found.cost,
        credits_left: found.credits_left,
        seconds_at_pace: found.at_pace.map(|time| time.as_secs()),
        samples: found.samples.into_iter().map(sample).collect(),
    }))
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
    #[schema(value_type = Option<Vec<super::create::SourceSchema>>, max_items = 100)]
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
struct TestRecipient<'a> {
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
        let to: TestRecipient<'_> = call.json()?;
        let to: Phone = to.to.parse().map_err(|error| ApiError::field("to", error))?;
        let key = call.idempotency_key(Route::SendMessage)?;
        Ok::<_, ApiError>((call.caller, new, segment, to, key, permit))
    });
    let (caller, new, segment, to, key, permit) =
        read.await.map_err(|_| ApiError::internal())??;
    let variables = match segment {
        Some(segment) => contact_variables(&caller, segment, to).await?,
        None => recipient_variables(&new, to),
    };
    let components = with_variables(&new.components, &variables);
    let (name, language) = (new.template, new.language);
    let from = new.from.into_iter().next();
    let content = MessageContent::Template(TemplateMessage { name, language, components });
    let (to, notes) = (PartyId::from(to), test_notes(new.notes));
    let message = SendMessage { to, content, answers: None, notes, from };
    let Replayable { answer, replayed } = caller.workspace().send_message(message, key).await?;
    drop(permit);
    Ok(sent_reply(answer).replayed(replayed))
}

/// Marks the notes of a broadcast as those of a test.
fn test_notes(notes: SenderNotes) -> SenderNotes {
    let reference = match notes.reference {
        // A reference may have 128 characters.
        Some(own) => format!("{TEST_MARK} {own}").chars().take(128).collect(),
        None => TEST_MARK.to_owned(),
    };
    SenderNotes { reference: Some(reference), ..notes }
}

/// Returns the variables of this phone, or else of the first recipient.
fn recipient_variables(new: &NewBroadcast, to: Phone) -> Variables {
    let Some(all) = &new.audience.variables else { return Variables::default() };
    let own = new.audience.phones.iter().position(|phone| Phone::from_digits(*phone) == Ok(to));
    all.get(own.unwrap_or(0)).cloned().unwrap_or_default()
}

/// Returns the values of the contact with this phone, or else of the segment's newest contact.
async fn contact_variables(
    caller: &Principal,
    (segment, sources): SegmentSource,
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
