//! Sends, resends and reads one-time passwords; its parts verify, cancel and list them.
//!
//! A person may also send the code to a number of the workspace; the answer then shows how.

mod chain;
mod decisions;
mod list;
mod verify;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Write;
use std::net::IpAddr;

use postrider_actors::domain::code::{CodeLength, Expiry};
use postrider_actors::domain::event::chain::OtpChannel;
use postrider_actors::domain::otp_text::sent_text;
use postrider_actors::domain::{Email, PartyId, Phone, RequestId, SenderNotes};
use postrider_actors::{
    CallerContext, OtpSent, OtpState, Permission, Replayable, Route, SendMore, SendOtp,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::contacts::named_contacts;
use super::message_body::{check_chars, sender_notes};
use super::pipeline::{Answer, ApiError, Call, Integer, Key, Principal, Reply, Routes, route};
use list::OtpAnswer;

pub(crate) use chain::{StepBody, steps};

const NO_SUCH_REQUEST: &str = "no such one-time password request";
/// The maximum length of a session, in characters.
const SESSION_CHARS_MAX: usize = 128;

/// Returns the routes. Every operation has two paths, `/v1/otp/…` and `/v1/messaging/otp/…`.
pub(crate) fn routes() -> Routes {
    Routes::default()
        .routes(route!(send).guarded(Key::of(Permission::OtpSend)))
        .routes(route!(resend).guarded(Key::of(Permission::OtpSend)))
        .routes(route!(read).guarded(Key::of(Permission::OtpRead)))
        .merge(list::routes())
        .merge(decisions::routes())
        .merge(verify::routes())
        .routes(
            route!(send)
                .at("/v1/messaging/otp/send", "sendOtpByMessagingPath")
                .guarded(Key::of(Permission::OtpSend)),
        )
        .routes(
            route!(resend)
                .at("/v1/messaging/otp/resend", "resendOtpByMessagingPath")
                .guarded(Key::of(Permission::OtpSend)),
        )
        .routes(
            route!(read)
                .at("/v1/messaging/otp/{request_id}", "readOtpByMessagingPath")
                .guarded(Key::of(Permission::OtpRead)),
        )
}

/// Asks for a code to be made and sent; without `Debug`, as it names a person.
#[derive(Deserialize, ToSchema)]
#[schema(as = SendBody)]
pub(crate) struct SendOtpBody<'a> {
    /// Where the code goes, in E.164. It may be left out with the mode `inbound`: then the code has
    /// 12 letters and digits, and any phone may send it.
    #[serde(borrow)]
    #[schema(example = "+15550123456", pattern = r"^\+[1-9][0-9]{6,14}$")]
    phone: Option<Cow<'a, str>>,
    /// Seconds that the code is valid.
    #[schema(value_type = Option<i64>, minimum = 60, maximum = 900, default = 300)]
    expiry: Option<Integer>,
    /// Digits of the code. Of four digits, a stranger who asks for codes all day guesses one in
    /// three days; see SECURITY.md.
    #[schema(value_type = Option<i64>, minimum = 4, maximum = 8, default = 6)]
    length: Option<Integer>,
    /// Who asked for it, for the limits by address and session. Kept as keyed hashes only.
    #[serde(borrow, default, deserialize_with = "super::pipeline::object::optional")]
    context: Option<ContextBody<'a>>,
    /// What the caller calls the request: 1 to 128 printable characters. Shown in rows and events.
    #[serde(borrow)]
    #[schema(example = "order-1017", min_length = 1, max_length = 128)]
    reference: Option<Cow<'a, str>>,
    /// At most 16 strings that are kept with the request, with keys of at most 40 characters and
    /// values of at most 256.
    #[schema(example = json!({"flow": "sign-in"}))]
    metadata: Option<BTreeMap<String, String>>,
    /// One to three steps over which the code is to arrive, each the name of a channel
    /// (`messaging`, `sms`, `email`) or an object with its time; left out: the workspace's.
    #[schema(
        value_type = Option<Vec<Object>>, min_items = 1, max_items = 3,
        example = json!([{"channel": "messaging"}])
    )]
    channels: Option<Vec<StepBody>>,
    /// Where a step by `email` goes.
    #[serde(borrow)]
    #[schema(format = Email, example = "ada@example.com")]
    email: Option<Cow<'a, str>>,
    /// In which language it is written, such as `en` or `pt_BR`. Where there is no template or text
    /// in it, that of its base (`pt`) is used, else the workspace's own. The answer then has
    /// `language`.
    #[serde(borrow)]
    #[schema(example = "pt_BR", pattern = r"^[a-z]{2,3}(_[A-Z]{2})?$")]
    language: Option<Cow<'a, str>>,
    /// `outbound`, or `inbound`: nothing is sent, and the person sends the code that is answered to
    /// a number of the workspace. It has no `channels`.
    #[serde(borrow)]
    #[schema(example = "outbound", default = "outbound")]
    mode: Option<Cow<'a, str>>,
    /// The number that it leaves through, by its id or its phone; left out: the one that was last
    /// used with the phone, or one of the pool.
    #[serde(borrow)]
    #[schema(example = "num_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    from: Option<Cow<'a, str>>,
}

