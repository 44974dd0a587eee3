//! Lists the newest requests of a workspace.

use axum::http::StatusCode;
use postrider_actors::Permission;
use serde::Serialize;
use utoipa::ToSchema;

use super::events::{after_cursor, encode_cursor};
use super::pipeline::{
    Answer, Call, Key, LIMIT_DEFAULT, LIMIT_MAX, Principal, Reply, Routes, route,
};
use super::request_log::LoggedRequest;

pub(crate) fn routes() -> Routes {
    Routes::default().routes(route!(list).guarded(Key::of(Permission::RequestsRead)))
}

/// Who made a request.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RequestPrincipal {
    /// `key`, `user` or `admin_token`.
    #[schema(example = "key")]
    kind: &'static str,
    /// The id; the admin token of the settings has none.
    #[schema(example = "key_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    id: Option<String>,
    /// The name that it had.
    #[schema(example = "shop")]
    name: String,
}

/// A request that was answered.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RequestRow {
    /// The `X-Request-Id` of the answer.
    #[schema(example = "req_01jd3v0x5n8m7k2q4r6s8t0w2y")]
    request_id: String,
    /// When it was answered.
    #[schema(format = DateTime, example = "2026-01-31T09:25:00.000Z")]
    at: String,
    /// The method.
    #[schema(example = "POST")]
    method: &'static str,
    /// The route as this document writes it, without what stands in its places; `(none)`: there is
    /// no such route, `(method)`: it has no such method.
    #[schema(example = "/v1/otp/send")]
    route: String,
    /// The answer's status.
    #[schema(example = 200)]
    status: u16,
    /// The `code` of a refusal, as its body had it; null where it was not refused.
    #[schema(example = "UNPROCESSABLE")]
    code: Option<&'static str>,
    /// The `reason` of a refusal, as its body had it; null where it had none.
    #[schema(example = "destination_blocked")]
    reason: Option<&'static str>,
    /// How long the answer took, in milliseconds.
    #[schema(example = 1.25)]
    ms: f64,
    /// Who made it.
    principal: RequestPrincipal,
}

impl From<LoggedRequest> for RequestRow {
    fn from(request: LoggedRequest) -> Self {
        let LoggedRequest { request_id, at, meter, status, cause, took, caller } = request;
        Self {
            request_id,
            at: at.to_string(),
            method: meter.method(),
            route: meter.route().to_owned(),
            status: status.as_u16(),
            code: cause.map(|(code, _)| code.as_str()),
            reason: cause.and_then(|(_, reason)| reason),
            ms: took.as_micros() as f64 / 1_000.0,
            principal: RequestPrincipal {
                kind: caller.kind.as_str(),
                id: caller.id(),
                name: caller.name,
            },
        }
    }
}

/// A part of the requests.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RequestsAnswer {
    /// Newest first.
    data: Vec<RequestRow>,
    /// Give it as `cursor`, with the same `status`, to go on after this part; null at the oldest.
    #[schema(example = "AQAAAAAAAAAB")]
    next_cursor: Option<String>,
}

#[utoipa::path(
    get,
    path = "/v1/requests",
    operation_id = "listRequests",
    tag = "Operation",
    summary = "List the newest requests",
    description = "The newest 1,000 below `/v1` of a workspace, refused ones too, as long as the server \
                   runs. They are kept of the 256 workspaces that call; where there are more, of \
                   those that were first, until one is silent for a minute. No body and no address \
                   is kept.",
    params(
        ("status" = Option<i64>, Query, minimum = 100, maximum = 599, description = "Only those \
         that were answered with this status"),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the part before"),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 200, description = "Most rows, 50 \
         by default"),
    ),
    responses((status = 200, description = "Requests, newest first", body = RequestsAnswer))
)]
async fn list(call: Call<Principal>) -> Answer {
    let query = call.query()?;
    let limit = query.integer("limit", LIMIT_DEFAULT, 1, LIMIT_MAX)?;
    let status = match query.integer("status", 0, 100, 599)? {
        0 => None,
        status => u16::try_from(status).ok().and_then(|it| StatusCode::from_u16(it).ok()),
    };
    let before = after_cursor(&query)?;
    let workspace = call.caller.workspace().id();
    let (found, next) = call.edge.requests.before(workspace, before, status, limit);
    Ok(Reply::ok(&RequestsAnswer {
        data: found.into_iter().map(RequestRow::from).collect(),
        next_cursor: next.map(encode_cursor),
    }))
}
