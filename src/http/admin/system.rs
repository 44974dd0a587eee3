//! Shows an operator the state of the server, its clock, and each workspace at a glance.
//!
//! It also has the clock follow the machine's, and releases a server that is held.

use std::time::Duration;

use axum::http::StatusCode;
use postrider_actors::WorkspaceGlance;
use serde::Serialize;
use utoipa::ToSchema;

use super::workspace_id;
use super::workspaces::state_words;
use crate::http::edge::Edge;
use crate::http::elsewhere::ServerFigures;
use crate::http::pipeline::{Administrator, Answer, ApiError, Call, Page, Reply, Routes, route};
use crate::settings::InForce;

pub(crate) fn routes() -> Routes {
    Routes::default()
        .routes(route!(read_system).guarded(Administrator))
        .routes(route!(overview).guarded(Administrator))
        .routes(route!(unpark).guarded(Administrator))
        .routes(route!(read_clock).guarded(Administrator))
        .routes(route!(follow_clock).guarded(Administrator))
        .routes(route!(release).guarded(Administrator))
}

/// How what is durable does.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SystemStorage)]
pub(crate) struct StorageAnswer {
    /// `ok`, or `failing`: nothing more becomes durable.
    #[schema(example = "ok")]
    state: &'static str,
    /// Within how many milliseconds 99 of 100 of the last thousand commits were durable; null while
    /// there was none since the start, and on a node of a cluster.
    #[schema(example = 3.2)]
    commit_p99_ms: Option<f64>,
    /// Free bytes of the disk with the data; null where they are not measured.
    disk_free_bytes: Option<u64>,
    /// Bytes of all files in the data directory; null without one.
    data_bytes: Option<u64>,
}

/// The newest snapshot, which shortens the next start.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SystemSnapshots)]
pub(crate) struct SnapshotsAnswer {
    /// When it was written, in real time; null while there is none, and on a node of a cluster.
    #[schema(format = DateTime)]
    last_at: Option<String>,
    /// Its bytes.
    bytes: Option<u64>,
}

/// How many workspaces are in which state.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = SystemWorkspaces)]
pub(crate) struct WorkspaceCounts {
    /// Those that are held in memory; of a node, of the shards that it owns.
    live: usize,
    /// Those that cannot start.
    parked: usize,
}

/// How the server does.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SystemAnswer<'a> {
    /// The node of a cluster that this is about; null on a single server.
    node: Option<String>,
    /// The server's version.
    #[schema(example = "0.1.0")]
    version: &'static str,
    /// When it started, in engine time; of a node, when it began to own the first of its shards.
    #[schema(format = DateTime)]
    started_at: String,
    /// Engine time; of a node, that of one of its shards.
    #[schema(format = DateTime)]
    now: String,
    /// How far it is ahead of real time.
    #[schema(minimum = 0, example = 0)]
    offset_seconds: u64,
    /// Whether it takes work; `GET /readyz` says why not.
    ready: bool,
    /// What is durable.
    storage: StorageAnswer,
    /// The newest snapshot.
    snapshots: SnapshotsAnswer,
    /// The workspaces.
    workspaces: WorkspaceCounts,
    /// Every setting in force by `section.key`, as it was given; of a secret only that it is `set`.
    #[schema(value_type = Object, example = json!({"server.docs": true, "admin.token": "set"}))]
    settings: &'a InForce,
}

impl<'a> SystemAnswer<'a> {
    async fn of(edge: &'a Edge) -> Result<Self, ApiError> {
        let ServerFigures { node, is_ready, figures } = edge.figures().await?;
        let clock = edge.engine.clock();
        let (last_at, bytes) = figures.snapshot.unzip();
        Ok(Self {
            node,
            version: env!("CARGO_PKG_VERSION"),
            started_at: figures.started_at.to_string(),
            now: clock.now().to_string(),
            offset_seconds: clock.offset().as_secs(),
            ready: is_ready,
            storage: StorageAnswer {
                state: if figures.storage_works { "ok" } else { "failing" },
                commit_p99_ms: figures.commit_p99.map(tenths_of_ms),
                disk_free_bytes: figures.disk_free_bytes,
                data_bytes: figures.data_bytes,
            },
            snapshots: SnapshotsAnswer { last_at: last_at.map(|at| at.to_string()), bytes },
            workspaces: WorkspaceCounts {
                live: figures.workspaces_live,
                parked: figures.workspaces_parked,
            },
            settings: &edge.options.settings,
        })
    }
}

