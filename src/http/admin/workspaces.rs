//! Creates, lists and reads workspaces.

use std::borrow::Cow;

use axum::http::StatusCode;
use postrider_actors::domain::{Limits, WorkspaceId};
use postrider_actors::{
    CreateWorkspaceError, DeleteWorkspaceError, Permission, WorkspaceInfo, WorkspaceState,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{check_name, workspace_id};
use crate::http::pipeline::{
    Administrator, Answer, ApiError, BodyKind, BodySize, Call, Code, Manages, Page, Reply, Routes,
    route,
};

/// The rule for the body of a deletion.
const REPEATED: &str = "must be the workspace's id or name, repeated";

pub(crate) fn routes() -> Routes {
    Routes::default()
        .routes(route!(create).guarded(Administrator))
        .routes(route!(list).guarded(Administrator))
        .routes(route!(read).guarded(Administrator))
        .routes(
            route!(remove)
                .takes(BodyKind::Json(BodySize::Usual))
                .guarded(Manages::of(Permission::WorkspaceDelete)),
        )
}

/// A workspace to be made.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct NewWorkspace<'a> {
    /// Its id, for ever.
    #[serde(borrow)]
    #[schema(example = "acme", pattern = "^[a-z0-9-]{1,40}$")]
    id: Cow<'a, str>,
    /// Its name, for people.
    #[serde(borrow)]
    #[schema(example = "Acme", min_length = 1, max_length = 100)]
    name: Cow<'a, str>,
}

/// How much of what a workspace has.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Counts {
    /// API keys that are not revoked.
    keys: usize,
    /// Connected numbers.
    numbers: usize,
    /// One-time password requests in memory, ended ones of the last hour included.
    otps: usize,
}

/// What a workspace uses.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct UsageAnswer {
    /// The bytes of its records and events, keys included; compare `bytes_max`.
    bytes: u64,
    /// The broadcasts that it keeps; compare `broadcasts_kept_max`.
    broadcasts: u64,
}

/// A workspace.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct WorkspaceAnswer {
    /// Its id.
    #[schema(example = "acme")]
    id: String,
    /// Its name.
    #[schema(example = "Acme")]
    name: String,
    /// When it was made.
    #[schema(format = DateTime)]
    created_at: String,
    /// Its balance.
    credits: u64,
    /// The limits in force; 0 is no limit.
    #[schema(value_type = super::limits::LimitsSchema)]
    limits: Limits,
    /// How much it has.
    counts: Counts,
    /// What of it its quotas are compared with.
    usage: UsageAnswer,
    /// `idle`: nothing in memory; `live`; `restarting`; `parked`: stopped for good.
    #[schema(example = "live")]
    state: &'static str,
    /// Why it is parked.
    #[serde(skip_serializing_if = "Option::is_none")]
    parked_reason: Option<String>,
}

/// Returns the word for a state, and the reason if the workspace is parked.
pub(super) fn state_words(state: WorkspaceState) -> (&'static str, Option<String>) {
    match state {
        WorkspaceState::Idle => ("idle", None),
        WorkspaceState::Live => ("live", None),
        WorkspaceState::Restarting => ("restarting", None),
        WorkspaceState::Parked(reason) => ("parked", Some(reason)),
    }
}

impl From<WorkspaceInfo> for WorkspaceAnswer {
    fn from(info: WorkspaceInfo) -> Self {
        let (state, parked_reason) = state_words(info.state);
        Self {
            id: info.id.to_string(),
            name: info.name,
            created_at: info.created_at.to_string(),
            credits: info.credits,
            limits: info.limits,
            counts: Counts { keys: info.keys, numbers: info.numbers, otps: info.otps },
            usage: UsageAnswer { bytes: info.usage.bytes, broadcasts: info.usage.broadcasts },
            state,
            parked_reason,
        }
    }
}

/// A page of workspaces.
#[derive(Debug, Serialize, ToSchema)]
#[allow(dead_code, reason = "describes what a page of them is")]
pub(crate) struct WorkspacesAnswer {
    /// The rows of the page.
    data: Vec<WorkspaceAnswer>,
    /// Rows of all pages.
    total: usize,
    /// Which page this is.
    page: usize,
}

#[utoipa::path(
    post,
    path = "/admin/v1/workspaces",
    operation_id = "createWorkspace",
    tag = "Administration",
    summary = "Make a workspace",
    description = "It has no key, no number and no credits yet.",
    request_body = NewWorkspace,
    responses((status = 201, description = "Made", body = WorkspaceAnswer))
)]
async fn create(call: Call<()>) -> Answer {
    let body: NewWorkspace<'_> = call.json()?;
    let id: WorkspaceId = body.id.parse().map_err(|error| ApiError::field("id", error))?;
    check_name(&body.name)?;
    let info = call.admin().create_workspace(id, body.name.into_owned()).await?;
    // Requests of a deleted workspace with the same id may have ended after its deletion.
    call.edge.requests.forget(&info.id);
    Ok(Reply::json(StatusCode::CREATED, &WorkspaceAnswer::from(info)))
}

