//! Administers workspaces below `/admin/v1`, with the admin token.
//!
//! Several routes have the path's workspace and a display name in common, which are parsed here.

mod archive;
mod audit;
mod channels;
mod cluster;
mod keys;
mod limits;
mod members;
mod number_health;
mod numbers;
mod otp_settings;
mod portfolios;
mod system;
mod templates;
mod tokens;
mod users;
mod webhooks;
mod workspaces;

use postrider_actors::Workspace;
use postrider_actors::domain::{Timestamp, WorkspaceId};

use super::pipeline::{ApiError, Call, Routes};

pub(crate) use limits::LimitsSchema;
pub(crate) use number_health::KEEPS_FAILING;

/// The maximum length of a display name, in characters.
const NAME_CHARS_MAX: usize = 100;

/// Returns the routes of the administration. The routes for people are mounted only with the
/// dashboard.
pub(crate) fn routes(with_people: bool) -> Routes {
    let people = || users::routes().merge(members::routes());
    let people = if with_people { people() } else { Routes::default() };
    people
        .merge(workspaces::routes())
        .merge(keys::routes())
        .merge(tokens::routes())
        .merge(archive::routes())
        .merge(audit::routes())
        .merge(cluster::routes())
        .merge(limits::routes())
        .merge(channels::routes())
        .merge(otp_settings::routes())
        .merge(numbers::routes())
        .merge(portfolios::routes())
        .merge(number_health::routes())
        .merge(system::routes())
        .merge(templates::routes())
        .merge(webhooks::routes())
}

/// Returns the id of the workspace that the path names. The workspace may not exist.
async fn workspace_id<C>(call: &mut Call<C>) -> Result<WorkspaceId, ApiError> {
    call.path("workspace", "no such workspace").await
}

/// Returns the workspace that the path names; 404 if it does not exist. Changes that are made
/// through it are recorded as the caller's.
async fn workspace<C>(call: &mut Call<C>) -> Result<Workspace, ApiError> {
    let id = workspace_id(call).await?;
    let workspace = call.edge.engine.workspace(&id);
    let workspace = workspace.ok_or_else(|| ApiError::not_found("no such workspace"))?;
    Ok(call.audited(&workspace))
}

/// Returns the id of the workspace that the path names; 404 if it does not exist in any engine.
async fn workspace_anywhere<C>(call: &mut Call<C>) -> Result<WorkspaceId, ApiError> {
    let id = workspace_id(call).await?;
    match call.edge.has_workspace(&id).await? {
        true => Ok(id),
        false => Err(ApiError::not_found("no such workspace")),
    }
}

/// Checks a display name.
pub(crate) fn check_name(name: &str) -> Result<(), ApiError> {
    let chars = name.chars().count();
    if (1..=NAME_CHARS_MAX).contains(&chars) && !name.chars().any(char::is_control) {
        Ok(())
    } else {
        let rule = format_args!("must have 1 to {NAME_CHARS_MAX} characters, none of them control");
        Err(ApiError::field("name", rule))
    }
}

/// Reads `expires_at`, which must be in the future.
fn expiry(text: Option<&str>, now: Timestamp) -> Result<Option<Timestamp>, ApiError> {
    let bad = |rule: &dyn std::fmt::Display| ApiError::field("expires_at", rule);
    let Some(text) = text else { return Ok(None) };
    let at: Timestamp = text.parse().map_err(|error| bad(&error))?;
    if at > now { Ok(Some(at)) } else { Err(bad(&"must be in the future")) }
}
