//! Signing in and out, joining by an invite, and confirming the identity again.

use std::borrow::Cow;
use std::sync::Arc;

use axum::http::header;
use postrider_actors::{Arrival, Joining, Members, NewSession, Password, PeopleError, SignedIn};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::http::check_name;
use crate::http::me::{Me, MeAnswer};
use crate::http::pipeline::browser::{device_of, set_cookie, set_device};
use crate::http::pipeline::{
    Answer, ApiError, Call, Code, Identity, Known, OwnPage, Reply, Routes, SignedInPage,
    administrator_of, route,
};

pub(crate) fn routes() -> Routes {
    Routes::default()
        .routes(route!(read_session).guarded(OwnPage))
        .routes(route!(sign_in).guarded(OwnPage))
        .routes(route!(sign_out).guarded(OwnPage))
        .routes(route!(elevate).guarded(SignedInPage))
        .routes(route!(join).guarded(OwnPage))
}

/// Whether somebody has signed in, and how one does.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SessionAnswer {
    /// Whether the request has a session.
    signed_in: bool,
    /// Whether the server is a sandbox.
    sandbox: bool,
    /// How one may sign in: `link`, `password`, `admin_token`.
    #[schema(example = json!(["link", "password", "admin_token"]))]
    methods: Vec<&'static str>,
    /// Who has signed in, as `GET /v1/me` answers without the header `Postrider-Workspace`.
    #[serde(skip_serializing_if = "Option::is_none")]
    me: Option<MeAnswer>,
}

/// How somebody signs in; without `Debug`, as it has secrets.
#[derive(Deserialize, ToSchema)]
pub(crate) struct SignInBody<'a> {
    /// The token of a link.
    #[serde(borrow)]
    #[schema(example = "5EUr1h0oQmZ1RZx3hEPqN0wAq0sWQzLHnD0Y9M3cJwE", max_length = 256)]
    link: Option<Cow<'a, str>>,
    /// An e-mail address, with `password`.
    #[serde(borrow)]
    #[schema(max_length = 256)]
    email: Option<Cow<'a, str>>,
    /// Its password.
    #[serde(borrow)]
    #[schema(max_length = 1024)]
    password: Option<Cow<'a, str>>,
    /// The code of the authenticator, or a recovery code, with `password`, of who has one.
    #[serde(borrow)]
    #[schema(max_length = 64)]
    totp: Option<Cow<'a, str>>,
    /// An admin token.
    #[serde(borrow)]
    #[schema(max_length = 256)]
    admin_token: Option<Cow<'a, str>>,
}

#[utoipa::path(
    get,
    path = "/ui/api/session",
    operation_id = "readSession",
    tag = "Dashboard",
    summary = "Whether somebody has signed in",
    responses((status = 200, description = "The session", body = SessionAnswer))
)]
async fn read_session(call: Call<Option<SignedIn>>) -> Answer {
    let password = call.edge.engine.people().options().password_sign_in;
    let methods = [Some("link"), password.then_some("password"), Some("admin_token")];
    let me = match call.caller.clone() {
        Some(signed_in) => Some(Me::of(&call.edge, Known::of_person(&call.edge, signed_in)).await?),
        None => None,
    };
    Ok(Reply::ok(&SessionAnswer {
        signed_in: me.is_some(),
        sandbox: call.edge.options.sandbox,
        methods: methods.into_iter().flatten().collect(),
        me,
    }))
}

#[utoipa::path(
    post,
    path = "/ui/api/session",
    operation_id = "signIn",
    tag = "Dashboard",
    summary = "Sign in",
    description = "By the token of a link, which works once and for 15 minutes; by e-mail address \
                   and password; or by an admin token, for half an hour. All causes of a refusal are \
                   answered alike, but after a right password of who has an authenticator: 401 with the \
                   reason `totp_required`, for whom `totp` is missing or wrong. After five wrong \
                   passwords for an account from one address, or codes, within 15 minutes each \
                   try waits longer: 429. Browsers that have signed in to the account before, which \
                   a second cookie shows, have a count of their own. A server without `dashboard.public_url` refuses whoever \
                   is not on its machine: 403 with the reason `public_url_missing`.",
    request_body = SignInBody,
    responses((status = 200, description = "Signed in; the cookie is set", body = MeAnswer))
)]
async fn sign_in(call: Call<Option<SignedIn>>) -> Answer {
    check_place(&call)?;
    let session = begin_session(&call).await?;
    enter(&call, session).await
}

