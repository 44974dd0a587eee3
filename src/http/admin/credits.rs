//! Sets a workspace's balance and adds to it.

use postrider_actors::domain::prices::CREDITS_MAX;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::params::workspace_id;
use crate::http::pipeline::{Administrator, Answer, Call, Integer, Reply, Routes, route};

pub(crate) fn routes() -> Routes {
    Routes::default()
        .routes(route!(set).guarded(Administrator))
        .routes(route!(add).guarded(Administrator))
}

/// A balance to be set.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct SetCredits {
    /// The new balance.
    #[schema(value_type = i64, minimum = 0, maximum = 9_007_199_254_740_991_i64, example = 1000)]
    credits: Integer,
}

/// Credits to be added.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct AddCredits {
    /// How many.
    #[schema(value_type = i64, minimum = 0, maximum = 9_007_199_254_740_991_i64, example = 500)]
    add: Integer,
}

/// A balance.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CreditsAnswer {
    /// The balance after the change.
    #[schema(example = 1500)]
    credits: u64,
}

#[utoipa::path(
    put,
    path = "/admin/v1/workspaces/{workspace}/credits",
    operation_id = "setCredits",
    tag = "Administration",
    summary = "Set the balance",
    params(("workspace" = String, Path, description = "The workspace's id")),
    request_body = SetCredits,
    responses((status = 200, description = "The balance", body = CreditsAnswer))
)]
async fn set(mut call: Call<()>) -> Answer {
    let credits = call.json::<SetCredits>()?.credits.within("credits", 0, CREDITS_MAX)?;
    let id = workspace_id(&mut call).await?;
    let credits = call.admin().set_credits(&id, credits).await?;
    Ok(Reply::ok(&CreditsAnswer { credits }))
}

#[utoipa::path(
    post,
    path = "/admin/v1/workspaces/{workspace}/credits",
    operation_id = "addCredits",
    tag = "Administration",
    summary = "Add to the balance",
    description = "422 with the reason `credits_too_large` when the sum would be more than \
        9007199254740991.",
    params(("workspace" = String, Path, description = "The workspace's id")),
    request_body = AddCredits,
    responses((status = 200, description = "The balance", body = CreditsAnswer))
)]
async fn add(mut call: Call<()>) -> Answer {
    let add = call.json::<AddCredits>()?.add.within("add", 0, CREDITS_MAX)?;
    let id = workspace_id(&mut call).await?;
    let credits = call.admin().add_credits(&id, add).await?;
    Ok(Reply::ok(&CreditsAnswer { credits }))
}
