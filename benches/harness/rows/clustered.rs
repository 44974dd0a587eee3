//! `cluster_otp_send`, `cluster_forward`, `cluster_failover_seconds`: the cost of several nodes.
//!
//! Up to three nodes run over three servers of NATS, all on this machine. `cluster_otp_send_1`,
//! `cluster_otp_send_2` and `cluster_otp_send` are requests at all of one, two and three nodes for
//! workspaces of all shards. Each is beside the same server without a cluster that has them all, so
//! that their ratios can be compared. `cluster_forward` is requests at a node that forwards them to
//! the owner, beside the same ones at the owner. The cost of a drain is in [`super::drained`].
//! `cluster_failover_seconds` is the time from `kill -9` of an owner until a code is sent again for
//! one of its workspaces.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::otp_http::Sends;
use super::{Group, drained};
use crate::client::{Client, Request};
use crate::measure::{Measured, Pair, Phones, Stopwatch, alternate};
use crate::nodes::{Cluster, Process, call};
use crate::report::Row;
use crate::scale::Scale;
use crate::{Result, setup};

/// The rows.
pub(crate) const GROUP: Group = Group {
    rows: &[
        "cluster_otp_send_1",
        "cluster_otp_send_2",
        "cluster_otp_send",
        "cluster_forward",
        "cluster_drain_seconds",
        "cluster_drain_wait_seconds",
        "cluster_failover_seconds",
    ],
    run,
};

/// The budgets of one, two and three nodes.
///
/// They share the machine with all that they need, so more of them are slower.
const SPREAD: [(&str, (f64, f64)); 3] =
    [("one node", (0.30, 0.50)), ("two nodes", (0.18, 0.35)), ("three nodes", (0.12, 0.25))];
const FORWARD_BUDGET_AND_GOAL: (f64, f64) = (0.6, 0.8);
const FAILOVER_BUDGET_AND_GOAL: (f64, f64) = (15.0, 14.0);
/// The place of the phone in a request.
pub(super) const PHONE: &str = "491500000000";
/// The maximum wait for another owner.
const PATIENCE: Duration = Duration::from_secs(90);

fn run(scale: &Scale) -> Result<Vec<Row>> {
    let Some(mut cluster) = Cluster::make()? else { return Ok(Vec::new()) };
    let [one, two, three, forwarded, drain, wait, failed_over] = GROUP.rows else {
        return Ok(Vec::new());
    };
    let phones = Arc::new(Phones::new());
    let data = setup::data_directory()?;
    let single = Process::start("single", &data, &[])?;
    let single = (single.workspaces()?, single);
    let (mut rows, mut keys) = (Vec::new(), Vec::new());
    for (name, (nodes, budget_and_goal)) in [one, two, three].into_iter().zip(SPREAD) {
        cluster.add()?;
        if keys.is_empty() {
            keys = cluster.nodes[0].workspaces()?;
        }
        let pair = spread(scale, (&cluster, &keys), (&single.1, &single.0), &phones)?;
        let unit = format!("sends/s of {} connections to {nodes}", scale.connections);
        let reference = "sends/s of as many connections to one server without a cluster";
        rows.push(Row::of_rates(name, unit, reference, pair, budget_and_goal));
    }
    drop(single);
    rows.push(forward(forwarded, scale, &cluster, &keys[..1], &phones)?);
    rows.extend(drained::rows([*drain, *wait], scale, &cluster, &keys, &phones)?);
    let seconds = failover(&mut cluster, &keys[0], &phones)?;
    let unit = "s from the death of an owner to the next code";
    let budget = Some(FAILOVER_BUDGET_AND_GOAL);
    rows.push(Row::of_value(failed_over, unit, seconds, budget));
    Ok(rows)
}

/// Measures all nodes of a cluster, beside one server without.
fn spread(
    scale: &Scale,
    (cluster, keys): (&Cluster, &[String]),
    (single, its_keys): (&Process, &[String]),
    phones: &Arc<Phones>,
) -> Result<Pair> {
    let nodes: Vec<_> = cluster.nodes.iter().map(|it| it.address).collect();
    alternate(
        scale,
        |time| drive(&nodes, keys, scale.connections, phones, time),
        |time| drive(&[single.address], its_keys, scale.connections, phones, time),
    )
}

fn forward(
    name: &'static str,
    scale: &Scale,
    cluster: &Cluster,
    key: &[String],
    phones: &Arc<Phones>,
) -> Result<Row> {
    let (owner, other) = cluster.owner_and_other(&key[0])?;
    let drive =
        |at: usize, time| drive(&[cluster.nodes[at].address], key, scale.connections, phones, time);
    let pair = alternate(scale, |time| drive(other, time), |time| drive(owner, time))?;
    let unit = format!("sends/s of {} connections to another node", scale.connections);
    let reference = "sends/s of as many connections to the owner";
    Ok(Row::of_rates(name, unit, reference, pair, FORWARD_BUDGET_AND_GOAL))
}

/// Sends codes for the workspaces of these keys in turn, over connections to all of these servers.
fn drive(
    servers: &[SocketAddr],
    keys: &[String],
    connections: usize,
    phones: &Arc<Phones>,
    time: Duration,
) -> Result<Measured> {
    let body = format!(r#"{{"phone":"+{PHONE}"}}"#);
    let request = |key: &String| Request::post("/v1/otp/send", key, &body, &[PHONE]);
    let requests = keys.iter().map(request).collect::<Result<Vec<_>>>()?;
    let each = connections.div_ceil(servers.len());
    let driven = std::thread::scope(|scope| {
        let drive = |(at, server): (usize, &SocketAddr)| {
            // Each server has the workspaces in another order.
            let mut next = requests.iter().cycle().skip(at * requests.len() / servers.len());
            let (server, first) = (*server, &requests[0]);
            scope.spawn(move || {
                Client::connect(server, each)?
                    .drive(time, || Sends::new(next.next().unwrap_or(first), phones, Sends::ANSWER))
            })
        };
        let running: Vec<_> = servers.iter().enumerate().map(drive).collect();
        let joined = running.into_iter().map(|it| it.join().map_err(|_| "a client panicked")?);
        joined.collect::<Result<Vec<_>>>()
    })?;
    let most = |of: fn(&Measured) -> f64| driven.iter().map(of).fold(f64::NAN, f64::max);
    Ok(Measured {
        rate: driven.iter().map(|it| it.rate).sum(),
        p50_ms: most(|it| it.p50_ms),
        p99_ms: most(|it| it.p99_ms),
        p999_ms: most(|it| it.p999_ms),
        // The servers are other processes.
        cpu_us: f64::NAN,
    })
}

/// Kills the owner of a workspace; returns the seconds until another node sends a code for it.
fn failover(cluster: &mut Cluster, key: &str, phones: &Phones) -> Result<f64> {
    let (owner, other) = cluster.owner_and_other(key)?;
    let other = cluster.nodes[other].address;
    // Dropping it kills it.
    let killed = cluster.nodes.swap_remove(owner);
    let watch = Stopwatch::start();
    drop(killed);
    loop {
        let phone = json!({ "phone": format!("+{}", phones.next()) });
        let (status, answer) = call(other, key, "POST", "/v1/otp/send", &phone)?;
        match status {
            200 => return Ok(watch.elapsed().as_secs_f64()),
            // Nobody owns it, or the connection to the owner has broken.
            502 | 503 if watch.elapsed() < PATIENCE => {}
            _ => return Err(format!("nobody takes it over: {status} {answer}").into()),
        }
    }
}
