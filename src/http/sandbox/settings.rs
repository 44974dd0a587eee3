//! Serves the settings of the sandbox's automatic behaviour.

use std::borrow::Cow;

use postrider_actors::{AutoDeliver, Permission};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::http::pipeline::{Answer, ApiError, Call, Key, Principal, Reply, Routes, route};

pub(super) fn routes() -> Routes {
    let guard = Key::of(Permission::SandboxUse);
    Routes::default().routes(route!(read).guarded(guard)).routes(route!(set).guarded(guard))
}

/// What the sandbox does by itself.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SandboxSettings {
    /// What is reported of each message that it delivers: `none`, `delivered` or `read`.
    #[schema(example = "none")]
    auto_deliver: &'static str,
}

/// What the sandbox is to do by itself.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct NewSandboxSettings<'a> {
    /// What is reported of each message that it delivers from now on: `none`, `delivered` or
    /// `read`.
    #[serde(borrow)]
    #[schema(example = "delivered")]
    auto_deliver: Cow<'a, str>,
}

#[utoipa::path(
    get,
    path = "/v1/sandbox/settings",
    operation_id = "readSandboxSettings",
    tag = "Sandbox",
    summary = "Read what the sandbox does by itself",
    responses((status = 200, description = "Its settings", body = SandboxSettings))
)]
async fn read(call: Call<Principal>) -> Answer {
    let auto_deliver = call.edge.engine.sandbox().auto_deliver(call.caller.workspace().id());
    Ok(Reply::ok(&SandboxSettings { auto_deliver: auto_deliver.as_str() }))
}

#[utoipa::path(
    put,
    path = "/v1/sandbox/settings",
    operation_id = "setSandboxSettings",
    tag = "Sandbox",
    summary = "Set what the sandbox does by itself",
    description = "At first nothing is reported but what `POST /v1/sandbox/reports` asks for. In \
                   memory: `none` again after a restart.",
    request_body = NewSandboxSettings,
    responses((status = 200, description = "Its settings", body = SandboxSettings))
)]
async fn set(call: Call<Principal>) -> Answer {
    let auto_deliver = {
        let body: NewSandboxSettings<'_> = call.json()?;
        let rule = "must be one of none, delivered, read";
        AutoDeliver::of(&body.auto_deliver).ok_or_else(|| ApiError::field("auto_deliver", rule))?
    };
    call.edge.engine.sandbox().set_auto_deliver(call.caller.workspace().id(), auto_deliver);
    Ok(Reply::ok(&SandboxSettings { auto_deliver: auto_deliver.as_str() }))
}