/// Refuses a sign-in from another machine if it is not known how that machine reaches this one.
fn check_place(call: &Call<Option<SignedIn>>) -> Result<(), ApiError> {
    let options = &call.edge.options.dashboard;
    if options.public_url.is_some() || call.address().is_loopback() {
        return Ok(());
    }
    let message = "without `dashboard.public_url` people sign in from this machine only";
    Err(ApiError::new(Code::Forbidden, message).because("public_url_missing"))
}

/// Returns the signed-in person, and sets the cookie.
async fn enter(call: &Call<Option<SignedIn>>, session: NewSession) -> Answer {
    let NewSession { token, signed_in, device } = session;
    let me = Me::of(&call.edge, Known::of_person(&call.edge, signed_in)).await?;
    let mut reply = Reply::ok(&me);
    if let Some(cookie) = set_cookie(&call.edge, Some(token.reveal())) {
        reply.header(header::SET_COOKIE, cookie);
    }
    if let Some(cookie) = device.and_then(|device| set_device(&call.edge, device.reveal())) {
        reply.another(header::SET_COOKIE, cookie);
    }
    Ok(reply)
}

/// Returns the origin of a sign-in.
fn arrival(call: &Call<Option<SignedIn>>) -> Arrival {
    let user_agent = call.header(&header::USER_AGENT).unwrap_or_default().to_owned();
    let device = device_of(&call.edge, call.headers()).map(str::to_owned);
    Arrival { user_agent, context: call.audit_context(), device }
}

/// Refuses an address with too many failures before a password is checked, which is expensive.
///
/// A browser in which this person has signed in before is exempt.
fn check_address(call: &Call<Option<SignedIn>>, email: &str) -> Result<(), ApiError> {
    let device = device_of(&call.edge, call.headers());
    let is_known = device.is_some_and(|it| call.edge.engine.people().knows_device(email, it));
    match call.edge.engine.access().address_wait(call.address()) {
        Some(wait) if !is_known => {
            Err(ApiError::rate_limited(wait, "too many failures from this address"))
        }
        _ => Ok(()),
    }
}

async fn begin_session(call: &Call<Option<SignedIn>>) -> Result<NewSession, ApiError> {
    let body: SignInBody<'_> = call.json()?;
    let (people, arrival) = (call.edge.engine.people(), arrival(call));
    let by_password = (body.email, body.password, body.totp);
    let begun = match (body.link, by_password, body.admin_token) {
        (Some(link), (None, None, None), None) => people.sign_in_by_link(&link, arrival).await,
        (None, (Some(email), Some(password), totp), None) => {
            check_address(call, &email)?;
            people.sign_in_by_password(&email, &password, totp.as_deref(), arrival).await
        }
        (None, (None, None, None), Some(token)) => match administrator_of(&call.edge, &token) {
            Some(Identity::Administrator { id, name }) => {
                people.sign_in_by_admin_token(&token, (id, name), arrival).await
            }
            _ => Err(postrider_actors::PeopleError::Refused),
        },
        _ => {
            let message = "one of `link`, `email` with `password`, and `admin_token` must be given";
            return Err(ApiError::invalid(message));
        }
    };
    begun.map_err(|error| call.failed(error.into()))
}

#[utoipa::path(
    delete,
    path = "/ui/api/session",
    operation_id = "signOut",
    tag = "Dashboard",
    summary = "Sign out",
    responses((status = 204, description = "The session has ended; the cookie is taken back"))
)]
async fn sign_out(call: Call<Option<SignedIn>>) -> Answer {
    if let Some(signed_in) = &call.caller {
        let session = &signed_in.session;
        let people = call.edge.engine.people();
        let holder = &session.record().holder;
        people.end_session(holder, session.id(), call.audit_context()).await?;
    }
    let mut reply = Reply::no_content();
    if let Some(cookie) = set_cookie(&call.edge, None) {
        reply.header(header::SET_COOKIE, cookie);
    }
    Ok(reply)
}

