//! Simulates messages from customers to a workspace of the sandbox.

use std::borrow::Cow;

use postrider_actors::channel::callback::{
    Callback, IdentityChange, Inbound, InboundMedia, Referral,
};
use postrider_actors::channel::cloud_api::{MessageObject, identity_change, read_object};
use postrider_actors::domain::text::MessageText;
use postrider_actors::domain::{MediaId, Phone, Timestamp, UserId, printable};
use postrider_actors::store::blobs::BlobHash;
use postrider_actors::{MediaState, MessageKind, Permission, Workspace, WrittenByCustomer, random};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::http::message_body::check_filename;
use crate::http::pipeline::{
    Answer, ApiError, Call, Code, Key, Principal, Reply, Routes, object, route,
};

/// The maximum length of a customer's name, in characters.
const NAME_CHARS_MAX: usize = 100;
/// The maximum length of a referral's field, in characters.
const REFERRAL_CHARS_MAX: usize = 200;
/// The maximum length of a message's type, in characters.
const TYPE_CHARS_MAX: usize = 40;
/// The type of the channel's own notices.
const NOTICE: &str = "system";

pub(super) fn routes() -> Routes {
    Routes::default().routes(route!(receive).guarded(Key::of(Permission::SandboxUse)))
}

/// A customer writes; without `Debug`, as it has the text.
#[derive(Deserialize, ToSchema)]
pub(crate) struct InboundBody<'a> {
    /// Who writes, in E.164. Left out of somebody who hides their number; `user_id` is there then.
    #[serde(borrow)]
    #[schema(example = "+15550123456", pattern = r"^\+[1-9][0-9]{6,14}$")]
    from: Option<Cow<'a, str>>,
    /// The channel's id of who writes, beside or instead of `from`.
    #[serde(borrow)]
    #[schema(
        example = "US.13491208655302741918",
        pattern = r"^[A-Z]{2}\.(ENT\.)?[A-Za-z0-9]{1,128}$"
    )]
    user_id: Option<Cow<'a, str>>,
    /// What they write. May be left out where `type` is another than `text`; with a file it is the
    /// caption.
    #[serde(borrow)]
    #[schema(example = "Hello", min_length = 1, max_length = 4096)]
    text: Option<Cow<'a, str>>,
    /// The channel's word for the type of the message.
    #[serde(borrow)]
    #[schema(example = "text", default = "text", pattern = "^[a-z_]{1,40}$")]
    r#type: Option<Cow<'a, str>>,
    /// The file that they send, where `type` is `image`, `video`, `document`, `audio` or `sticker`:
    /// a file of the workspace as `media_id`, whose content theirs gets, and perhaps a `filename`.
    /// Of any other type but `text`, the object of that name in the channel's own form; of
    /// `contacts`, one with the list as `contacts`. A reaction names one of the conversation's
    /// messages by its `msg_…`. A `system` notice, which nobody writes, says that they have another
    /// number (`wa_id`) or another `user_id` now: its own `type` is `user_changed_number` or
    /// `user_changed_user_id`.
    #[serde(borrow)]
    #[schema(value_type = Option<Object>, example = json!({"latitude": 48.85, "longitude": 2.35}))]
    content: Option<&'a RawValue>,
    /// The message of the conversation that they answer, and whether theirs is forwarded.
    #[serde(borrow, default, deserialize_with = "object::optional")]
    context: Option<ContextBody<'a>>,
    /// The name in their profile.
    #[serde(borrow)]
    #[schema(example = "Ada", min_length = 1, max_length = 100)]
    name: Option<Cow<'a, str>>,
    /// The advertisement that led them to write.
    #[serde(borrow, default, deserialize_with = "object::optional")]
    referral: Option<ReferralBody<'a>>,
}

