//! The members of a workspace with their roles, and the invites to it.

use std::borrow::Cow;
use std::sync::Arc;

use axum::http::StatusCode;
use postrider_actors::domain::{InviteId, PersonId, Timestamp};
use postrider_actors::{Invite, Login, Members, Permission, Permissions, Person, Role};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{workspace_anywhere, workspace_id};
use crate::http::pipeline::{Answer, ApiError, Call, Delegates, Page, Reply, Routes, route};

const NO_SUCH_MEMBER: &str = "no such member";
const NO_SUCH_INVITE: &str = "no such invite";

pub(crate) fn routes() -> Routes {
    Routes::default()
        .routes(route!(list).guarded(Delegates::of(Permission::PeopleManage)))
        .routes(route!(update).guarded(Delegates::of(Permission::PeopleManage)))
        .routes(route!(remove).guarded(Delegates::of(Permission::PeopleManage)))
        .routes(route!(create_invite).guarded(Delegates::of(Permission::PeopleManage)))
        .routes(route!(list_invites).guarded(Delegates::of(Permission::PeopleManage)))
        .routes(route!(revoke_invite).guarded(Delegates::of(Permission::PeopleManage)))
}

/// A member of a workspace.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MemberRow {
    /// Names them.
    #[schema(example = "usr_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    user_id: String,
    /// Their e-mail address.
    #[schema(example = "ada@acme.com")]
    email: String,
    /// What others call them.
    name: String,
    /// What they are here.
    #[schema(example = "agent")]
    role: &'static str,
    /// Whether they have an authenticator.
    totp: bool,
    /// When one of their sessions was used last, in real time, while they have any.
    #[schema(format = DateTime)]
    seen_at: Option<String>,
}

impl MemberRow {
    fn of(person: &Person, role: Role, seen_at: Option<Timestamp>) -> Self {
        Self {
            user_id: person.id.to_string(),
            email: person.email.to_string(),
            name: person.name.to_string(),
            role: role.as_str(),
            totp: person.has_authenticator(),
            seen_at: seen_at.map(|at| at.to_string()),
        }
    }
}

/// A page of members.
#[derive(Debug, Serialize, ToSchema)]
#[allow(dead_code, reason = "describes what a page of them is")]
pub(crate) struct MembersAnswer {
    /// The rows of the page, in the order in which the people were made.
    data: Vec<MemberRow>,
    /// Rows of all pages.
    total: usize,
    /// Which page this is.
    page: usize,
}

#[utoipa::path(
    get,
    path = "/admin/v1/workspaces/{workspace}/members",
    operation_id = "listMembers",
    tag = "Administration",
    summary = "List the members of a workspace",
    params(
        ("workspace" = String, Path, description = "The workspace's id"),
        ("page" = Option<i64>, Query, minimum = 1, description = "Which page, 1 by default"),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 200, description = "Rows of a page, \
         50 by default"),
    ),
    responses((status = 200, description = "A page of members", body = MembersAnswer))
)]
async fn list(mut call: Call<Permissions>) -> Answer {
    let page = Page::of(&call.query()?)?;
    let workspace = workspace_anywhere(&mut call).await?;
    let people = call.edge.engine.people();
    let (all, seen) = (Members::of(people).list(&workspace), people.seen());
    let row = |(person, role): (Arc<Person>, Role)| {
        MemberRow::of(&person, role, seen.get(&person.id).copied())
    };
    Ok(Reply::ok(&page.cut(all, row)))
}

/// What a member is to be.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct MemberBody<'a> {
    /// `owner`, `admin`, `marketer`, `agent`, `analyst` or `developer`.
    #[serde(borrow)]
    #[schema(example = "agent")]
    role: Cow<'a, str>,
}

#[utoipa::path(
    patch,
    path = "/admin/v1/workspaces/{workspace}/members/{user_id}",
    operation_id = "updateMember",
    tag = "Administration",
    summary = "Give a member another role",
    description = "They have to sign in again. Only owners make and unmake owners, and the last one \
                   stays one: 409 with the reason `last_owner`.",
    params(
        ("workspace" = String, Path, description = "The workspace's id"),
        ("user_id" = String, Path, description = "The user's id"),
    ),
    request_body = MemberBody,
    responses((status = 200, description = "Changed", body = MemberRow))
)]
async fn update(mut call: Call<Permissions>) -> Answer {
    let role = call.json::<MemberBody<'_>>()?.role.parse();
    let role: Role = role.map_err(|error| ApiError::field("role", error))?;
    let workspace = workspace_id(&mut call).await?;
    let id: PersonId = call.path("user_id", NO_SUCH_MEMBER).await?;
    call.keeps(&["email", "name"], async || {
        let person = call.edge.engine.people().person(id);
        let person = person.ok_or_else(|| ApiError::not_found(NO_SUCH_MEMBER))?;
        Ok(MemberRow::of(&person, role, None))
    })
    .await?;
    let (people, by) = (call.edge.engine.people(), call.manager(call.caller));
    let person = Members::of(people).set_role(workspace, id, Some(role), by).await?;
    Ok(Reply::ok(&MemberRow::of(&person, role, people.seen().get(&id).copied())))
}

