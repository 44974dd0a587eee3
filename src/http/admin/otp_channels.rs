//! Sets and reads the channels over which one-time passwords of a workspace are sent.

use postrider_actors::Permission;
use postrider_actors::domain::event::chain::ChainStep;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::params::workspace_id;
use crate::http::otp::{StepBody, steps};
use crate::http::pipeline::{Answer, Call, Manages, Reply, Routes, route};

pub(crate) fn routes() -> Routes {
    Routes::default()
        .routes(route!(set).guarded(Manages::of(Permission::SettingsWrite)))
        .routes(route!(read).guarded(Manages::of(Permission::SettingsWrite)))
}

/// The chain of requests that name none.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = NewOtpChannels)]
pub(crate) struct OtpChannelsBody {
    /// One to three steps, each the name of a channel or an object with its time.
    #[schema(
        value_type = Vec<Object>, min_items = 1, max_items = 3,
        example = json!([{"channel": "messaging"}, {"channel": "sms"}])
    )]
    channels: Vec<StepBody>,
}

/// The chain of requests that name none.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = OtpChannels)]
pub(crate) struct OtpChannelsAnswer {
    /// In order, each with its `channel` and `timeout_seconds`.
    #[schema(value_type = Vec<Object>, example = json!([{"channel": "sms", "timeout_seconds": 30}]))]
    channels: Vec<StepRow>,
}

/// A step of a chain.
#[derive(Debug, Serialize)]
pub(crate) struct StepRow {
    /// The name of the channel: `messaging`, `sms` or `email`.
    channel: &'static str,
    /// The time after which the next step starts without a known delivery, in seconds.
    timeout_seconds: u16,
}

fn reply(steps: &[ChainStep]) -> Reply {
    let row = |step: &ChainStep| StepRow {
        channel: step.channel.as_str(),
        timeout_seconds: step.timeout_seconds,
    };
    Reply::ok(&OtpChannelsAnswer { channels: steps.iter().map(row).collect() })
}

#[utoipa::path(
    put,
    path = "/admin/v1/workspaces/{workspace}/otp-channels",
    operation_id = "setOtpChannels",
    tag = "Administration",
    summary = "Set over which channels one-time passwords of a workspace arrive",
    description = "The chain of requests that name no `channels`. A code goes over the first; each \
                   further step begins when the one before is refused or has had its time.",
    params(("workspace" = String, Path, description = "The workspace's id")),
    request_body = OtpChannelsBody,
    responses((status = 200, description = "The chain in force", body = OtpChannelsAnswer))
)]
async fn set(mut call: Call<()>) -> Answer {
    let steps = steps(&call.json::<OtpChannelsBody>()?.channels)?;
    let id = workspace_id(&mut call).await?;
    Ok(reply(&call.admin().set_otp_channels(&id, steps).await?))
}

#[utoipa::path(
    get,
    path = "/admin/v1/workspaces/{workspace}/otp-channels",
    operation_id = "readOtpChannels",
    tag = "Administration",
    summary = "Read over which channels one-time passwords of a workspace arrive",
    params(("workspace" = String, Path, description = "The workspace's id")),
    responses((status = 200, description = "The chain in force", body = OtpChannelsAnswer))
)]
async fn read(mut call: Call<()>) -> Answer {
    let id = workspace_id(&mut call).await?;
    Ok(reply(&call.edge.engine.admin().otp_channels(&id).await?))
}