/// Converts a duration to milliseconds with one decimal, rounded up: a commit takes time.
fn tenths_of_ms(took: Duration) -> f64 {
    (took.as_secs_f64() * 10_000.0).ceil() / 10.0
}

#[utoipa::path(
    get,
    path = "/admin/v1/system",
    operation_id = "readSystem",
    tag = "Administration",
    summary = "How the server does",
    description = "Its storage, clock and workspaces, and the settings in force. In a cluster this \
                   is about the node that is asked, or about another one if it owns no shard: \
                   `node` says which.",
    responses((status = 200, description = "The server", body = SystemAnswer<'_>))
)]
async fn read_system(call: Call<()>) -> Answer {
    Ok(Reply::ok(&SystemAnswer::of(&call.edge).await?))
}

/// A workspace at a glance.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WorkspaceGlance)]
pub(crate) struct GlanceRow {
    /// Its id.
    #[schema(example = "acme")]
    workspace: String,
    /// `idle`: nothing in memory; `live`; `restarting`; `parked`: stopped for good.
    #[schema(example = "live")]
    state: &'static str,
    /// Why it is parked; null while it is not.
    parked_reason: Option<String>,
    /// Its balance; null where it cannot be read.
    #[schema(example = 1200)]
    credits: Option<u64>,
    /// Codes that it sent in the last hour; null while that is not known.
    #[schema(example = 7)]
    otp_last_hour: Option<usize>,
    /// Messages of the last hour that the channel accepted, codes aside, as far back as the server
    /// runs.
    #[schema(example = 9)]
    messages_last_hour: u64,
    /// Numbers that are left alone because their channel or account fails.
    #[schema(example = 0)]
    numbers_stopped: usize,
    /// Webhook endpoints that are left alone because they keep failing.
    #[schema(example = 0)]
    webhooks_failing: usize,
}

impl From<WorkspaceGlance> for GlanceRow {
    fn from(glance: WorkspaceGlance) -> Self {
        let (state, parked_reason) = state_words(glance.state);
        Self {
            workspace: glance.id.to_string(),
            state,
            parked_reason,
            credits: glance.credits,
            otp_last_hour: glance.codes_last_hour,
            messages_last_hour: glance.numbers.accepted_last_hour,
            numbers_stopped: glance.numbers.stopped,
            webhooks_failing: glance.webhooks_failing,
        }
    }
}

/// A page of workspaces at a glance.
#[derive(Debug, Serialize, ToSchema)]
#[allow(dead_code, reason = "describes what a page of them is")]
pub(crate) struct OverviewAnswer {
    /// The rows of the page, by id.
    data: Vec<GlanceRow>,
    /// Rows of all pages.
    total: usize,
    /// Which page this is.
    page: usize,
}

#[utoipa::path(
    get,
    path = "/admin/v1/overview",
    operation_id = "readOverview",
    tag = "Administration",
    summary = "The workspaces at a glance",
    description = "From memory, and cheap: no workspace is started for it, and none is searched.",
    params(
        ("page" = Option<i64>, Query, minimum = 1, description = "Which page, 1 by default"),
        ("limit" = Option<i64>, Query, minimum = 1, maximum = 200, description = "Rows of a page, \
         50 by default"),
    ),
    responses((status = 200, description = "A page of workspaces", body = OverviewAnswer))
)]
async fn overview(call: Call<()>) -> Answer {
    let page = Page::of(&call.query()?)?;
    let operations = call.edge.engine.operations();
    let (rows, total) = operations.overview(page.skip(), page.limit()).await;
    Ok(Reply::ok(&page.of_rows(rows.into_iter().map(GlanceRow::from).collect(), total)))
}

