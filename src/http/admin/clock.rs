//! Reads the clock of the engine, and has it follow the machine's.

use serde::Serialize;
use utoipa::ToSchema;

use crate::http::pipeline::{Administrator, Answer, Call, Reply, Routes, route};

pub(crate) fn routes() -> Routes {
    Routes::default()
        .routes(route!(read).guarded(Administrator))
        .routes(route!(follow).guarded(Administrator))
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
async fn read(call: Call<()>) -> Answer {
    call.edge.must_be_alone()?;
    Ok(answer(&call))
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
async fn follow(call: Call<()>) -> Answer {
    call.edge.must_be_alone()?;
    call.admin().follow_clock().await?;
    Ok(answer(&call))
}

fn answer(call: &Call<()>) -> Reply {
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
