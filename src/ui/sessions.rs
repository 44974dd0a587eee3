//! A person's own sessions, and their password.

use std::borrow::Cow;

use postrider_actors::domain::SessionId;
use postrider_actors::{Password, SignedIn};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::http::pipeline::{Answer, ApiError, Call, Reply, Routes, SignedInPage, route};

pub(crate) fn routes() -> Routes {
    Routes::default()
        .routes(route!(list).guarded(SignedInPage))
        .routes(route!(end).guarded(SignedInPage))
        .routes(route!(end_others).guarded(SignedInPage))
        .routes(route!(set_password).guarded(SignedInPage))
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
async fn list(call: Call<SignedIn>) -> Answer {
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
async fn end(mut call: Call<SignedIn>) -> Answer {
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
async fn end_others(call: Call<SignedIn>) -> Answer {
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
