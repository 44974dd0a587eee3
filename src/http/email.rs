//! Receives incoming mail from mail services, which sign it instead of having a key.

use axum::http::HeaderName;
use axum::http::request::Parts;
use postrider_actors::channel::email::inbound::{
    InboundMail, REFERENCES_MAX, SUBJECT_CHARS_MAX, TEXT_CHARS_MAX, mailbox, text_of_html,
};
use postrider_actors::domain::{Timestamp, WorkspaceId};
use postrider_actors::{ReceiveMailError, Workspace};
use serde::Deserialize;
use utoipa::ToSchema;

use super::edge::Edge;
use super::pipeline::{
    Admitted, Answer, ApiError, BodyKind, Call, Guard, Identity, Reply, Routes, count_failure,
    json, route,
};

/// The maximum size of a mail, in bytes. Mails are posted without their attachments.
const MAIL_BYTES_MAX: usize = 3 << 20;
/// The maximum length of a `Message-ID`, in characters. It is that of a mail's line (RFC 5322,
/// section 2.1.1).
const MESSAGE_ID_CHARS_MAX: usize = 998;
const NO_SUCH_CHANNEL: &str = "there is no such e-mail channel";

const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

pub(crate) fn routes() -> Routes {
    Routes::default()
        .routes(route!(take).takes(BodyKind::Raw { max_bytes: MAIL_BYTES_MAX }).guarded(MailTarget))
}

/// Finds the workspace before a body is read, and only for a request that looks signed.
///
/// The existence of a workspace is no secret, but nobody can find it out just by asking.
#[derive(Debug, Clone, Copy)]
struct MailTarget;

impl MailTarget {
    fn find(edge: &Edge, parts: &Parts) -> Result<Workspace, ApiError> {
        let header = |name| parts.headers.get(name).and_then(|value| value.to_str().ok());
        let is_signed = header(ID).is_some_and(|id| !id.is_empty())
            && header(TIMESTAMP).is_some_and(|at| at.parse::<u64>().is_ok())
            && header(SIGNATURE)
                .is_some_and(|all| all.split(' ').any(|one| one.starts_with("v1,")));
        if !is_signed {
            return Err(ReceiveMailError::BadSignature.into());
        }
        let id = parts.uri.path().rsplit('/').next().unwrap_or_default();
        let workspace = id.parse::<WorkspaceId>().ok().and_then(|id| edge.engine.workspace(&id));
        workspace.ok_or_else(|| ApiError::not_found(NO_SUCH_CHANNEL))
    }
}

impl Guard for MailTarget {
    type Caller = Workspace;

    fn admit(&self, edge: &Edge, parts: &Parts) -> Admitted<Workspace> {
        let caller = Self::find(edge, parts)
            .map_err(|error| count_failure(edge, parts, error).closing_with_body());
        Admitted { identity: Identity::Anonymous, bucket: None, caller }
    }
}

/// A mail that came in; without `Debug`, as it has the text.
#[derive(Deserialize, ToSchema)]
#[schema(as = InboundMail)]
pub(crate) struct MailBody {
    /// Who wrote it: an address, or a name and an address in angle brackets.
    #[schema(example = "Ana Souza <ana@example.com>")]
    from: String,
    /// Where it was sent; kept nowhere.
    #[schema(value_type = Option<String>, example = "help@example.com")]
    #[allow(dead_code, reason = "part of what services post")]
    to: Option<serde::de::IgnoredAny>,
    /// What about; of more than 500 characters the first are kept.
    #[schema(example = "Where is my order?")]
    subject: Option<String>,
    /// What it says, without markup; of more than 10,000 characters the first are kept.
    #[schema(example = "It was to come on Monday.")]
    text: Option<String>,
    /// The same as HTML: its text is kept where there is no `text`.
    html: Option<String>,
    /// Its `Message-ID`. A mail with one that is known changes nothing.
    #[schema(example = "<CAF1b7x@mail.example.com>", min_length = 1, max_length = 998)]
    message_id: String,
    /// The `Message-ID` of what it answers.
    in_reply_to: Option<String>,
    /// Those of the mails before it, oldest first, with spaces between them.
    references: Option<String>,
    /// When it was written; left out: now.
    #[schema(format = DateTime, example = "2026-01-31T09:25:00.000Z")]
    date: Option<String>,
}