impl SendOtpBody<'_> {
    fn phone(&self) -> Result<Phone, ApiError> {
        match &self.phone {
            Some(phone) => phone.parse().map_err(|error| ApiError::field("phone", error)),
            None if self.mode.as_deref() != Some("inbound") => {
                Err(ApiError::field("phone", "must be given, unless the mode is inbound"))
            }
            None if self.length.is_some() => {
                Err(ApiError::field("length", "must not be given without a phone"))
            }
            None => Ok(Phone::ANYBODY),
        }
    }

    /// Returns the options that few callers set, if this one sets any.
    fn more(self) -> Result<Option<Box<SendMore>>, ApiError> {
        let Self { context, reference, metadata, channels, email, language, mode, from, .. } = self;
        let inbound = match mode.as_deref() {
            None | Some("outbound") => false,
            Some("inbound") => true,
            Some(_) => return Err(ApiError::field("mode", "must be one of outbound, inbound")),
        };
        if inbound && channels.is_some() {
            return Err(ApiError::field("channels", "must not be given with the mode inbound"));
        }
        let asks = context.is_some()
            || reference.is_some()
            || metadata.is_some()
            || channels.is_some()
            || email.is_some()
            || language.is_some()
            || from.is_some()
            || inbound;
        if !asks {
            return Ok(None);
        }
        let SenderNotes { reference, metadata } = sender_notes(reference, metadata)?;
        let mut more = SendMore { reference, metadata, ..SendMore::default() };
        if let Some(context) = &context {
            more.context = context.read()?;
        }
        more.inbound = inbound;
        more.from = from.map(|from| from.as_ref().into());
        more.channels = channels.as_deref().map(steps).transpose()?;
        if let Some(email) = email {
            Email::new(&email).map_err(|error| ApiError::field("email", error))?;
            more.email = Some(email.into_owned());
        }
        if let Some(language) = language {
            let parsed = language.parse().map_err(|error| ApiError::field("language", error))?;
            more.language = Some(parsed);
        }
        Ok(Some(Box::new(more)))
    }
}

/// Who asked the caller for the code; without `Debug`, as it is personal.
#[derive(Deserialize, ToSchema)]
#[schema(as = CallerContext)]
pub(crate) struct ContextBody<'a> {
    /// The address of the person, IPv4 or IPv6.
    #[serde(borrow)]
    #[schema(example = "192.0.2.7")]
    ip: Option<Cow<'a, str>>,
    /// What the caller knows the person's session or device by.
    #[serde(borrow)]
    #[schema(example = "b7c1f0", min_length = 1, max_length = 128)]
    session: Option<Cow<'a, str>>,
}

impl ContextBody<'_> {
    fn read(&self) -> Result<CallerContext, ApiError> {
        let ip = self.ip.as_deref().map(|ip| {
            ip.parse::<IpAddr>()
                .map_err(|_| ApiError::field("context.ip", "must be an IPv4 or IPv6 address"))
        });
        if let Some(session) = &self.session {
            check_chars("context.session", session, 1, SESSION_CHARS_MAX)?;
        }
        let session = self.session.as_ref().map(|session| session.as_ref().to_owned());
        Ok(CallerContext { ip: ip.transpose()?, session })
    }
}