impl InboundBody<'_> {
    fn author(&self) -> Result<(Option<Phone>, Option<UserId>), ApiError> {
        if self.from.is_none() && self.user_id.is_none() {
            return Err(ApiError::field("from", "must be given, or `user_id`"));
        }
        let from = self.from.as_deref().map(str::parse).transpose();
        let user_id = self.user_id.as_deref().map(str::parse).transpose();
        Ok((
            from.map_err(|error| ApiError::field("from", error))?,
            user_id.map_err(|error| ApiError::field("user_id", error))?,
        ))
    }

    fn text(&self) -> Result<(Box<str>, Box<str>), ApiError> {
        let kind = self.r#type.as_deref().unwrap_or("text");
        let is_word = |it: u8| it.is_ascii_lowercase() || it == b'_';
        if !(1..=TYPE_CHARS_MAX).contains(&kind.len()) || !kind.bytes().all(is_word) {
            let rule = format_args!("must be 1 to {TYPE_CHARS_MAX} lower-case letters or _");
            return Err(ApiError::field("type", rule));
        }
        let text = match self.text.as_deref() {
            None if kind == "text" => return Err(ApiError::field("text", "must be given")),
            None => "".into(),
            Some(text) => {
                let text: MessageText =
                    text.parse().map_err(|error| ApiError::field("text", error))?;
                (**text.as_str()).into()
            }
        };
        Ok((kind.into(), text))
    }
}

/// A customer's file. The channel serves it like the files of real customers.
#[derive(Deserialize)]
struct ContentBody<'a> {
    /// The id of a file of the workspace, whose content is copied.
    #[serde(borrow)]
    media_id: Cow<'a, str>,
    /// The name of the file.
    #[serde(borrow)]
    filename: Option<Cow<'a, str>>,
}

/// The types of messages that have a file, and the prefixes of their files' types.
const FILES: [(&str, &str); 5] = [
    ("image", "image/"),
    ("video", "video/"),
    ("document", ""),
    ("audio", "audio/"),
    ("sticker", "image/webp"),
];

impl ContentBody<'_> {
    async fn read(&self, kind: &str, workspace: &Workspace) -> Result<InboundMedia, ApiError> {
        let begins = FILES.iter().find(|(of, _)| *of == kind).map_or("", |(_, begins)| begins);
        if let Some(filename) = &self.filename {
            check_filename("content.filename", filename)?;
        }
        let rule = format!("must be the id of a file that can come as {kind}");
        let none = || ApiError::field("content.media_id", &rule);
        let id = self.media_id.parse().map_err(|_| none())?;
        let state = workspace.media(id).await?.filter(MediaState::is_ready).ok_or_else(none)?;
        let sha256 = BlobHash::parse(&state.sha256).map(|hash| hash.0);
        if !state.mime_type.starts_with(begins) {
            return Err(none());
        }
        Ok(InboundMedia {
            id: id.to_string().into(),
            mime_type: state.mime_type.into(),
            sha256,
            filename: self.filename.as_deref().map(Into::into),
        })
    }
}

/// Parses a customer's content besides text: a file, or an object of the type.
async fn sent_content(
    content: &RawValue,
    kind: &str,
    workspace: &Workspace,
) -> Result<(Option<InboundMedia>, MessageObject), ApiError> {
    if FILES.iter().any(|(of, _)| *of == kind) {
        let mut json = serde_json::Deserializer::from_str(content.get());
        let file: ContentBody<'_> = object::required(&mut json)
            .map_err(|_| ApiError::field("content", "must be an object with `media_id`"))?;
        let media = file.read(kind, workspace).await?;
        let mut fields = json!({"mime_type": media.mime_type});
        if let Some(filename) = &media.filename {
            fields["filename"] = json!(filename);
        }
        return Ok((Some(media), read_object(kind, fields)));
    }
    let refuse = |rule: &str| Err(ApiError::field("content", rule));
    let object: Value = serde_json::from_str(content.get()).unwrap_or_default();
    if kind == "text" {
        return refuse("cannot be given where `type` is text");
    }
    if !object.is_object() {
        return refuse("must be an object");
    }
    let object = read_object(kind, object);
    match &object.content {
        Some(content) if content.is_truncated() => refuse("must have at most 16 KiB"),
        _ => Ok((None, object)),
    }
}

/// A message that a customer answers, and where theirs comes from.
#[derive(Deserialize, ToSchema)]
#[schema(as = SandboxContext)]
pub(crate) struct ContextBody<'a> {
    /// A message of the conversation with them.
    #[serde(borrow)]
    #[schema(example = "msg_01jd3v0x5n8m7k2q4r6s8t0w2y", min_length = 1, max_length = 128)]
    message_id: Option<Cow<'a, str>>,
    /// Whether it was written to somebody else before.
    #[schema(example = false, default = false)]
    forwarded: Option<bool>,
}

