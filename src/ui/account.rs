//! A person's own account: their sessions, their password and their authenticator.

use std::borrow::Cow;

use postrider_actors::domain::SessionId;
use postrider_actors::{Authenticators, Password, PeopleError, Person, SignedIn};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::http::pipeline::{
    Answer, ApiError, Call, RecentlySignedIn, Reply, Routes, SignedInPage, route,
};

/// The issuer that an authenticator shows beside the code.
const ISSUER: &str = "Postrider";

pub(crate) fn routes() -> Routes {
    Routes::default()
        .routes(route!(list_sessions).guarded(SignedInPage))
        .routes(route!(end_session).guarded(SignedInPage))
        .routes(route!(end_other_sessions).guarded(SignedInPage))
        .routes(route!(set_password).guarded(SignedInPage))
        .routes(route!(begin_totp).guarded(RecentlySignedIn))
        .routes(route!(confirm_totp).guarded(RecentlySignedIn))
        .routes(route!(remove_totp).guarded(RecentlySignedIn))
}

/// One session. Its moments are real time, also in a sandbox that has moved time.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SessionRow {
    /// The session.
    #[schema(example = "ses_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    id: String,
    /// Whether it is the one that asks.
    current: bool,
    /// The browser, as it names itself.
    user_agent: String,
    /// The address that it began from.
    #[schema(example = "127.0.0.1")]
    address: String,
    /// When it began.
    #[schema(format = DateTime)]
    created_at: String,
    /// When it was used last.
    #[schema(format = DateTime)]
    seen_at: String,
    /// When it ends at the latest.
    #[schema(format = DateTime)]
    ends_at: String,
}

/// Somebody's sessions.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SessionsAnswer {
    /// Oldest first.
    data: Vec<SessionRow>,
}

#[utoipa::path(
    get,
    path = "/ui/api/sessions",
    operation_id = "listSessions",
    tag = "Dashboard",
    summary = "List one's own sessions",
    responses((status = 200, description = "The sessions that go on", body = SessionsAnswer))
)]
async fn list_sessions(call: Call<SignedIn>) -> Answer {
    let current = &call.caller.session;
    let sessions = call.edge.engine.people().sessions_of(&current.record().holder);
    let rows = sessions.iter().map(|session| {
        let record = session.record();
        SessionRow {
            id: record.id.to_string(),
            current: record.id == current.id(),
            user_agent: record.user_agent.to_string(),
            address: record.address.to_string(),
            created_at: record.created_at.to_string(),
            seen_at: session.seen_at().to_string(),
            ends_at: record.ends_at.to_string(),
        }
    });
    Ok(Reply::ok(&SessionsAnswer { data: rows.collect() }))
}

#[utoipa::path(
    delete,
    path = "/ui/api/sessions/{session_id}",
    operation_id = "endSession",
    tag = "Dashboard",
    summary = "End one of one's own sessions",
    params(("session_id" = String, Path, description = "The session's id")),
    responses((status = 204, description = "It has ended: its next request is answered 401"))
)]
async fn end_session(mut call: Call<SignedIn>) -> Answer {
    let id: SessionId = call.path("session_id", "no such session").await?;
    let holder = &call.caller.session.record().holder;
    call.edge.engine.people().end_session(holder, id, call.audit_context()).await?;
    Ok(Reply::no_content())
}

#[utoipa::path(
    delete,
    path = "/ui/api/sessions",
    operation_id = "endOtherSessions",
    tag = "Dashboard",
    summary = "End one's other sessions",
    responses((status = 204, description = "They have ended"))
)]
async fn end_other_sessions(call: Call<SignedIn>) -> Answer {
    let session = &call.caller.session;
    let (people, holder) = (call.edge.engine.people(), &session.record().holder);
    people.end_other_sessions(holder, session.id(), call.audit_context()).await?;
    Ok(Reply::no_content())
}

/// A new password; without `Debug`, as it has both.
#[derive(Deserialize, ToSchema)]
pub(crate) struct PasswordBody<'a> {
    /// The password until now; it may be left out within ten minutes of a sign-in.
    #[serde(borrow)]
    #[schema(max_length = 1024)]
    current: Option<Cow<'a, str>>,
    /// The password from now on.
    #[serde(borrow)]
    #[schema(min_length = 12, max_length = 256, example = "correct horse battery staple")]
    new: Cow<'a, str>,
}