#[utoipa::path(
    delete,
    path = "/admin/v1/workspaces/{workspace}/members/{user_id}",
    operation_id = "removeMember",
    tag = "Administration",
    summary = "Take somebody out of a workspace",
    description = "At once: for them the workspace is not there any more. Their account stays. The last \
                   owner stays too: 409 with the reason `last_owner`.",
    params(
        ("workspace" = String, Path, description = "The workspace's id"),
        ("user_id" = String, Path, description = "The user's id"),
    ),
    responses((status = 204, description = "Taken out"))
)]
async fn remove(mut call: Call<Permissions>) -> Answer {
    let workspace = workspace_id(&mut call).await?;
    let id: PersonId = call.path("user_id", NO_SUCH_MEMBER).await?;
    let by = call.manager(call.caller);
    Members::of(call.edge.engine.people()).set_role(workspace, id, None, by).await?;
    Ok(Reply::no_content())
}

/// Whom to invite.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct InviteBody<'a> {
    /// Their e-mail address.
    #[serde(borrow)]
    #[schema(example = "bob@acme.com", max_length = 256)]
    email: Cow<'a, str>,
    /// What they will be: `owner`, `admin`, `marketer`, `agent`, `analyst` or `developer`.
    #[serde(borrow)]
    #[schema(example = "agent")]
    role: Cow<'a, str>,
}

/// An open invite.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct InviteRow {
    /// Names the invite.
    #[schema(example = "inv_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    id: String,
    /// Whom it is for.
    #[schema(example = "bob@acme.com")]
    email: String,
    /// What they will be.
    #[schema(example = "agent")]
    role: &'static str,
    /// When it stops working, in real time.
    #[schema(format = DateTime)]
    expires_at: String,
}

impl From<Invite> for InviteRow {
    fn from(invite: Invite) -> Self {
        Self {
            id: invite.id.to_string(),
            email: invite.email.to_string(),
            role: invite.role.as_str(),
            expires_at: invite.ends_at.to_string(),
        }
    }
}

/// An invite that was made; without `Debug`, as it makes somebody a member.
#[derive(Serialize, ToSchema)]
pub(crate) struct NewInviteAnswer {
    #[serde(flatten)]
    row: InviteRow,
    /// Where whoever is invited joins. It works once, and is shown here only.
    url: String,
}

/// A page of invites.
#[derive(Debug, Serialize, ToSchema)]
#[allow(dead_code, reason = "describes what a page of them is")]
pub(crate) struct InvitesAnswer {
    /// The rows of the page, oldest first.
    data: Vec<InviteRow>,
    /// Rows of all pages.
    total: usize,
    /// Which page this is.
    page: usize,
}

#[utoipa::path(
    post,
    path = "/admin/v1/workspaces/{workspace}/invites",
    operation_id = "createInvite",
    tag = "Administration",
    summary = "Invite somebody to a workspace",
    description = "It works once, for 72 hours of real time, and ends the open invite of the same \
                   address. Only owners invite owners. A workspace has at most 200 open invites.",
    params(("workspace" = String, Path, description = "The workspace's id")),
    request_body = InviteBody,
    responses((status = 201, description = "Made; its address is shown here only",
               body = NewInviteAnswer))
)]
async fn create_invite(mut call: Call<Permissions>) -> Answer {
    let body: InviteBody<'_> = call.json()?;
    let email = Login::new(&body.email).map_err(|error| ApiError::field("email", error))?;
    let role: Role = body.role.parse().map_err(|error| ApiError::field("role", error))?;
    let id = workspace_id(&mut call).await?;
    let by = call.manager(call.caller);
    let (engine, is_alone) = (call.edge.engine.clone(), call.edge.options.elsewhere.is_none());
    let is_elsewhere = !is_alone && call.edge.has_workspace(&id).await?;
    let is_there = move |id: &_| is_elsewhere || is_alone && engine.workspace(id).is_some();
    let members = Members::of(call.edge.engine.people());
    let made = members.invite(id, email, role, is_there, by).await?;
    let origin = call.edge.options.dashboard.origin();
    let url = format!("{origin}/ui/join#invite={}", made.token.reveal());
    let answer = NewInviteAnswer { row: made.invite.into(), url };
    Ok(Reply::json(StatusCode::CREATED, &answer))
}

#[utoipa::path(
    get,
    path = "/admin/v1/workspaces/{workspace}/invites",
    operation_id = "listInvites",
    tag = "Administration",
    summary = "List the open invites to a workspace",
    params(
        ("workspace" = String, Path, description = "The workspace's id"),
        ("page" = Option<i64>, Query, minimum = 1, description = "Which page, 1 by default"),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 200, description = "Rows of a page, \
         50 by default"),
    ),
    responses((status = 200, description = "A page of invites", body = InvitesAnswer))
)]
async fn list_invites(mut call: Call<Permissions>) -> Answer {
    let page = Page::of(&call.query()?)?;
    let workspace = workspace_anywhere(&mut call).await?;
    let all = Members::of(call.edge.engine.people()).invites(&workspace);
    Ok(Reply::ok(&page.cut(all, InviteRow::from)))
}

#[utoipa::path(
    delete,
    path = "/admin/v1/workspaces/{workspace}/invites/{invite_id}",
    operation_id = "deleteInvite",
    tag = "Administration",
    summary = "Take an invite back",
    params(
        ("workspace" = String, Path, description = "The workspace's id"),
        ("invite_id" = String, Path, description = "The invite's id"),
    ),
    responses((status = 204, description = "It does not work any more"))
)]
async fn revoke_invite(mut call: Call<Permissions>) -> Answer {
    let workspace = workspace_id(&mut call).await?;
    let id: InviteId = call.path("invite_id", NO_SUCH_INVITE).await?;
    let by = call.manager(call.caller);
    Members::of(call.edge.engine.people()).revoke(workspace, id, by).await?;
    Ok(Reply::no_content())
}