#[utoipa::path(
    post,
    path = "/admin/v1/workspaces/{workspace}/unpark",
    operation_id = "unparkWorkspace",
    tag = "Administration",
    summary = "Try to start a parked workspace again",
    description = "Once what kept its data from being read is mended. One that still cannot be read \
                   is parked again. It changes nothing of a workspace that is not parked.",
    params(("workspace" = String, Path, description = "The workspace's id")),
    responses((status = 202, description = "It is tried; the overview shows what becomes of it"))
)]
async fn unpark(mut call: Call<()>) -> Answer {
    let id = workspace_id(&mut call).await?;
    call.edge.engine.operations().unpark(&id, call.audit_context()).await?;
    Ok(Reply::empty(StatusCode::ACCEPTED))
}

/// The clock.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EngineClock {
    /// The machine's clock.
    #[schema(format = DateTime)]
    wall: String,
    /// Engine time: windows, expiries and event times read it.
    #[schema(format = DateTime)]
    engine: String,
    /// Real time: what signatures of webhooks carry. It follows the machine's clock slowly.
    #[schema(format = DateTime)]
    real: String,
    /// The moment of the last durable commit. A start goes on behind it, whatever the machine's
    /// clock shows.
    #[schema(format = DateTime)]
    durable: Option<String>,
    /// The machine's clock less real time, in seconds.
    #[schema(example = 0.0)]
    difference_seconds: f64,
    /// Whether the difference is a step: more than `clock.step_seconds`.
    step: bool,
    /// What engine time is ahead of real time by, in seconds, because the data was ahead of the
    /// machine's clock at the start. What the sandbox moved is not in it.
    #[schema(example = 0.0)]
    ahead_seconds: f64,
}

#[utoipa::path(
    get,
    path = "/admin/v1/clock",
    operation_id = "readClock",
    tag = "Administration",
    summary = "Read the engine's clock",
    description = "404 on a node of a cluster, where each shard has a clock.",
    responses((status = 200, description = "The clock", body = EngineClock))
)]
async fn read_clock(call: Call<()>) -> Answer {
    call.edge.must_be_alone()?;
    Ok(clock_reply(&call))
}

#[utoipa::path(
    post,
    path = "/admin/v1/clock/follow",
    operation_id = "followClock",
    tag = "Administration",
    summary = "Take the machine's time at once",
    description = "After a step of the machine's clock that is right, such as a pause of the machine. \
                   What is due then is done at once. Time never goes back: where the machine's clock \
                   is behind, nothing changes, and the engine goes on to follow it slowly. 404 on a \
                   node of a cluster.",
    responses((status = 200, description = "The clock after the move", body = EngineClock))
)]
async fn follow_clock(call: Call<()>) -> Answer {
    call.edge.must_be_alone()?;
    call.admin().follow_clock().await?;
    Ok(clock_reply(&call))
}

fn clock_reply(call: &Call<()>) -> Reply {
    let clock = call.edge.engine.clock();
    let health = clock.health();
    Reply::ok(&EngineClock {
        wall: clock.wall().to_string(),
        durable: call.edge.engine.durable_moment().map(|at| at.to_string()),
        engine: clock.now().to_string(),
        real: clock.real().to_string(),
        difference_seconds: health.difference_ms as f64 / 1000.0,
        step: health.in_step,
        ahead_seconds: health.lead.as_secs_f64(),
    })
}

/// Whether the server is held.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Released {
    /// Always `false`.
    #[schema(example = false)]
    held: bool,
}

#[utoipa::path(
    post,
    path = "/admin/v1/release",
    operation_id = "releaseServer",
    tag = "Administration",
    summary = "Have a held server send again",
    description = "A server that was restored is held: what it knows is older than the world. It \
                   answers reads and verifies codes, and sends nothing; what would send is 503 with \
                   the reason `held`. Once this is answered, what waited goes out. It changes \
                   nothing on a server that is not held. 404 on a node of a cluster, which never is.",
    responses((status = 200, description = "It is not held", body = Released))
)]
async fn release(call: Call<()>) -> Answer {
    call.edge.must_be_alone()?;
    call.admin().release().await?;
    Ok(Reply::ok(&Released { held: false }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_one_decimal() {
        let of = |micros| tenths_of_ms(Duration::from_micros(micros));
        assert_eq!((of(0), of(1), of(3_100), of(3_101)), (0.0, 0.1, 3.1, 3.2));
    }
}