#[utoipa::path(
    put,
    path = "/ui/api/password",
    operation_id = "setPassword",
    tag = "Dashboard",
    summary = "Set one's password",
    description = "Ends one's other sessions.",
    request_body = PasswordBody,
    responses((status = 204, description = "Set"))
)]
async fn set_password(call: Call<SignedIn>) -> Answer {
    let body: PasswordBody<'_> = call.json()?;
    let new = Password::new(&body.new).map_err(|error| ApiError::field("new", error))?;
    let (people, by) = (call.edge.engine.people(), call.audit_context());
    let set = people.set_password(&call.caller, body.current.as_deref(), new, by).await;
    set.map_err(|error| call.failed(error.into()))?;
    Ok(Reply::no_content())
}

/// A new secret; without `Debug`, as it is one.
#[derive(Serialize, ToSchema)]
pub(crate) struct TotpAnswer {
    /// The secret in Base32, to be typed.
    #[schema(example = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ")]
    secret: String,
    /// The same for a QR code.
    #[schema(
        example = "otpauth://totp/Postrider:ada%40acme.com?secret=GEZDGNBVGY3TQOJQ&issuer=Postrider"
    )]
    uri: String,
}

#[utoipa::path(
    post,
    path = "/ui/api/totp",
    operation_id = "beginTotp",
    tag = "Dashboard",
    summary = "Show the secret of a new authenticator",
    description = "It counts once a code of it was sent, within ten minutes. Six digits, a new one every \
                   30 seconds (RFC 6238).",
    responses((status = 200, description = "The secret; it is shown here only", body = TotpAnswer))
)]
async fn begin_totp(call: Call<SignedIn>) -> Answer {
    let person = calling_person(&call)?;
    let secret = Authenticators::of(call.edge.engine.people()).begin(&call.caller)?;
    let secret = secret.reveal().to_owned();
    let label: String = person.email.as_str().bytes().map(percent_encoded).collect();
    let uri = format!("otpauth://totp/{ISSUER}:{label}?secret={secret}&issuer={ISSUER}");
    Ok(Reply::ok(&TotpAnswer { secret, uri }))
}

/// Escapes a byte for a part of an address (RFC 3986, section 2.3).
fn percent_encoded(byte: u8) -> String {
    match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        byte => format!("%{byte:02X}"),
    }
}

/// What the authenticator shows.
#[derive(Deserialize, ToSchema)]
pub(crate) struct TotpBody<'a> {
    /// The code.
    #[serde(borrow)]
    #[schema(example = "123456", max_length = 64)]
    code: Cow<'a, str>,
}

/// What stands in for a lost authenticator; without `Debug`, as it is secret.
#[derive(Serialize, ToSchema)]
pub(crate) struct RecoveryCodesAnswer {
    /// Ten codes. Each of them works once in place of a code of the authenticator.
    #[schema(example = json!(["abcd-efgh-ijkl-mnop"]))]
    recovery_codes: Vec<String>,
}

#[utoipa::path(
    put,
    path = "/ui/api/totp",
    operation_id = "confirmTotp",
    tag = "Dashboard",
    summary = "Confirm the new authenticator by a code of it",
    description = "From now on a sign-in by password needs a code. Each step's code is taken once.",
    request_body = TotpBody,
    responses((status = 200, description = "Confirmed; the codes are shown here only",
               body = RecoveryCodesAnswer))
)]
async fn confirm_totp(call: Call<SignedIn>) -> Answer {
    let body: TotpBody<'_> = call.json()?;
    let all = Authenticators::of(call.edge.engine.people());
    let codes = all.confirm(&call.caller, &body.code, call.audit_context()).await?;
    let recovery_codes = codes.iter().map(|code| code.reveal().to_owned()).collect();
    Ok(Reply::ok(&RecoveryCodesAnswer { recovery_codes }))
}

#[utoipa::path(
    delete,
    path = "/ui/api/totp",
    operation_id = "removeTotp",
    tag = "Dashboard",
    summary = "Remove one's authenticator",
    responses((status = 204, description = "Removed, with its recovery codes"))
)]
async fn remove_totp(call: Call<SignedIn>) -> Answer {
    let all = Authenticators::of(call.edge.engine.people());
    all.remove(&call.caller, call.audit_context()).await?;
    Ok(Reply::no_content())
}

/// Returns the calling person; the holder of an admin token is none.
fn calling_person(call: &Call<SignedIn>) -> Result<&Person, ApiError> {
    let person = call.caller.person.as_deref();
    person.ok_or_else(|| PeopleError::NoSuchPerson.into())
}
