//! `forget_keys` measures how fast answers under idempotency keys are removed that expire together.
//!
//! `read_p99_beside_forget_keys` is the wait of reads of the same workspace meanwhile. The
//! reference is their wait before anything has expired. The codes themselves are over and removed
//! before the measurement, so that only their keys are left.

use std::sync::Arc;
use std::time::Duration;

use postrider_actors::domain::RequestId;
use postrider_actors::{Engine, IdempotencyKey, ReadOtpError, Route, SendOtp, Workspace};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::Group;
use crate::measure::{Latencies, Measured, Pair, Phones, Stopwatch};
use crate::report::Row;
use crate::scale::Scale;
use crate::{Error, Result, setup};

/// The rows.
pub(crate) const GROUP: Group =
    Group { rows: &["forget_keys", "read_p99_beside_forget_keys"], run };

/// The records per second. Each key has two.
const BUDGET_AND_GOAL: (f64, f64) = (4_000.0, 20_000.0);
/// The callers that make the keys.
const CALLERS: usize = 256;
const HOUR: Duration = Duration::from_secs(3600);

fn run(scale: &Scale) -> Result<Vec<Row>> {
    let runtime = setup::runtime()?;
    let keys = scale.pending / 5;
    let (rate, pair) = runtime.block_on(measure(keys, scale))?;
    let [forget, read] = GROUP.rows else { return Ok(Vec::new()) };
    let unit = "records/s that are deleted, two of each key";
    Ok(vec![
        Row::of_least(forget, unit, rate, BUDGET_AND_GOAL),
        Row::of_p99(read, "ms of a read meanwhile, p99", "ms before it, p99", pair, None),
    ])
}

async fn measure(keys: usize, scale: &Scale) -> Result<(f64, Pair)> {
    let data = setup::data_directory()?;
    let engine = Engine::start(setup::options(data.path(), 1)).await?;
    let workspace = setup::make_workspace(&engine).await?;
    send(&workspace, keys).await?;
    // The codes end, and are removed.
    engine.advance_clock(3 * HOUR).await?;
    let (stop, stopped) = watch::channel(false);
    let reading = tokio::spawn(read(workspace.clone(), stopped.clone()));
    tokio::time::sleep(scale.round).await;
    stop.send(true)?;
    let before = reading.await??;
    stop.send(false)?;
    let reading = tokio::spawn(read(workspace.clone(), stopped));
    let since = Stopwatch::start();
    // The call returns when everything that has expired is removed.
    engine.advance_clock(24 * HOUR).await?;
    let taken = since.elapsed();
    stop.send(true)?;
    let beside = reading.await??;
    eprintln!("  {keys} keys in {taken:?}, {} reads beside it", beside.len());
    engine.shutdown(Duration::from_secs(5)).await?;
    let pair = Pair { subject: Measured::times(beside), reference: Measured::times(before) };
    Ok((2.0 * keys as f64 / taken.as_secs_f64(), pair))
}

/// Sends this number of codes, each under its own key.
async fn send(workspace: &Workspace, keys: usize) -> Result<()> {
    let (mut running, phones) = (JoinSet::new(), Arc::new(Phones::new()));
    for caller in 0..CALLERS {
        let (workspace, phones) = (workspace.clone(), Arc::clone(&phones));
        running.spawn(async move {
            for key in (caller..keys).step_by(CALLERS) {
                let key = IdempotencyKey::new(Route::SendOtp, &key.to_string(), b"");
                let command = SendOtp::to(phones.next_phone()?);
                workspace.send_otp_once(command, key).await?;
            }
            Ok::<_, Error>(())
        });
    }
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    Ok(())
}

/// Reads one by one, until it is asked to stop.
async fn read(workspace: Workspace, stopped: watch::Receiver<bool>) -> Result<Latencies> {
    let (since, mut times) = (Stopwatch::start(), Latencies::new());
    let nobodys = RequestId::from_bytes([0; 16]);
    while !*stopped.borrow() {
        let asked_at = since.elapsed();
        match workspace.otp(nobodys).await {
            Err(ReadOtpError::NotFound) => times.add(since.elapsed() - asked_at),
            other => return Err(format!("a read gave {other:?}").into()),
        }
        tokio::task::yield_now().await;
    }
    Ok(times)
}