impl ContextBody<'_> {
    fn read(self) -> Result<(Option<Box<str>>, bool), ApiError> {
        match self.message_id {
            Some(id) if !(1..=128).contains(&id.chars().count()) => {
                Err(ApiError::field("context.message_id", "must have 1 to 128 characters"))
            }
            id => Ok((id.map(Into::into), self.forwarded.unwrap_or_default())),
        }
    }
}

/// An advertisement that leads to a conversation.
#[derive(Deserialize, ToSchema)]
#[schema(as = SandboxReferral)]
pub(crate) struct ReferralBody<'a> {
    /// `ad` or `post`; `ad` by default.
    #[serde(borrow)]
    #[schema(example = "ad", default = "ad")]
    source_type: Option<Cow<'a, str>>,
    /// The channel's id of it.
    #[serde(borrow)]
    #[schema(example = "120208999", min_length = 1, max_length = 200)]
    source_id: Cow<'a, str>,
    /// Its headline.
    #[serde(borrow)]
    #[schema(example = "Spring sale", min_length = 1, max_length = 200)]
    headline: Option<Cow<'a, str>>,
    /// What it says.
    #[serde(borrow)]
    #[schema(example = "A third off", min_length = 1, max_length = 200)]
    body: Option<Cow<'a, str>>,
    /// Its address.
    #[serde(borrow)]
    #[schema(example = "https://ad.example.com/1", min_length = 1, max_length = 200)]
    source_url: Option<Cow<'a, str>>,
    /// The channel's id of the click on it.
    #[serde(borrow)]
    #[schema(example = "ARAkLkA8rmlFeiCktEJQ", min_length = 1, max_length = 200)]
    ctwa_clid: Option<Cow<'a, str>>,
}

impl ReferralBody<'_> {
    fn read(self) -> Result<Referral, ApiError> {
        let source_type = self.source_type.unwrap_or(Cow::Borrowed("ad"));
        if !["ad", "post"].contains(&&*source_type) {
            return Err(ApiError::field("referral.source_type", "must be ad or post"));
        }
        let texts = [
            ("source_id", Some(&self.source_id)),
            ("headline", self.headline.as_ref()),
            ("body", self.body.as_ref()),
            ("source_url", self.source_url.as_ref()),
            ("ctwa_clid", self.ctwa_clid.as_ref()),
        ];
        for (name, text) in texts {
            let chars = text.map(|text| text.chars().count());
            if chars.is_some_and(|chars| !(1..=REFERRAL_CHARS_MAX).contains(&chars)) {
                let rule = format_args!("must have 1 to {REFERRAL_CHARS_MAX} characters");
                return Err(ApiError::field(&format!("referral.{name}"), rule));
            }
        }
        Ok(Referral {
            source_type: source_type.into(),
            source_id: self.source_id.into(),
            headline: self.headline.map(Into::into),
            body: self.body.map(Into::into),
            source_url: self.source_url.map(Into::into),
            ctwa_clid: self.ctwa_clid.map(Into::into),
        })
    }
}

/// What was received.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct InboundAnswer {
    /// What the message is called from now on.
    #[schema(example = "msg_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    message_id: String,
    /// When it was written.
    #[schema(format = DateTime)]
    at: String,
}

