//! Callers that each do one thing over and over.

use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::cpu::CpuTime;
use crate::measure::{Latencies, Measured, Stopwatch};
use crate::{Error, Result};

/// The operation that a caller repeats.
pub(crate) trait Ask: Send + Sync + 'static {
    /// Performs it once.
    fn ask(&self) -> impl Future<Output = Result<()>> + Send;
}

/// Runs this number of callers in loops on the engine's own runtime.
///
/// That is how callers run in a program that embeds the engine.
pub(crate) fn in_loops<A: Ask>(
    runtime: &Runtime,
    callers: usize,
    time: Duration,
    caller: impl Fn() -> A,
) -> Result<Measured> {
    let (start, cpu) = (Stopwatch::start(), CpuTime::now()?);
    let mut running = JoinSet::new();
    for _ in 0..callers {
        let caller = caller();
        let in_a_loop = async move {
            let mut latencies = Latencies::new();
            let mut asked_at = start.elapsed();
            while asked_at < time {
                caller.ask().await?;
                // The clock is read once for each call.
                let answered_at = start.elapsed();
                latencies.add(answered_at - asked_at);
                asked_at = answered_at;
            }
            Ok::<_, Error>(latencies)
        };
        running.spawn_on(in_a_loop, runtime.handle());
    }
    let all = runtime.block_on(async {
        let mut all = Latencies::new();
        while let Some(ended) = running.join_next().await {
            all.merge(ended??);
        }
        Ok::<_, Error>(all)
    })?;
    let (elapsed, cpu_us) = (start.elapsed(), cpu.per_operation(all.len())?);
    Ok(Measured::operations(all, elapsed).with_cpu(cpu_us))
}
