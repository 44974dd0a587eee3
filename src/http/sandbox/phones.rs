//! Serves the messages on the sandbox's phones, and reports on them.

use std::borrow::Cow;

use axum::http::StatusCode;
use postrider_actors::channel::Failure;
use postrider_actors::channel::callback::{Callback, Progress};
use postrider_actors::domain::{MessageId, Phone};
use postrider_actors::{MediaState, Permission, SandboxStatus, ThreadMessage};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::ERROR_CODE_DEFAULT;
use crate::http::events::{after_cursor, encode_cursor};
use crate::http::pipeline::{
    Answer, ApiError, Call, Integer, Key, LIMIT_DEFAULT, LIMIT_MAX, Principal, Reply, Routes, route,
};

/// The maximum number of phones in one answer.
const PHONES_MAX: usize = 200;

pub(super) fn routes() -> Routes {
    let guard = Key::of(Permission::SandboxUse);
    Routes::default()
        .routes(route!(report).guarded(guard))
        .routes(route!(phones).guarded(guard))
        .routes(route!(thread).guarded(guard))
}

/// A report on a message, as the channel would call it back.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct ReportBody<'a> {
    /// The message, which the sandbox has "delivered".
    #[serde(borrow)]
    #[schema(example = "msg_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    message_id: Cow<'a, str>,
    /// `delivered`, `read` or `failed`.
    #[serde(borrow)]
    #[schema(example = "delivered")]
    status: Cow<'a, str>,
    /// The channel's error, with `failed` only; 131026 by default.
    #[schema(value_type = Option<i64>, minimum = 0, maximum = 4_294_967_295_i64)]
    error_code: Option<Integer>,
}

#[utoipa::path(
    post,
    path = "/v1/sandbox/reports",
    operation_id = "reportSandboxMessage",
    tag = "Sandbox",
    summary = "Report on a message",
    description = "As the channel reports what became of a message that it took. Answered once what \
                   follows is durable.",
    request_body = ReportBody,
    responses((status = 202, description = "Reported"))
)]
async fn report(call: Call<Principal>) -> Answer {
    let (id, status, progress) = {
        let body: ReportBody<'_> = call.json()?;
        let id: MessageId =
            body.message_id.parse().map_err(|error| ApiError::field("message_id", error))?;
        let (status, progress) = progress(&body)?;
        (id, status, progress)
    };
    let (sandbox, workspace) = (call.edge.engine.sandbox(), call.caller.workspace());
    let through = sandbox.sent_through(workspace.id(), id);
    let through = through.ok_or_else(|| ApiError::not_found("no such message in the sandbox"))?;
    let update = through.report(progress, call.edge.engine.clock().now());
    let callback = Callback { statuses: vec![update], ..Callback::default() };
    workspace.receive(through.number, callback).await?;
    sandbox.note_reported(workspace.id(), [id], status);
    Ok(Reply::empty(StatusCode::ACCEPTED))
}

fn progress(body: &ReportBody<'_>) -> Result<(SandboxStatus, Progress), ApiError> {
    if body.error_code.is_some() && body.status != "failed" {
        return Err(ApiError::field("error_code", "must be given with the status `failed` only"));
    }
    match &*body.status {
        "delivered" => Ok((SandboxStatus::Delivered, Progress::Delivered)),
        "read" => Ok((SandboxStatus::Read, Progress::Read)),
        "failed" => {
            let code = body.error_code.unwrap_or(Integer(ERROR_CODE_DEFAULT.into()));
            let code = code.within("error_code", 0, u32::MAX)?;
            Ok((SandboxStatus::Failed, Progress::Failed(Failure::permanent(Some(code)))))
        }
        _ => Err(ApiError::field("status", "must be one of delivered, read, failed")),
    }
}

/// A phone of the sandbox; without `Debug`, as the text may have a code.
#[derive(Serialize, ToSchema)]
pub(crate) struct PhoneRow {
    /// The phone.
    #[schema(example = "+15550123456")]
    phone: String,
    /// Its newest message.
    last_text: String,
    /// When that was.
    #[schema(format = DateTime)]
    last_at: String,
    /// How many it has.
    #[schema(example = 1)]
    messages: usize,
}

/// The phones of the sandbox.
#[derive(Serialize, ToSchema)]
pub(crate) struct PhonesAnswer {
    /// That of the newest message first.
    data: Vec<PhoneRow>,
}