/// A code was accepted for sending; without `Debug`, as it may have the code.
#[derive(Serialize, ToSchema)]
pub(crate) struct OtpSentAnswer {
    /// Names the request in every later call.
    #[schema(example = "otp_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    request_id: String,
    /// When the code stops being valid.
    #[schema(format = DateTime, example = "2026-01-31T09:30:00.000Z")]
    expires_at: String,
    /// The number that it leaves through, while that is up, or that an inbound one is sent to; null
    /// where its steps have no `messaging`, and of a test phone.
    #[schema(example = "num_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    number_id: Option<String>,
    /// The language that is used, where one was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "pt")]
    language: Option<String>,
    /// With the mode `inbound`: that, and how its person sends the code.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "inbound")]
    mode: Option<&'static str>,
    /// The code, with the mode `inbound`: digits, or without a phone 12 letters and digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "482913")]
    code: Option<String>,
    /// The phone of the number that it can be sent to; null for a number without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "+15550001111")]
    number: Option<Option<String>>,
    /// A message that has the code.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "My code is 482913")]
    text: Option<String>,
    /// Opens the chat app with that message; null for a number without a phone.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(
        value_type = Option<String>,
        example = "https://wa.me/15550001111?text=My%20code%20is%20482913"
    )]
    link: Option<Option<String>>,
}

#[utoipa::path(
    post,
    path = "/v1/otp/send",
    operation_id = "sendOtp",
    tag = "OTP",
    summary = "Send a one-time password",
    description = "Makes a code and sends it to a phone. It costs one credit. A refused send \
                   consumes nothing. Answered once it is durable. Honours `Idempotency-Key`.",
    request_body = SendOtpBody,
    responses((status = 200, description = "Durable, and on its way", body = OtpSentAnswer))
)]
async fn send(call: Call<Principal>) -> Answer {
    let command = {
        let body: SendOtpBody<'_> = call.json()?;
        let mut command = SendOtp::to(body.phone()?);
        if let Some(Integer(seconds)) = body.expiry {
            command.expiry =
                Expiry::from_seconds(seconds).map_err(|error| ApiError::field("expiry", error))?;
        }
        if let Some(Integer(digits)) = body.length {
            command.length = CodeLength::from_digits(digits)
                .map_err(|error| ApiError::field("length", error))?;
        }
        command.more = body.more()?;
        command
    };
    let workspace = call.caller.workspace();
    let more = command.more.as_ref();
    let (language, inbound) =
        more.map_or((false, false), |more| (more.language.is_some(), more.inbound));
    let (sent, replayed) = match call.idempotency_key(Route::SendOtp)? {
        None => (workspace.send_otp(command).await?, false),
        Some(key) => {
            // Few callers send a key. Boxing keeps the future of all requests small.
            let once = Box::pin(workspace.send_otp_once(command, key));
            let Replayable { answer, replayed } = once.await?;
            (answer, replayed)
        }
    };
    if !language && !inbound {
        return Ok(sent_reply(sent).replayed(replayed));
    }
    let OtpSent { request_id, expires_at, number } = sent;
    let state = Box::pin(workspace.kept_otp(request_id)).await?;
    let code = if inbound { Box::pin(inbound_instructions(&call, &state)).await? } else { None };
    let answer = OtpSentAnswer {
        request_id: request_id.to_string(),
        expires_at: expires_at.to_string(),
        number_id: number.map(|id| id.to_string()),
        mode: code.as_ref().map(|_| "inbound"),
        number: code.as_ref().map(|code| code.number.clone()),
        link: code.as_ref().map(|code| code.link.clone()),
        text: code.as_ref().map(|code| code.text.clone()),
        code: code.map(|code| code.code),
        language: state.language.filter(|_| language),
    };
    Ok(Reply::ok(&answer).replayed(replayed))
}

/// The code that a person sends, and the ways to send it. Without `Debug`, as it has the code.
struct InboundInstructions {
    code: String,
    /// The phone of the number to which the code can be sent.
    number: Option<String>,
    /// A message that contains the code.
    text: String,
    /// A link that opens the chat app with that message.
    link: Option<String>,
}