/// Proves who has the session; without `Debug`, as it has a password.
#[derive(Deserialize, ToSchema)]
pub(crate) struct ElevateBody<'a> {
    /// The password, of who has one.
    #[serde(borrow)]
    #[schema(example = "correct horse battery staple", max_length = 1024)]
    password: Option<Cow<'a, str>>,
    /// The code of the authenticator, or a recovery code, of who has one.
    #[serde(borrow)]
    #[schema(max_length = 64)]
    totp: Option<Cow<'a, str>>,
}

/// Until when it counts.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ElevatedAnswer {
    /// Until when what needs a recent sign-in is allowed, in real time.
    #[schema(format = DateTime)]
    elevated_until: Option<String>,
}

#[utoipa::path(
    post,
    path = "/ui/api/session/elevate",
    operation_id = "elevateSession",
    tag = "Dashboard",
    summary = "Prove it again",
    description = "What is answered 403 with the reason `step_up_required` is allowed for ten \
                   minutes, as after a sign-in. Who has a password and an authenticator gives both; \
                   without `totp` that is 401 with the reason `totp_required`.",
    request_body = ElevateBody,
    responses((status = 200, description = "Proved", body = ElevatedAnswer))
)]
async fn elevate(call: Call<SignedIn>) -> Answer {
    let body: ElevateBody<'_> = call.json()?;
    let (password, totp) = (body.password.as_deref(), body.totp.as_deref());
    if password.is_none() && totp.is_none() {
        return Err(ApiError::invalid("`password`, `totp` or both must be given"));
    }
    let elevated = call.edge.engine.people().elevate(&call.caller, password, totp).await;
    elevated.map_err(|error| call.failed(error.into()))?;
    let until = Arc::clone(&call.caller.session).elevated_until();
    Ok(Reply::ok(&ElevatedAnswer { elevated_until: until.map(|at| at.to_string()) }))
}

/// Who joins; without `Debug`, as it has secrets.
#[derive(Deserialize, ToSchema)]
pub(crate) struct JoinBody<'a> {
    /// The token of the invite.
    #[serde(borrow)]
    #[schema(example = "5EUr1h0oQmZ1RZx3hEPqN0wAq0sWQzLHnD0Y9M3cJwE", max_length = 256)]
    invite: Cow<'a, str>,
    /// What others shall call them; an account that is there keeps its name.
    #[serde(borrow)]
    #[schema(example = "Bob", min_length = 1, max_length = 100)]
    name: Cow<'a, str>,
    /// Their password from now on; of an account that is there, its password.
    #[serde(borrow)]
    #[schema(min_length = 12, max_length = 256, example = "correct horse battery staple")]
    password: Cow<'a, str>,
}

#[utoipa::path(
    post,
    path = "/ui/api/join",
    operation_id = "joinWorkspace",
    tag = "Dashboard",
    summary = "Join a workspace by an invite",
    description = "Signs in. Who is not there is made. An invite alone does not open an account that is \
                   there: it takes its password, or a session of it; without either, or where it \
                   has an authenticator, it is 409 with the reason `sign_in_first`.",
    request_body = JoinBody,
    responses((status = 200, description = "Joined; the cookie is set", body = MeAnswer))
)]
async fn join(call: Call<Option<SignedIn>>) -> Answer {
    check_place(&call)?;
    let body: JoinBody<'_> = call.json()?;
    check_name(&body.name)?;
    let password = Password::new(&body.password);
    let password = password.map_err(|error| ApiError::field("password", error))?;
    let joining = Joining {
        token: body.invite.clone().into_owned(),
        name: body.name.as_ref().into(),
        password,
        signed_in: call.caller.clone(),
        arrival: arrival(&call),
    };
    let joined = Members::of(call.edge.engine.people()).join(joining).await;
    let session = joined.map_err(|error| match error {
        PeopleError::AlreadyMember => error.into(),
        error => call.failed(error.into()),
    })?;
    enter(&call, session).await
}