#[utoipa::path(
    get,
    path = "/v1/sandbox/phones",
    operation_id = "listSandboxPhones",
    tag = "Sandbox",
    summary = "List the phones that have messages",
    description = "Those of the newest messages, 200 at most. In memory: lost on a restart.",
    responses((status = 200, description = "Phones", body = PhonesAnswer))
)]
async fn phones(call: Call<Principal>) -> Answer {
    let phones = call.edge.engine.sandbox().phones(call.caller.workspace().id(), PHONES_MAX);
    let row = |phone: postrider_actors::SandboxPhone| PhoneRow {
        phone: phone.phone.to_string(),
        last_text: phone.last.text,
        last_at: phone.last.at.to_string(),
        messages: phone.messages,
    };
    Ok(Reply::ok(&PhonesAnswer { data: phones.into_iter().map(row).collect() }))
}

/// A message of a phone; without `Debug`, as it may have a code.
#[derive(Serialize, ToSchema)]
pub(crate) struct ThreadRow {
    /// The message.
    #[schema(example = "msg_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    message_id: String,
    /// `out`: to the phone; `in`: from it.
    #[schema(example = "out")]
    direction: &'static str,
    /// `otp`, `template`, `text`, `image`, `video`, `document`, `audio`, `sticker`, `location`,
    /// `contacts`, `reaction` or `interactive`.
    #[schema(example = "otp")]
    kind: &'static str,
    /// What is read.
    text: String,
    /// The code, of an `otp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "123456")]
    code: Option<String>,
    /// `sent`, `delivered`, `read` or `failed`, as it was reported; `held` of one that is held
    /// back; `received` of one from it.
    #[schema(example = "sent")]
    status: &'static str,
    /// When.
    #[schema(format = DateTime)]
    at: String,
    /// The file that it has, while that is kept; null of one without.
    media: Option<ThreadFile>,
}

/// A file that a phone shows.
#[derive(Serialize, ToSchema)]
#[schema(as = SandboxFile)]
pub(crate) struct ThreadFile {
    /// A file of the workspace, with its content.
    #[schema(example = "med_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    media_id: String,
    /// Its type.
    #[schema(example = "image/jpeg")]
    mime_type: String,
    /// Its name; null if it has none.
    #[schema(example = "plan.png")]
    filename: Option<String>,
    /// Its length in bytes.
    #[schema(example = 48_120)]
    size: u64,
}

impl From<MediaState> for ThreadFile {
    fn from(state: MediaState) -> Self {
        let MediaState { media_id, mime_type, filename, size, .. } = state;
        Self { media_id: media_id.to_string(), mime_type, filename, size }
    }
}

impl ThreadRow {
    fn of(ThreadMessage { message, status, .. }: ThreadMessage, file: Option<MediaState>) -> Self {
        Self {
            message_id: message.message_id.to_string(),
            direction: if status == SandboxStatus::Received { "in" } else { "out" },
            kind: message.kind,
            text: message.text,
            code: message.code,
            status: status.as_str(),
            at: message.at.to_string(),
            media: file.map(ThreadFile::from),
        }
    }
}

/// A part of a phone's messages.
#[derive(Serialize, ToSchema)]
pub(crate) struct ThreadAnswer {
    /// Newest first.
    data: Vec<ThreadRow>,
    /// Give it as `cursor` to go on with older ones; `null` when there are none.
    #[schema(example = "AQAAAAAAAAAB")]
    next_cursor: Option<String>,
}

#[utoipa::path(
    get,
    path = "/v1/sandbox/phones/{phone}/thread",
    operation_id = "readSandboxThread",
    tag = "Sandbox",
    summary = "Read a phone's messages, to it and from it",
    params(
        ("phone" = String, Path, description = "The phone, in E.164"),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the part before"),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 200, description = "Most messages, \
         50 by default"),
    ),
    responses((status = 200, description = "Messages", body = ThreadAnswer))
)]
async fn thread(mut call: Call<Principal>) -> Answer {
    let phone: Phone = call.path("phone", "no such phone").await?;
    let query = call.query()?;
    let limit = query.integer("limit", LIMIT_DEFAULT, 1, LIMIT_MAX)?;
    let before = after_cursor(&query)?;
    let (sandbox, workspace) = (call.edge.engine.sandbox(), call.caller.workspace());
    let mut messages = sandbox.thread(workspace.id(), phone, before, limit + 1);
    let has_more = messages.len() > limit;
    messages.truncate(limit);
    let last = messages.last().filter(|_| has_more).map(|message| encode_cursor(message.place));
    let mut data = Vec::with_capacity(messages.len());
    for message in messages {
        let file = match message.message.media {
            Some(id) => workspace.media(id).await?.filter(MediaState::is_ready),
            None => None,
        };
        data.push(ThreadRow::of(message, file));
    }
    Ok(Reply::ok(&ThreadAnswer { data, next_cursor: last }))
}
