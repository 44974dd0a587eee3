//! `cluster_drain_seconds` and `cluster_drain_wait_seconds`: a node is drained while clients send.
//!
//! The first is the time from the order until other nodes own all shards of the node. The second is
//! the longest wait of a client meanwhile for a code that was sent, with all its retries. Beside it
//! is the longest wait in an equally long time before. Clients rest between two codes: without a
//! rest, waits would be those of an overload.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::clustered::PHONE;
use crate::client::{Client, Request, Rest, Script};
use crate::measure::{Phones, Stopwatch, median};
use crate::nodes::Cluster;
use crate::report::Row;
use crate::scale::Scale;
use crate::{Error, Result};

/// The seconds until the node is empty.
const DRAIN_BUDGET_AND_GOAL: (f64, f64) = (10.0, 4.0);
/// The maximum wait of a client in seconds: the promise about a drain.
const WAIT_BUDGET_AND_GOAL: (f64, f64) = (1.0, 0.5);
/// The rest between two codes of a client, and before a refused one is retried.
const REST: Duration = Duration::from_millis(20);
/// The maximum time that a client works.
const TIME_MAX: Duration = Duration::from_secs(300);

/// The reports of the clients while they work.
#[derive(Debug, Default)]
struct Seen {
    is_over: AtomicBool,
    sent: AtomicU64,
    refused: AtomicU64,
    /// The longest wait, in nanoseconds.
    longest: AtomicU64,
}

impl Seen {
    /// Returns and resets the longest wait, in seconds.
    fn take_longest(&self) -> f64 {
        Duration::from_nanos(self.longest.swap(0, Ordering::Relaxed)).as_secs_f64()
    }
}

/// Sends a code repeatedly until it is accepted.
struct Sends {
    request: Request,
    phones: Arc<Phones>,
    seen: Arc<Seen>,
    /// The time since the first try of a code that is not answered yet.
    since: Option<Stopwatch>,
}

impl Script for Sends {
    fn next(&mut self) -> Option<&[u8]> {
        if self.since.is_none() {
            if self.seen.is_over.load(Ordering::Relaxed) {
                return None;
            }
            self.request.set_digits(0, Phones::DIGITS, self.phones.next());
            self.since = Some(Stopwatch::start());
        }
        Some(self.request.bytes())
    }

    fn check(&mut self, status: u16, body: &[u8]) -> Result<bool> {
        match status {
            200 => {
                let waited = self.since.take().map_or(Duration::ZERO, |since| since.elapsed());
                let nanos = u64::try_from(waited.as_nanos()).unwrap_or(u64::MAX);
                self.seen.longest.fetch_max(nanos, Ordering::Relaxed);
                self.seen.sent.fetch_add(1, Ordering::Relaxed);
                Ok(true)
            }
            // Nobody owned the shard for as long as a node holds a request.
            503 => {
                self.seen.refused.fetch_add(1, Ordering::Relaxed);
                Ok(false)
            }
            _ => Err(format!("answered {status}: {}", String::from_utf8_lossy(body)).into()),
        }
    }

    fn rest(&self) -> Option<Rest> {
        // After a refusal the connection may be closed.
        Some(Rest { time: REST, reconnects: self.since.is_some() })
    }
}

/// The durations of one drain, in seconds.
struct Drained {
    seconds: f64,
    wait: f64,
    wait_before: f64,
}

/// Measures the rows, by their names.
pub(super) fn rows(
    [drain, wait]: [&'static str; 2],
    scale: &Scale,
    cluster: &Cluster,
    keys: &[String],
    phones: &Arc<Phones>,
) -> Result<[Row; 2]> {
    let mut drains = Vec::new();
    for _ in 0..scale.restarts {
        drains.push(beside_clients(scale, cluster, keys, phones)?);
        cluster.undrain_first()?;
    }
    let most = |of: fn(&Drained) -> f64| drains.iter().map(of).fold(f64::NAN, f64::max);
    let seconds = median(drains.iter().map(|it| it.seconds).collect());
    let connections = scale.connections;
    let unit = format!("s until a drained node owns nothing, beside {connections} connections");
    let taken = Row::of_value(drain, unit, seconds, Some(DRAIN_BUDGET_AND_GOAL));
    let unit = format!("s, the longest wait of {connections} connections during a drain");
    let waited = Row::of_value(wait, unit, most(|it| it.wait), Some(WAIT_BUDGET_AND_GOAL));
    let reference = Some("s, the longest wait in as long a time before".to_owned());
    let reference_value = Some(most(|it| it.wait_before));
    Ok([taken, Row { reference, reference_value, ..waited }])
}

/// Drains a node while clients send through all nodes.
fn beside_clients(
    scale: &Scale,
    cluster: &Cluster,
    keys: &[String],
    phones: &Arc<Phones>,
) -> Result<Drained> {
    let body = format!(r#"{{"phone":"+{PHONE}"}}"#);
    let request = |key: &String| Request::post("/v1/otp/send", key, &body, &[PHONE]);
    let requests = keys.iter().map(request).collect::<Result<Vec<_>>>()?;
    let each = scale.connections.div_ceil(cluster.nodes.len());
    let seen = Arc::new(Seen::default());
    std::thread::scope(|scope| {
        let clients = cluster.nodes.iter().enumerate().map(|(at, node)| {
            let (requests, seen, server) = (&requests, &seen, node.address);
            scope.spawn(move || {
                let mut next = requests.iter().cycle().skip(at);
                let script = || {
                    let request = next.next().unwrap_or(&requests[0]).clone();
                    let (phones, seen) = (Arc::clone(phones), Arc::clone(seen));
                    Sends { request, phones, seen, since: None }
                };
                Client::connect(server, each)?.drive(TIME_MAX, script).map(drop)
            })
        });
        let clients: Vec<_> = clients.collect();
        let drained = drain(scale, cluster, &seen);
        seen.is_over.store(true, Ordering::Relaxed);
        for client in clients {
            client.join().map_err(|_| "a client panicked")??;
        }
        // Requests in flight at the end count too.
        let (seconds, before, during) = drained?;
        let wait = during.max(seen.take_longest());
        let [sent, refused] = [&seen.sent, &seen.refused].map(|it| it.load(Ordering::Relaxed));
        eprintln!("  drained in {seconds:.2} s: {sent} codes, {refused} refusals, {wait:.2} s");
        Ok::<_, Error>(Drained { seconds, wait, wait_before: before })
    })
}

/// Drains the node; returns its seconds, and the longest waits before and during it.
fn drain(scale: &Scale, cluster: &Cluster, seen: &Seen) -> Result<(f64, f64, f64)> {
    std::thread::sleep(scale.round);
    seen.take_longest();
    std::thread::sleep(scale.round);
    let before = seen.take_longest();
    let seconds = cluster.drain_first()?.as_secs_f64();
    Ok((seconds, before, seen.take_longest()))
}
