//! Joining a workspace by an invite.

use std::borrow::Cow;

use postrider_actors::{Joining, Members, Password, PeopleError, SignedIn};
use serde::Deserialize;
use utoipa::ToSchema;

use super::sign_in::{arrival, check_place, enter};
use crate::http::check_name;
use crate::http::me::MeAnswer;
use crate::http::pipeline::{Answer, ApiError, Call, OwnPage, Routes, route};

pub(crate) fn routes() -> Routes {
    Routes::default().routes(route!(join).guarded(OwnPage))
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
