//! Serves the route that creates broadcasts, and checks their bodies.
//!
//! A body also names the numbers that a broadcast is sent from, and the sources of the variables
//! for a segment's contacts.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use postrider_actors::domain::template::Misfit;
use postrider_actors::domain::{Phone, SegmentId, Timestamp};
use postrider_actors::{
    Audience, BroadcastMade, BroadcastPolicy, CreateBroadcastError, IdempotentError, NewBroadcast,
    Permission, Route, SegmentAudience, VariableSource,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::openapi::schema::{Array, ArrayBuilder, OneOf, Schema};
use utoipa::openapi::{ObjectBuilder, RefOr, Type};
use utoipa::{PartialSchema, ToSchema};

use super::recipients::Recipients;
use crate::http::message_body::sender_notes;
use crate::http::pipeline::{
    Answer, ApiError, BodyKind, BodySize, Call, Key, Principal, Reply, Routes, route,
};
use crate::http::segments::NO_SUCH_SEGMENT;

/// The maximum length of a broadcast's name, in characters.
const NAME_CHARS_MAX: usize = 200;
/// The maximum size of a body's `components`, in bytes.
const COMPONENTS_BYTES_MAX: usize = 65_536;
/// The maximum number of numbers that a body may name.
const NUMBERS_MAX: usize = 64;
/// The maximum number of placeholders that are filled. No template has more.
const SOURCES_MAX: usize = 100;
/// The maximum lengths of a text for all contacts and of a custom field's name, in characters.
const TEXT_CHARS_MAX: usize = 1024;
const FIELD_CHARS_MAX: usize = 200;
const FIELD: &str = "custom_fields.";

pub(crate) fn routes() -> Routes {
    Routes::default().routes(
        route!(create)
            .takes(BodyKind::Json(BodySize::Broadcast))
            .guarded(Key::of(Permission::BroadcastsWrite)),
    )
}

/// A broadcast to be made.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct NewBroadcastBody<'a> {
    /// Its name, for people.
    #[serde(borrow)]
    #[schema(example = "Spring sale", min_length = 1, max_length = 200)]
    name: Cow<'a, str>,
    /// The template's name.
    #[serde(borrow)]
    #[schema(example = "spring_sale")]
    template_name: Cow<'a, str>,
    /// The template's language; `en` by default.
    #[serde(borrow)]
    #[schema(example = "en", default = "en")]
    language: Option<Cow<'a, str>>,
    /// Phones in E.164, or objects `{"to": "+15550123456", "variables": ["Ada"]}` with the body's
    /// parameters of that recipient. Doubled ones count once.
    #[schema(value_type = Option<Vec<super::recipients::RecipientSchema>>, min_items = 1,
        example = json!(["+15550123456", "+15550123457"]))]
    recipients: Option<Recipients>,
    /// A segment instead of `recipients`: its contacts that have a phone, as they are now. The key
    /// also needs the scope `contacts:read`.
    #[serde(borrow)]
    segment_id: Option<Cow<'a, str>>,
    /// With a segment: what fills the places of the template's body for each contact, in their
    /// order: `name`, `custom_fields.` and a field's name, or `{"text": "the same for all"}`.
    #[schema(value_type = Option<Vec<SourceSchema>>, max_items = 100)]
    variables_from: Option<Vec<serde_json::Value>>,
    /// When it begins, RFC 3339; left out: at once.
    #[serde(borrow)]
    #[schema(format = DateTime, example = "2030-01-31T09:30:00Z")]
    schedule_at: Option<Cow<'a, str>>,
    /// Parameters of all messages, as the channel's `components` of a template message.
    #[serde(borrow)]
    #[schema(value_type = Option<Vec<Object>>)]
    components: Option<&'a RawValue>,
    /// What becomes of messages whose outcome a crash has swallowed: `at_most_once` (they stay
    /// `unknown`) or `at_least_once` (they are sent again).
    #[serde(borrow)]
    #[schema(example = "at_most_once", default = "at_most_once")]
    policy: Option<Cow<'a, str>>,
    /// What the caller calls the broadcast: 1 to 128 printable characters. Shown in rows and
    /// events, those of its messages too.
    #[serde(borrow)]
    #[schema(example = "spring-2026", min_length = 1, max_length = 128)]
    reference: Option<Cow<'a, str>>,
    /// At most 16 strings that are kept with the broadcast, with keys of at most 40 characters and
    /// values of at most 256.
    #[schema(example = json!({"shop": "north"}))]
    metadata: Option<BTreeMap<String, String>>,
    /// The number that it is sent from, by its id or its phone, or a list of them; left out: all
    /// numbers of the pool.
    #[schema(example = "num_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    from: Option<SentFrom>,
}

