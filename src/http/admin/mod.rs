//! Administration, below `/admin/v1` with the admin token: what the service calls its dashboard.

pub(crate) mod credits;
pub(crate) mod destinations;
pub(crate) mod email;
pub(crate) mod keys;
pub(crate) mod limits;
pub(crate) mod numbers;
pub(crate) mod templates;
pub(crate) mod webhooks;
pub(crate) mod workspaces;

use postrider_actors::Workspace;
use postrider_actors::domain::WorkspaceId;

use super::auth::Administrator;
use super::error::ApiError;
use super::pipeline::Call;
use super::route::Routes;

/// Most characters of a name that people give to a workspace or a key.
const NAME_CHARS_MAX: usize = 100;

pub(crate) fn routes(routes: Routes<Administrator>) -> Routes<Administrator> {
    webhooks::routes(templates::routes(routes))
        .post("/admin/v1/workspaces", workspaces::create)
        .get("/admin/v1/workspaces", workspaces::list)
        .get("/admin/v1/workspaces/{workspace}", workspaces::read)
        .post("/admin/v1/workspaces/{workspace}/keys", keys::create)
        .get("/admin/v1/workspaces/{workspace}/keys", keys::list)
        .delete("/admin/v1/workspaces/{workspace}/keys/{key_id}", keys::revoke)
        .put("/admin/v1/workspaces/{workspace}/credits", credits::set)
        .post("/admin/v1/workspaces/{workspace}/credits", credits::add)
        .put("/admin/v1/workspaces/{workspace}/limits", limits::set)
        .post("/admin/v1/workspaces/{workspace}/email", email::open)
        .get("/admin/v1/workspaces/{workspace}/email", email::read)
        .delete("/admin/v1/workspaces/{workspace}/email", email::close)
        .put("/admin/v1/workspaces/{workspace}/destinations", destinations::set)
        .get("/admin/v1/workspaces/{workspace}/destinations", destinations::read)
        .post("/admin/v1/workspaces/{workspace}/numbers", numbers::connect)
        .get("/admin/v1/workspaces/{workspace}/numbers", numbers::list)
        .patch("/admin/v1/workspaces/{workspace}/numbers/{number_id}", numbers::update)
        .delete("/admin/v1/workspaces/{workspace}/numbers/{number_id}", numbers::disconnect)
}

/// The workspace that the path names; it may not exist.
async fn workspace(call: &mut Call<()>) -> Result<WorkspaceId, ApiError> {
    call.path("workspace", "no such workspace").await
}

/// The workspace that the path names, which exists.
async fn existing(call: &mut Call<()>) -> Result<Workspace, ApiError> {
    let id = workspace(call).await?;
    call.edge.engine.workspace(&id).ok_or_else(|| ApiError::not_found("no such workspace"))
}

/// A name for people.
fn check_name(name: &str) -> Result<(), ApiError> {
    let chars = name.chars().count();
    if (1..=NAME_CHARS_MAX).contains(&chars) && !name.chars().any(char::is_control) {
        Ok(())
    } else {
        let rule = format_args!("must have 1 to {NAME_CHARS_MAX} characters, none of them control");
        Err(ApiError::field("name", rule))
    }
}
