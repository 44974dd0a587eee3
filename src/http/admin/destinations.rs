//! Sets and reads the prefixes that a workspace may send one-time passwords to.

use std::borrow::Cow;

use postrider_actors::Permission;
use postrider_actors::domain::destination::PREFIXES_MAX;
use postrider_actors::domain::{Destinations, DestinationsChange, Prefix};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::params::workspace_id;
use crate::http::pipeline::{Answer, ApiError, Call, Manages, Reply, Routes, route};

pub(crate) fn routes() -> Routes {
    Routes::default()
        .routes(route!(set).guarded(Manages::of(Permission::SettingsWrite)))
        .routes(route!(read).guarded(Manages::of(Permission::SettingsWrite)))
}

/// Where one-time passwords may go, by the first digits of phones: a country calling code, or a
/// part of a country such as 1876.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = Destinations)]
pub(crate) struct DestinationsBody<'a> {
    /// Only here; empty: everywhere.
    #[serde(borrow, default)]
    #[schema(value_type = Vec<String>, example = json!(["49", "43"]), max_items = 1000)]
    allow: Vec<Cow<'a, str>>,
    /// Not here, whatever is allowed.
    #[serde(borrow, default)]
    #[schema(value_type = Vec<String>, example = json!(["1876"]), max_items = 1000)]
    deny: Vec<Cow<'a, str>>,
    /// Not limited here, however few codes are verified; left out: as it is.
    #[serde(borrow, default, deserialize_with = "crate::http::pipeline::object::nullable")]
    #[schema(value_type = Vec<String>, example = json!(["4915"]), max_items = 1000)]
    safe: Option<Vec<Cow<'a, str>>>,
    /// What is done about destinations whose codes are rarely verified: `off`, `report` or
    /// `refuse`; null: what `[guard] adaptive` of the settings says; left out: as it is.
    #[serde(borrow, default, deserialize_with = "crate::http::pipeline::object::nullable")]
    #[schema(value_type = Option<String>, example = "refuse")]
    adaptive: Option<Option<Cow<'a, str>>>,
}

fn prefixes(field: &str, texts: &[Cow<'_, str>]) -> Result<Vec<Prefix>, ApiError> {
    if texts.len() > PREFIXES_MAX {
        let rule = format_args!("must have at most {PREFIXES_MAX} entries");
        return Err(ApiError::field(field, rule));
    }
    let parse = |(index, text): (usize, &Cow<'_, str>)| {
        text.parse().map_err(|error| ApiError::field(&format!("{field}[{index}]"), error))
    };
    texts.iter().enumerate().map(parse).collect()
}

fn reply(destinations: &Destinations) -> Reply {
    let texts = |prefixes: &[Prefix]| -> Vec<Cow<'static, str>> {
        prefixes.iter().map(|prefix| prefix.to_string().into()).collect()
    };
    let Destinations { allow, deny, safe, adaptive } = destinations;
    let adaptive = adaptive.map(|mode| mode.as_str().into());
    let (allow, deny, safe) = (texts(allow), texts(deny), Some(texts(safe)));
    Reply::ok(&DestinationsBody { allow, deny, safe, adaptive: Some(adaptive) })
}

#[utoipa::path(
    put,
    path = "/admin/v1/workspaces/{workspace}/destinations",
    operation_id = "setDestinations",
    tag = "Administration",
    summary = "Set where one-time passwords of a workspace may go",
    description = "`allow` and `deny` are empty where they are left out; `safe` and `adaptive` then stay as they are. One to anywhere \
                   else is answered 422 with the reason `destination_blocked`, and costs nothing. So is one to a destination that is \
                   limited because few of its codes are verified; `otp.decided` says why.",
    params(("workspace" = String, Path, description = "The workspace's id")),
    request_body = DestinationsBody,
    responses((status = 200, description = "The destinations in force", body = DestinationsBody))
)]
async fn set(mut call: Call<()>) -> Answer {
    let change = {
        let body: DestinationsBody<'_> = call.json()?;
        let adaptive = body.adaptive.map(|mode| mode.map(|mode| mode.parse()).transpose());
        DestinationsChange {
            allow: prefixes("allow", &body.allow)?,
            deny: prefixes("deny", &body.deny)?,
            safe: body.safe.map(|safe| prefixes("safe", &safe)).transpose()?,
            adaptive: adaptive.transpose().map_err(|error| ApiError::field("adaptive", error))?,
        }
    };
    let id = workspace_id(&mut call).await?;
    Ok(reply(&call.admin().set_destinations(&id, change).await?))
}

#[utoipa::path(
    get,
    path = "/admin/v1/workspaces/{workspace}/destinations",
    operation_id = "readDestinations",
    tag = "Administration",
    summary = "Read where one-time passwords of a workspace may go",
    params(("workspace" = String, Path, description = "The workspace's id")),
    responses((status = 200, description = "The destinations in force", body = DestinationsBody))
)]
async fn read(mut call: Call<()>) -> Answer {
    let id = workspace_id(&mut call).await?;
    Ok(reply(&call.edge.engine.admin().destinations(&id).await?))
}