#[utoipa::path(
    get,
    path = "/admin/v1/workspaces",
    operation_id = "listWorkspaces",
    tag = "Administration",
    summary = "List the workspaces",
    params(
        ("page" = Option<i64>, Query, minimum = 1, description = "Which page, 1 by default"),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 200, description = "Rows of a page, \
         50 by default"),
    ),
    responses((status = 200, description = "A page of workspaces", body = WorkspacesAnswer))
)]
async fn list(call: Call<()>) -> Answer {
    let page = Page::of(&call.query()?)?;
    let admin = call.edge.engine.admin();
    let (infos, total) = admin.workspaces(page.skip(), page.limit()).await?;
    let data = infos.into_iter().map(WorkspaceAnswer::from).collect();
    Ok(Reply::ok(&page.of_rows(data, total)))
}

#[utoipa::path(
    get,
    path = "/admin/v1/workspaces/{workspace}",
    operation_id = "readWorkspace",
    tag = "Administration",
    summary = "Read a workspace",
    params(("workspace" = String, Path, description = "The workspace's id")),
    responses((status = 200, description = "The workspace", body = WorkspaceAnswer))
)]
async fn read(mut call: Call<()>) -> Answer {
    let id = workspace_id(&mut call).await?;
    let info = call.edge.engine.admin().workspace(&id).await?;
    Ok(Reply::ok(&WorkspaceAnswer::from(info)))
}

/// What confirms that a workspace is to be deleted.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct WorkspaceDeletion<'a> {
    /// The workspace's id or its name, repeated.
    #[serde(borrow)]
    #[schema(example = "acme")]
    confirm: Option<Cow<'a, str>>,
    /// The same under its earlier name; it is answered 204.
    #[serde(borrow)]
    #[schema(example = json!(null))]
    name: Option<Cow<'a, str>>,
}

impl WorkspaceDeletion<'_> {
    /// Returns the name of the given field, the text that it repeats, and the status of the answer.
    fn check(self) -> Result<(&'static str, String, StatusCode), ApiError> {
        match (self.confirm, self.name) {
            (Some(text), None) => Ok(("confirm", text.into_owned(), StatusCode::ACCEPTED)),
            (None, Some(text)) => Ok(("name", text.into_owned(), StatusCode::NO_CONTENT)),
            (None, None) => Err(ApiError::field("confirm", REPEATED)),
            (Some(_), Some(_)) => Err(ApiError::field("name", "must not be given with `confirm`")),
        }
    }
}

#[utoipa::path(
    delete,
    path = "/admin/v1/workspaces/{workspace}",
    operation_id = "deleteWorkspace",
    tag = "Administration",
    summary = "Delete a workspace",
    description = "With everything in it, for good. At once its keys are answered 401 and callbacks of \
                   its numbers 404, and its broadcasts and webhooks stop. Its rows are deleted in the \
                   background; until all are, a workspace of the same id is refused with 409. \
                   `confirm` repeats its id or its name.",
    params(("workspace" = String, Path, description = "The workspace's id")),
    request_body = WorkspaceDeletion,
    responses(
        (status = 202, description = "Deleted; its rows go in the background"),
        (status = 204, description = "The same, where `name` was given"),
    )
)]
async fn remove(mut call: Call<()>) -> Answer {
    let (field, repeated, done) = call.json::<WorkspaceDeletion<'_>>()?.check()?;
    let id = workspace_id(&mut call).await?;
    let refusal = |error| match error {
        DeleteWorkspaceError::NoSuchWorkspace => ApiError::not_found("no such workspace"),
        DeleteWorkspaceError::WrongName => ApiError::field(field, REPEATED),
        DeleteWorkspaceError::Unavailable(error) => error.into(),
    };
    call.admin().delete_workspace(&id, &repeated).await.map_err(refusal)?;
    call.edge.requests.forget(&id);
    Ok(Reply::empty(done))
}

impl From<CreateWorkspaceError> for ApiError {
    fn from(error: CreateWorkspaceError) -> Self {
        match error {
            CreateWorkspaceError::Exists | CreateWorkspaceError::BeingRemoved => {
                Self::new(Code::Conflict, error.to_string())
            }
            CreateWorkspaceError::Unavailable(error) => error.into(),
        }
    }
}