/// Returns the code that a person has to send, while it can be sent.
async fn inbound_instructions(
    call: &Call<Principal>,
    state: &OtpState,
) -> Result<Option<InboundInstructions>, ApiError> {
    let Some(code) = state.inbound_code else { return Ok(None) };
    let numbers = call.edge.engine.admin().numbers(call.caller.workspace().id()).await?;
    let is_named = state.notes.own.as_ref().is_some_and(|own| own.pinned);
    let named = numbers.iter().find(|it| is_named && Some(it.id) == state.number);
    let account = match named {
        Some(number) => number.account.as_ref(),
        None => numbers.iter().filter(|it| it.pool).find_map(|it| it.account.as_ref()),
    };
    let phone = account.map(|account| account.phone);
    let code = code.reveal();
    let text = sent_text(&code, state.language.as_deref());
    let encoded = percent_encoded(&text);
    let link = phone.map(|phone| format!("https://wa.me/{}?text={encoded}", phone.as_u64()));
    let number = phone.map(|phone| phone.to_string());
    Ok(Some(InboundInstructions { code, number, text, link }))
}

/// Encodes a text for a URL's query.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => encoded.push(char::from(byte)),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

/// Asks for the code of a request to be sent once more.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct ResendBody<'a> {
    /// What send answered.
    #[serde(borrow)]
    #[schema(example = "otp_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    request_id: Cow<'a, str>,
    /// Over this channel only: `messaging`, `sms` or `email`. Left out: over all of the request's,
    /// from the first on.
    #[serde(borrow)]
    #[schema(example = "sms")]
    channel: Option<Cow<'a, str>>,
}

#[utoipa::path(
    post,
    path = "/v1/otp/resend",
    operation_id = "resendOtp",
    tag = "OTP",
    summary = "Send the same code again",
    description = "The code, its expiry and the attempts that are left stay as they are. It counts \
                   as a send to that phone.",
    request_body = ResendBody,
    responses((status = 200, description = "Durable, and on its way again", body = OtpSentAnswer))
)]
async fn resend(call: Call<Principal>) -> Answer {
    let body = call.json::<ResendBody<'_>>()?;
    let only = body.channel.as_deref().map(|name| {
        let none = || ApiError::field("channel", "must be one of messaging, sms, email");
        OtpChannel::of(name).ok_or_else(none)
    });
    let (request_id, only) = (request_id(&body.request_id)?, only.transpose()?);
    Ok(sent_reply(call.caller.workspace().resend_otp_over(request_id, only).await?))
}

#[utoipa::path(
    get,
    path = "/v1/otp/{request_id}",
    operation_id = "readOtp",
    tag = "OTP",
    summary = "Read where a request stands",
    description = "A request can be read for as long as `[otp] kept_days` says, 30 days by default. \
                   From an hour after it would have expired on, it is shown as it was at its end.",
    params(("request_id" = String, Path, description = "What send answered")),
    responses((status = 200, description = "Where it stands", body = OtpAnswer))
)]
async fn read(mut call: Call<Principal>) -> Answer {
    let request_id: RequestId = call.path("request_id", NO_SUCH_REQUEST).await?;
    let state = call.caller.workspace().kept_otp(request_id).await?;
    let contact = named_contacts(&call, vec![state.phone.map(PartyId::from)]).await?.pop();
    Ok(Reply::ok(&OtpAnswer::of(state, contact.flatten())))
}

/// Parses a request id. A malformed id is answered like an unknown one.
fn request_id(text: &str) -> Result<RequestId, ApiError> {
    text.parse().map_err(|_| ApiError::not_found(NO_SUCH_REQUEST))
}

/// Answers that a code was accepted. The JSON is written by hand for speed: ids and times need no
/// escapes.
fn sent_reply(sent: OtpSent) -> Reply {
    let OtpSent { request_id, expires_at, number } = sent;
    Reply::json_text(match number {
        Some(number) => json_bytes(format_args!(
            r#"{{"request_id":"{request_id}","expires_at":"{expires_at}","number_id":"{number}"}}"#
        )),
        None => json_bytes(format_args!(
            r#"{{"request_id":"{request_id}","expires_at":"{expires_at}","number_id":null}}"#
        )),
    })
}

fn json_bytes(text: std::fmt::Arguments<'_>) -> Vec<u8> {
    let mut body = Vec::with_capacity(160);
    // Writing to a vector cannot fail.
    let written = body.write_fmt(text);
    debug_assert!(written.is_ok());
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_in_any_script_stands_in_a_link() {
        assert_eq!(percent_encoded("é 7&"), "%C3%A9%207%26");
    }
}
