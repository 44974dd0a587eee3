//! The members of a workspace, and their roles.

use std::borrow::Cow;
use std::sync::Arc;

use postrider_actors::domain::{PersonId, Timestamp};
use postrider_actors::{Members, Permission, Permissions, Person, Role};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::params::{workspace_anywhere, workspace_id};
use crate::http::pipeline::{Answer, ApiError, Call, Delegates, Page, Reply, Routes, route};

const MISSING: &str = "no such member";

pub(crate) fn routes() -> Routes {
    Routes::default()
        .routes(route!(list).guarded(Delegates::of(Permission::PeopleManage)))
        .routes(route!(update).guarded(Delegates::of(Permission::PeopleManage)))
        .routes(route!(remove).guarded(Delegates::of(Permission::PeopleManage)))
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
    let id: PersonId = call.path("user_id", MISSING).await?;
    call.keeps(&["email", "name"], async || {
        let person = call.edge.engine.people().person(id);
        let person = person.ok_or_else(|| ApiError::not_found(MISSING))?;
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
    let id: PersonId = call.path("user_id", MISSING).await?;
    let by = call.manager(call.caller);
    Members::of(call.edge.engine.people()).set_role(workspace, id, None, by).await?;
    Ok(Reply::no_content())
}