#[utoipa::path(
    post,
    path = "/v1/sandbox/inbound",
    operation_id = "receiveSandboxMessage",
    tag = "Sandbox",
    summary = "Have a customer write",
    description = "As if a customer had written to the workspace's number: opens the 24-hour \
                   window in which free text may be sent to them. With `content` they send a file, \
                   which is emitted as `pending` and then fetched, as from a real number.",
    request_body = InboundBody,
    responses((status = 200, description = "Received", body = InboundAnswer))
)]
async fn receive(call: Call<Principal>) -> Answer {
    let workspace = call.caller.workspace();
    let (written, file) = described_event(&call).await?;
    let numbers = call.edge.engine.admin().numbers(workspace.id()).await?;
    let number = numbers.first().ok_or_else(|| {
        let message = "the workspace has no active messaging number";
        ApiError::new(Code::MessagingNotConnected, message)
    })?;
    let inbound = match written {
        SandboxEvent::Message(inbound) => *inbound,
        SandboxEvent::Notice(notice, at) => {
            let message_id = notice.message_id(number.id).to_string();
            let callback = Callback { identity_changes: vec![notice], ..Callback::default() };
            workspace.receive(number.id, callback).await?;
            return Ok(Reply::ok(&InboundAnswer { message_id, at: at.to_string() }));
        }
    };
    let (id, from) = (inbound.message_id(number.id), inbound.from);
    let kind = inbound.kind.parse().map_or("text", MessageKind::as_str);
    let written = WrittenByCustomer { kind, text: inbound.shown().into(), media: file };
    let answer = InboundAnswer { message_id: id.to_string(), at: inbound.at.to_string() };
    let callback = Callback { inbound: vec![inbound], ..Callback::default() };
    workspace.receive(number.id, callback).await?;
    if let Some(from) = from {
        call.edge.engine.sandbox().note_written(workspace.id(), id, from, written);
    }
    Ok(Reply::ok(&answer))
}

/// The event that the body describes.
enum SandboxEvent {
    Message(Box<Inbound>),
    /// A notice of the channel itself, with its time.
    Notice(IdentityChange, Timestamp),
}

/// Returns the event that the body describes, and the file of the workspace that it has.
async fn described_event(
    call: &Call<Principal>,
) -> Result<(SandboxEvent, Option<MediaId>), ApiError> {
    let body: InboundBody<'_> = call.json()?;
    let (from, user_id) = body.author()?;
    let (kind, text) = body.text()?;
    let (at, unique) = (call.edge.engine.clock().now(), random::unique());
    let provider_id: Box<str> = format!("sandbox.{unique:020x}").into();
    if &*kind == NOTICE {
        let notice = notice(body.content, (from, user_id), (&provider_id, at))?;
        return Ok((SandboxEvent::Notice(notice, at), None));
    }
    let name = body.name.as_deref();
    let fits = |name: &str| {
        (1..=NAME_CHARS_MAX).contains(&name.chars().count()) && !printable::has_control(name)
    };
    if name.is_some_and(|name| !fits(name)) {
        let rule = format_args!("must have 1 to {NAME_CHARS_MAX} characters, none of them control");
        return Err(ApiError::field("name", rule));
    }
    let name = name.map(|name| printable::without_turns(name).into());
    let referral = body.referral.map(ReferralBody::read).transpose()?;
    let (media, object) = match body.content {
        Some(content) => sent_content(content, &kind, call.caller.workspace()).await?,
        None => (None, MessageObject::default()),
    };
    let (answers, forwarded) = body.context.map(ContextBody::read).transpose()?.unwrap_or_default();
    let file = media.as_ref().and_then(|media| media.id.parse().ok());
    let inbound = Inbound {
        provider_id,
        from,
        user_id,
        username: None,
        name,
        kind,
        text: if text.is_empty() { object.text } else { text },
        line: object.line,
        at,
        referral,
        media,
        content: object.content,
        about: object.about.or(answers),
        forwarded,
    };
    Ok((SandboxEvent::Message(Box::new(inbound)), file))
}

/// Parses the notice that a person has other names now, in the channel's own form.
fn notice(
    content: Option<&RawValue>,
    (from, user_id): (Option<Phone>, Option<UserId>),
    (provider_id, at): (&str, Timestamp),
) -> Result<IdentityChange, ApiError> {
    let content: Value =
        content.and_then(|content| serde_json::from_str(content.get()).ok()).unwrap_or_default();
    let message = json!({
        "id": provider_id,
        "from": from.map(|from| from.as_u64().to_string()),
        "from_user_id": user_id.map(|id| id.to_string()),
        "timestamp": at.as_secs(),
        NOTICE: content,
    });
    identity_change(&message).ok_or_else(|| {
        let rule = "must have a `type` of user_changed_number or user_changed_user_id, and the \
                    new `wa_id` or `user_id`";
        ApiError::field("content", rule)
    })
}
