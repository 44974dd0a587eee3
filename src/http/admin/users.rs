//! Makes links that sign people in, lists people, and disables them.

use std::borrow::Cow;
use std::sync::Arc;

use axum::http::StatusCode;
use postrider_actors::domain::{PersonId, Timestamp, WorkspaceId};
use postrider_actors::{Login, Person, PersonChange, Role};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::check_name;
use crate::http::pipeline::{Administrator, Answer, ApiError, Call, Page, Reply, Routes, route};

const MISSING: &str = "no such user";

pub(crate) fn routes() -> Routes {
    Routes::default()
        .routes(route!(link).guarded(Administrator))
        .routes(route!(list).guarded(Administrator))
        .routes(route!(update).guarded(Administrator))
}

/// Whom a link signs in.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct LinkBody<'a> {
    /// Their e-mail address. Who is not there is made.
    #[serde(borrow)]
    #[schema(example = "ada@acme.com")]
    email: Cow<'a, str>,
    /// `true` makes them an operator of the server; left out, they stay what they are.
    operator: Option<bool>,
    /// A workspace that they become a member of, with `role`.
    #[serde(borrow)]
    #[schema(example = "acme")]
    workspace: Option<Cow<'a, str>>,
    /// What they are there: `owner`, `admin`, `marketer`, `agent`, `analyst` or `developer`.
    #[serde(borrow)]
    #[schema(example = "owner")]
    role: Option<Cow<'a, str>>,
}

/// A link that was made; without `Debug`, as it signs somebody in.
#[derive(Serialize, ToSchema)]
pub(crate) struct LinkAnswer {
    /// Whom it signs in.
    #[schema(example = "usr_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    user_id: String,
    /// The link. It works once, and is shown here only.
    url: String,
    /// When it stops working, in real time.
    #[schema(format = DateTime)]
    expires_at: String,
}

/// What somebody is in a workspace.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MembershipRow {
    /// The workspace.
    #[schema(example = "acme")]
    workspace: String,
    /// Their role.
    #[schema(example = "owner")]
    role: &'static str,
}

/// Somebody.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct UserRow {
    /// Names them.
    #[schema(example = "usr_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    id: String,
    /// Their e-mail address.
    #[schema(example = "ada@acme.com")]
    email: String,
    /// What others call them.
    name: String,
    /// Whether they may administer the server.
    operator: bool,
    /// Whether they may not sign in.
    disabled: bool,
    /// Whether they have a password.
    has_password: bool,
    /// Whether they have an authenticator.
    totp: bool,
    /// What they are in which workspace.
    memberships: Vec<MembershipRow>,
    /// When they were made.
    #[schema(format = DateTime)]
    created_at: String,
    /// When one of their sessions was used last, in real time, while they have any.
    #[schema(format = DateTime)]
    seen_at: Option<String>,
}

impl UserRow {
    fn of(person: &Person, seen_at: Option<Timestamp>) -> Self {
        let row = |it: &postrider_actors::Membership| MembershipRow {
            workspace: it.workspace.to_string(),
            role: it.role.as_str(),
        };
        Self {
            id: person.id.to_string(),
            email: person.email.to_string(),
            name: person.name.to_string(),
            operator: person.operator,
            disabled: person.disabled,
            has_password: person.has_password(),
            totp: person.has_authenticator(),
            memberships: person.memberships.iter().map(row).collect(),
            created_at: person.created_at.to_string(),
            seen_at: seen_at.map(|at| at.to_string()),
        }
    }
}

/// A page of people.
#[derive(Debug, Serialize, ToSchema)]
#[allow(dead_code, reason = "describes what a page of them is")]
pub(crate) struct UsersAnswer {
    /// The rows of the page, in the order in which they were made.
    data: Vec<UserRow>,
    /// Rows of all pages.
    total: usize,
    /// Which page this is.
    page: usize,
}

