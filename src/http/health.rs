//! Serves orchestrators and metrics collectors: health, readiness, metrics. Needs no key.

use axum::http::StatusCode;
use postrider_actors::Health;
use serde::Serialize;
use utoipa::ToSchema;

use super::pipeline::{Answer, ApiError, Call, Code, Open, Reply, Routes, route};

pub(crate) fn routes() -> Routes {
    Routes::default()
        .routes(route!(alive).guarded(Open))
        .routes(route!(ready).guarded(Open))
        .routes(route!(metrics).guarded(Open))
}

/// How the process is.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HealthAnswer {
    /// Always `ok`.
    #[schema(example = "ok")]
    status: &'static str,
}

/// How a server is that takes work: a single one, or a node of a cluster.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum ReadyAnswer {
    Server(ServerReady),
    Node(NodeReady),
}

/// How a node of a cluster is that takes work.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NodeReady {
    /// Always `ready`.
    #[schema(example = "ready")]
    pub(crate) status: &'static str,
    /// The cluster's name.
    #[schema(example = "postrider")]
    pub(crate) cluster: String,
    /// The node's name.
    #[schema(example = "pr-1")]
    pub(crate) node: String,
    /// How many shards it owns now. It answers for all of them, whoever owns them.
    #[schema(example = 8)]
    pub(crate) shards_owned: usize,
    /// Always `true`: NATS answered within the last three seconds.
    #[schema(example = true)]
    pub(crate) log_reachable: bool,
    /// How long the node may own shards without another renewal, in milliseconds.
    #[schema(example = 9991)]
    pub(crate) lease_ms: u64,
    /// What an operator must look at although the node takes work; left out where there is nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(example = json!([]))]
    pub(crate) warnings: Vec<String>,
}

/// How a single server is that takes work.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ServerReady {
    /// Always `ready`.
    #[schema(example = "ready")]
    status: &'static str,
    /// Whether nothing is sent until `POST /admin/v1/release`.
    #[schema(example = false)]
    held: bool,
    /// The last position of the log.
    #[schema(example = 4711)]
    log_position: u64,
    /// The position of the log that the records have.
    #[schema(example = 4711)]
    view_position: u64,
    /// The position up to which the records surely survive a power cut; what follows is in the log.
    #[schema(example = 4705)]
    view_synced: u64,
    /// What an operator must look at although the server takes work, such as that keys can be read
    /// on their way, or that the machine's clock is wrong; left out where there is nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(example = json!([]))]
    warnings: Vec<String>,
}

#[utoipa::path(
    get,
    path = "/healthz",
    operation_id = "healthz",
    tag = "Operation",
    summary = "Whether the process runs",
    responses((status = 200, description = "It does", body = HealthAnswer))
)]
async fn alive(_: Call<()>) -> Answer {
    Ok(Reply::ok(&HealthAnswer { status: "ok" }))
}

#[utoipa::path(
    get,
    path = "/readyz",
    operation_id = "readyz",
    tag = "Operation",
    summary = "Whether the server takes work",
    description = "503 while it does not, with what stands in the way in `message` and, one by one, \
                   in `reasons`. A server that is held is ready, and says so in `held`.",
    responses((status = 200, description = "It does", body = ReadyAnswer))
)]
async fn ready(call: Call<()>) -> Answer {
    let health = call.edge.engine.health();
    if health.ready {
        let mut warnings = call.edge.options.warnings.clone();
        warnings.extend(health.warnings);
        let Health { held, log_position, view_position, view_synced, .. } = health;
        return Ok(Reply::ok(&ReadyAnswer::Server(ServerReady {
            status: "ready",
            held,
            log_position,
            view_position,
            view_synced,
            warnings,
        })));
    }
    let message = match health.reasons.as_slice() {
        [] => "the engine takes no work".to_owned(),
        reasons => reasons.join("; "),
    };
    let refused = ApiError::new(Code::ServiceUnavailable, message);
    Err(refused.because(health.reason).with_reasons(health.reasons))
}

#[utoipa::path(
    get,
    path = "/metrics",
    operation_id = "metrics",
    tag = "Operation",
    summary = "Metrics for Prometheus",
    responses((
        status = 200,
        description = "Prometheus' text format",
        body = String,
        content_type = "text/plain"
    ))
)]
async fn metrics(call: Call<()>) -> Answer {
    let text = call.edge.options.metrics.render();
    Ok(Reply::of(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text))
}
