//! Invites to a workspace.

use std::borrow::Cow;

use axum::http::StatusCode;
use postrider_actors::domain::InviteId;
use postrider_actors::{Invite, Login, Members, Permission, Permissions, Role};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::params::{workspace_anywhere, workspace_id};
use crate::http::pipeline::{Answer, ApiError, Call, Delegates, Page, Reply, Routes, route};

const MISSING: &str = "no such invite";

pub(crate) fn routes() -> Routes {
    Routes::default()
        .routes(route!(create).guarded(Delegates::of(Permission::PeopleManage)))
        .routes(route!(list).guarded(Delegates::of(Permission::PeopleManage)))
        .routes(route!(remove).guarded(Delegates::of(Permission::PeopleManage)))
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
async fn create(mut call: Call<Permissions>) -> Answer {
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
async fn list(mut call: Call<Permissions>) -> Answer {
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
async fn remove(mut call: Call<Permissions>) -> Answer {
    let workspace = workspace_id(&mut call).await?;
    let id: InviteId = call.path("invite_id", MISSING).await?;
    let by = call.manager(call.caller);
    Members::of(call.edge.engine.people()).revoke(workspace, id, by).await?;
    Ok(Reply::no_content())
}