/// One number, or several, by their ids or phones.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected a string or a list of strings")]
pub(crate) enum SentFrom {
    One(String),
    Several(Vec<String>),
}

impl SentFrom {
    pub(super) fn numbers(self) -> Result<Vec<Box<str>>, ApiError> {
        match self {
            Self::One(number) => Ok(vec![number.into()]),
            Self::Several(all) if (1..=NUMBERS_MAX).contains(&all.len()) => {
                Ok(all.into_iter().map(Box::from).collect())
            }
            Self::Several(_) => Err(ApiError::field("from", "must name 1 to 64 numbers")),
        }
    }
}

impl PartialSchema for SentFrom {
    fn schema() -> RefOr<Schema> {
        let number = || ObjectBuilder::new().schema_type(Type::String).build();
        let several: Array = ArrayBuilder::new()
            .items(number())
            .min_items(Some(1))
            .max_items(Some(NUMBERS_MAX))
            .build();
        let mut from = OneOf::new();
        from.items = vec![number().into(), several.into()];
        RefOr::T(Schema::OneOf(from))
    }
}

impl ToSchema for SentFrom {
    fn name() -> Cow<'static, str> {
        "SentFrom".into()
    }
}

/// The schema of a source: a word, or an object.
pub(super) struct SourceSchema;

impl PartialSchema for SourceSchema {
    fn schema() -> RefOr<Schema> {
        let word = ObjectBuilder::new().schema_type(Type::String);
        let word = word.pattern(Some(r"^(name|custom_fields\..{1,200})$")).build();
        let text = ObjectBuilder::new().schema_type(Type::String);
        let text = text.min_length(Some(1)).max_length(Some(TEXT_CHARS_MAX)).build();
        let object = ObjectBuilder::new().property("text", text).required("text");
        let mut source = OneOf::new();
        source.items = vec![word.into(), object.build().into()];
        RefOr::T(Schema::OneOf(source))
    }
}

impl ToSchema for SourceSchema {
    fn name() -> Cow<'static, str> {
        "VariableSource".into()
    }
}

/// Checks the sources of a body.
pub(super) fn sources(given: &[Value]) -> Result<Vec<VariableSource>, ApiError> {
    if given.len() > SOURCES_MAX {
        let rule = format_args!("must have at most {SOURCES_MAX} entries");
        return Err(ApiError::field("variables_from", rule));
    }
    let read = |(at, value): (usize, &Value)| {
        variable_source(value).ok_or_else(|| {
            let rule = "must be `name`, `custom_fields.` and a field's name, or an object with a \
                        `text` of 1 to 1024 characters";
            ApiError::field(&format!("variables_from[{at}]"), rule)
        })
    };
    given.iter().enumerate().map(read).collect()
}

fn variable_source(value: &Value) -> Option<VariableSource> {
    match value {
        Value::String(word) if word == "name" => Some(VariableSource::Name),
        Value::String(word) => {
            let field = word.strip_prefix(FIELD)?;
            let fits = (1..=FIELD_CHARS_MAX).contains(&field.chars().count());
            fits.then(|| VariableSource::CustomField(field.into()))
        }
        Value::Object(fields) => {
            let text = fields.get("text").filter(|_| fields.len() == 1)?.as_str()?;
            let fits = (1..=TEXT_CHARS_MAX).contains(&text.chars().count());
            fits.then(|| VariableSource::Text(text.into()))
        }
        _ => None,
    }
}