impl MailBody {
    fn check(self, now: Timestamp) -> Result<InboundMail, ApiError> {
        let (from_name, from) = mailbox(&self.from).ok_or_else(|| {
            ApiError::field("from", "must be an address, such as Ana <ana@example.com>")
        })?;
        let message_id = self.message_id.trim().to_owned();
        if !(1..=MESSAGE_ID_CHARS_MAX).contains(&message_id.chars().count()) {
            return Err(ApiError::field("message_id", "must have 1 to 998 characters"));
        }
        let at = match self.date.as_deref() {
            None => now,
            Some(date) => date.parse().map_err(|_| {
                ApiError::field(
                    "date",
                    "must be a time, such as \
                                              2026-01-31T09:25:00Z",
                )
            })?,
        };
        let given = self.references.unwrap_or_default();
        let mut references: Vec<_> = given.split_whitespace().map(str::to_owned).collect();
        let answered = self.in_reply_to.map(|id| id.trim().to_owned());
        if let Some(answered) = answered.filter(|id| !id.is_empty()) {
            // The last reference is the id of the mail that this mail answers.
            references.retain(|id| *id != answered);
            references.push(answered);
        }
        references.retain(|id| id.chars().count() <= MESSAGE_ID_CHARS_MAX);
        references.drain(..references.len().saturating_sub(REFERENCES_MAX));
        let text = self.text.filter(|text| !text.trim().is_empty());
        let text = text.or_else(|| self.html.as_deref().map(text_of_html)).unwrap_or_default();
        Ok(InboundMail {
            from,
            from_name,
            subject: first_chars(&self.subject.unwrap_or_default(), SUBJECT_CHARS_MAX),
            text: first_chars(&text, TEXT_CHARS_MAX),
            message_id,
            references,
            at,
        })
    }
}

fn first_chars(text: &str, chars: usize) -> String {
    text.trim().chars().take(chars).collect()
}

#[utoipa::path(
    post,
    path = "/channels/email/{workspace}",
    operation_id = "takeMail",
    tag = "Channel",
    summary = "Take a mail",
    description = "For the mail service that receives a workspace's mail, or whatever stands between \
        it and this server. It is signed as Standard Webhooks says, with the secret that \
        `POST /admin/v1/workspaces/{workspace}/email` shows; at most five minutes old. The mail \
        belongs to the conversation of a mail that it answers, or else to that of the contact with \
        its address, who is made if there is none. 200 once it is durable; one that comes again \
        changes nothing.",
    params(
        ("workspace" = String, Path, description = "The workspace's id"),
        ("webhook-id" = String, Header, description = "Any text, part of what is signed"),
        ("webhook-timestamp" = String, Header, description = "Unix seconds of now"),
        ("webhook-signature" = String, Header, description = "`v1,` and the HMAC-SHA256 of \
         `{id}.{timestamp}.{body}` in Base64; several with spaces between them"),
    ),
    request_body = MailBody,
    responses((status = 200, description = "Taken", body = Object))
)]
async fn take(call: Call<Workspace>) -> Answer {
    let workspace = &call.caller;
    let header = |name| call.header(name).unwrap_or_default();
    let (id, timestamp, signatures) = (header(&ID), header(&TIMESTAMP), header(&SIGNATURE));
    let checked = workspace.check_mail_signature(id, timestamp, signatures, call.raw()).await;
    checked.map_err(|error| call.failed(error.into()))?;
    let now = call.edge.engine.clock().now();
    let mail = json::parse_given::<MailBody>(call.raw())?.check(now)?;
    workspace.receive_mail(mail).await?;
    Ok(Reply::json_text(b"{}".to_vec()))
}

impl From<ReceiveMailError> for ApiError {
    fn from(error: ReceiveMailError) -> Self {
        match error {
            ReceiveMailError::NotFound => Self::not_found(NO_SUCH_CHANNEL),
            ReceiveMailError::BadSignature => {
                Self::unsigned("the signature is missing, wrong or older than five minutes")
            }
            ReceiveMailError::Unavailable(error) => error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use postrider_actors::domain::fuzz::{SCRIPT_BYTES_MAX, edited};
    use postrider_actors::domain::json::mended;

    use super::*;

    #[test]
    fn fuzz_mails() {
        let examples: [&[u8]; 2] = [
            br#"{"from":"Ana Souza <ana@example.com>","to":"help@example.com","subject":"Where?",
            "text":"It was to come on Monday.","html":"<p>It was</p>","message_id":"<a@b.c>",
            "in_reply_to":"<d@e.f>","references":"<g@h.i> <d@e.f>",
            "date":"2026-01-31T09:25:00.000Z"}"#,
            br#"{"from":"ana@example.com","html":"<style>a</style>Hi<br>\u00e9","message_id":"x"}"#,
        ];
        let now = Timestamp::from_millis(1_700_000_000_000);
        for example in examples {
            assert!(json::parse_given::<MailBody>(example).and_then(|it| it.check(now)).is_ok());
        }
        let fuzzer = bolero::check!().with_iterations(5_000);
        fuzzer.for_each(|script: &[u8]| {
            let input = edited(&examples, &script[..script.len().min(SCRIPT_BYTES_MAX)]);
            let Ok(mail) = json::parse_given::<MailBody>(&input).and_then(|it| it.check(now))
            else {
                return;
            };
            assert!(mail.text.chars().count() <= TEXT_CHARS_MAX);
            assert!(mail.subject.chars().count() <= SUBJECT_CHARS_MAX);
            assert!(mail.references.len() <= REFERENCES_MAX);
            let held = mail.text.len() + mail.subject.len() + mail.message_id.len();
            let most = mended(&input).len();
            assert!(held <= most, "{held} bytes of {most}");
        });
    }
}