#[utoipa::path(
    post,
    path = "/admin/v1/users/link",
    operation_id = "createUserLink",
    tag = "Administration",
    summary = "Make a link that signs somebody in",
    description = "It works once, for 15 minutes of real time, and ends the link before it. Who is \
                   not there is made. Whoever becomes an operator or gets another role has to sign \
                   in again.",
    request_body = LinkBody,
    responses((status = 201, description = "Made; it is shown here only", body = LinkAnswer))
)]
async fn link(call: Call<()>) -> Answer {
    let body: LinkBody<'_> = call.json()?;
    let email = Login::new(&body.email).map_err(|error| ApiError::field("email", error))?;
    let member = member(&call, body.workspace.as_deref(), body.role.as_deref()).await?;
    let people = call.edge.engine.people();
    let operator = body.operator.unwrap_or(false);
    let made = people.create_link(email, operator, member, call.audit_context()).await?;
    let origin = call.edge.options.dashboard.origin();
    let answer = LinkAnswer {
        user_id: made.person.to_string(),
        url: format!("{origin}/ui/#in={}", made.token.reveal()),
        expires_at: made.expires_at.to_string(),
    };
    Ok(Reply::json(StatusCode::CREATED, &answer))
}

async fn member(
    call: &Call<()>,
    workspace: Option<&str>,
    role: Option<&str>,
) -> Result<Option<(WorkspaceId, Role)>, ApiError> {
    let (workspace, role) = match (workspace, role) {
        (None, None) => return Ok(None),
        (Some(workspace), Some(role)) => (workspace, role),
        (None, Some(_)) => return Err(ApiError::field("workspace", "must be given with `role`")),
        (Some(_), None) => return Err(ApiError::field("role", "must be given with `workspace`")),
    };
    let role = role.parse().map_err(|error| ApiError::field("role", error))?;
    let id = workspace.parse().map_err(|error| ApiError::field("workspace", error))?;
    match call.edge.has_workspace(&id).await? {
        true => Ok(Some((id, role))),
        false => Err(ApiError::not_found("no such workspace")),
    }
}

#[utoipa::path(
    get,
    path = "/admin/v1/users",
    operation_id = "listUsers",
    tag = "Administration",
    summary = "List the people who may sign in",
    params(
        ("search" = Option<String>, Query, description = "Only those whose e-mail address or name \
         has this in it"),
        ("page" = Option<i64>, Query, minimum = 1, description = "Which page, 1 by default"),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 200, description = "Rows of a page, \
         50 by default"),
    ),
    responses((status = 200, description = "A page of people", body = UsersAnswer))
)]
async fn list(call: Call<()>) -> Answer {
    let query = call.query()?;
    let page = Page::of(&query)?;
    let people = call.edge.engine.people();
    let mut all: Vec<Arc<Person>> = people.list();
    if let Some(text) = query.text("search")? {
        let text = text.to_lowercase();
        let has = |field: &str| field.to_lowercase().contains(&text);
        all.retain(|person| has(person.email.as_str()) || has(&person.name));
    }
    let seen = people.seen();
    Ok(Reply::ok(&page.cut(all, |person| UserRow::of(&person, seen.get(&person.id).copied()))))
}

/// Changes somebody. What is left out stays as it is.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct UserBody<'a> {
    /// What others call them.
    #[serde(borrow)]
    #[schema(example = "Ada", min_length = 1, max_length = 100)]
    name: Option<Cow<'a, str>>,
    /// Whether they may administer the server. Whoever becomes an operator, or is one no more, has
    /// to sign in again.
    #[schema(example = false)]
    operator: Option<bool>,
    /// Whether they may not sign in. Their sessions end at once.
    #[schema(example = true)]
    disabled: Option<bool>,
}

#[utoipa::path(
    patch,
    path = "/admin/v1/users/{user_id}",
    operation_id = "updateUser",
    tag = "Administration",
    summary = "Rename somebody, disable them, or make them an operator",
    description = "Or no longer.",
    params(("user_id" = String, Path, description = "The user's id")),
    request_body = UserBody,
    responses((status = 200, description = "Changed", body = UserRow))
)]
async fn update(mut call: Call<()>) -> Answer {
    let change = {
        let UserBody { name, operator, disabled } = call.json()?;
        name.as_deref().map_or(Ok(()), check_name)?;
        PersonChange { name: name.map(Box::from), operator, disabled }
    };
    let id: PersonId = call.path("user_id", MISSING).await?;
    call.keeps(&["email"], async || {
        let person = call.edge.engine.people().person(id);
        let person = person.ok_or_else(|| ApiError::not_found(MISSING))?;
        Ok(UserRow::of(&person, None))
    })
    .await?;
    let people = call.edge.engine.people();
    let person = people.update(id, change, call.session(), call.audit_context()).await?;
    Ok(Reply::ok(&UserRow::of(&person, people.seen().get(&id).copied())))
}