/// A broadcast was made.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BroadcastMadeAnswer {
    /// Names it in every later call.
    #[schema(example = "brd_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    broadcast_id: String,
    /// `queued` or `scheduled`.
    #[schema(example = "queued")]
    status: &'static str,
    /// Recipients, each counted once, those that have opted out included.
    #[schema(example = 2)]
    total_recipients: u32,
}

impl From<BroadcastMade> for BroadcastMadeAnswer {
    fn from(made: BroadcastMade) -> Self {
        Self {
            broadcast_id: made.broadcast_id.to_string(),
            status: made.status.as_str(),
            total_recipients: made.total_recipients,
        }
    }
}

#[utoipa::path(
    post,
    path = "/v1/messaging/broadcasts",
    operation_id = "createBroadcast",
    tag = "Messaging",
    summary = "Send a template to many recipients",
    description = "At once, or at `schedule_at`. Recipients that have opted out are left out and \
                   counted. One credit for each of the others is taken now; what surely is not sent \
                   is given back when the broadcast is over, not on its way. Its messages open no \
                   conversation and are shown in none; who answers opens one. Answered once all of \
                   it is durable. Honours `Idempotency-Key`.",
    request_body = NewBroadcastBody,
    responses((status = 200, description = "Durable", body = BroadcastMadeAnswer))
)]
async fn create(call: Call<Principal>) -> Answer {
    // Parsing may need a multiple of the body's memory, so few bodies are parsed at a time.
    let permit = Arc::clone(&call.edge.parsers).acquire_owned().await;
    let permit = permit.map_err(|_| ApiError::internal())?;
    // Parsing a million recipients would block the async worker for too long.
    let read = tokio::task::spawn_blocking(move || {
        let (new, segment) = new_broadcast(call.json()?)?;
        let key = call.idempotency_key(Route::CreateBroadcast)?;
        // The body is dropped here. The parsed audience is about half as large.
        Ok::<_, ApiError>((call.caller, new, segment, key, permit))
    });
    let (caller, mut new, segment, key, permit) =
        read.await.map_err(|_| ApiError::internal())??;
    let workspace = caller.workspace();
    let before = key.as_ref().map(|key| workspace.broadcast_made_before(key)).transpose()?;
    if let Some(made) = before.flatten() {
        return Ok(Reply::ok(&BroadcastMadeAnswer::from(made)).replayed(true));
    }
    let is_segment = segment.is_some();
    if let Some(segment) = segment {
        new.audience = complete_audience(segment_audience(&caller, segment).await?)?;
    }
    let made = workspace.create_broadcast(new, key).await.map_err(|error| match error {
        IdempotentError::Refused(CreateBroadcastError::Variables { misfits, more })
            if is_segment =>
        {
            misfits_of_contacts(&misfits, more)
        }
        error => error.into(),
    })?;
    drop(permit);
    Ok(Reply::ok(&BroadcastMadeAnswer::from(made.answer)).replayed(made.replayed))
}

/// A segment, and the sources of the values for the template's placeholders.
pub(super) type SegmentSource = (SegmentId, Vec<VariableSource>);

/// Returns the audience of a segment: its contacts that have a phone.
pub(super) async fn segment_audience(
    caller: &Principal,
    (segment, sources): SegmentSource,
) -> Result<SegmentAudience, ApiError> {
    caller.check(Permission::ContactsRead)?;
    let found = caller.workspace().segment_audience(segment, &sources).await?;
    if found.audience.is_empty() {
        return Err(ApiError::field("segment_id", "must name a segment with phones in it"));
    }
    Ok(found)
}

/// Refuses an audience in which some contacts lack a value for a placeholder.
fn complete_audience(found: SegmentAudience) -> Result<Audience, ApiError> {
    let Some(first) = found.named.first() else { return Ok(found.audience) };
    let lacking = found.without_value;
    let rule = format_args!("has no value for {lacking} of the contacts, such as that of {first}");
    Err(ApiError::field("variables_from", rule))
}

/// Refuses the values of a segment's contacts. It names the contacts by phone, as the caller does.
fn misfits_of_contacts(misfits: &[(usize, Phone, Misfit)], more: usize) -> ApiError {
    let said = misfits.iter().map(|(_, phone, misfit)| {
        // The path of a placeholder's value ends with the placeholder.
        let place = misfit.path.strip_suffix(']').and_then(|path| path.rsplit_once('['));
        let place = place.map(|(_, place)| format!("[{place}]")).unwrap_or_default();
        format!("`variables_from{place}` of the contact with {phone} {}", misfit.rule)
    });
    let mut message = said.collect::<Vec<_>>().join("; ");
    if more > 0 {
        message.push_str(&format!("; and {more} more"));
    }
    ApiError::invalid(message)
}

/// Parses the parameters that all messages share. Checks their size first.
fn components(text: &RawValue) -> Result<Vec<serde_json::Value>, ApiError> {
    if text.get().len() > COMPONENTS_BYTES_MAX {
        let rule = format_args!("must have at most {COMPONENTS_BYTES_MAX} bytes");
        return Err(ApiError::field("components", rule));
    }
    let components: Option<_> = serde_json::from_str(text.get())
        .map_err(|_| ApiError::field("components", "must be a list"))?;
    Ok(components.unwrap_or_default())
}

/// Checks a broadcast's name.
pub(super) fn check_name(name: &str) -> Result<(), ApiError> {
    let fits = (1..=NAME_CHARS_MAX).contains(&name.chars().count());
    if !fits || name.chars().any(char::is_control) {
        let rule = format_args!("must have 1 to {NAME_CHARS_MAX} characters, none of them control");
        return Err(ApiError::field("name", rule));
    }
    Ok(())
}

/// Checks a body. When the audience is a segment, it is still empty and the segment is returned.
pub(super) fn new_broadcast(
    body: NewBroadcastBody<'_>,
) -> Result<(NewBroadcast, Option<SegmentSource>), ApiError> {
    check_name(&body.name)?;
    if body.template_name.is_empty() {
        return Err(ApiError::field("template_name", "must not be empty"));
    }
    let schedule_at = match body.schedule_at.as_deref() {
        None => None,
        Some(text) => {
            let at: Timestamp =
                text.parse().map_err(|error| ApiError::field("schedule_at", error))?;
            Some(at)
        }
    };
    let policy = match body.policy.as_deref() {
        None | Some("at_most_once") => BroadcastPolicy::AtMostOnce,
        Some("at_least_once") => BroadcastPolicy::AtLeastOnce,
        Some(_) => {
            return Err(ApiError::field("policy", "must be at_most_once or at_least_once"));
        }
    };
    let sources = body.variables_from.as_deref().map(sources).transpose()?;
    let (audience, segment) = match (body.recipients, body.segment_id.as_deref()) {
        (Some(_), None) if sources.is_some() => {
            return Err(ApiError::field("variables_from", "must be given with `segment_id` only"));
        }
        (Some(recipients), None) => (recipients.audience()?, None),
        (None, Some(id)) => {
            let id = id.parse().map_err(|_| ApiError::not_found(NO_SUCH_SEGMENT))?;
            (Audience::new(), Some((id, sources.unwrap_or_default())))
        }
        (None, None) => return Err(ApiError::field("recipients", "must be given")),
        (Some(_), Some(_)) => {
            return Err(ApiError::field("segment_id", "must not be given beside `recipients`"));
        }
    };
    let new = NewBroadcast {
        name: body.name.into(),
        template: body.template_name.into(),
        language: body.language.unwrap_or(Cow::Borrowed("en")).into(),
        components: body.components.map(components).transpose()?.unwrap_or_default(),
        audience,
        schedule_at,
        policy,
        notes: sender_notes(body.reference, body.metadata)?,
        from: body.from.map(SentFrom::numbers).transpose()?.unwrap_or_default(),
    };
    Ok((new, segment))
}
