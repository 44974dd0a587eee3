//! `otp_pending_memory` and `restart_pending_otps` measure a million pending one-time passwords.
//!
//! The first is their cost in memory, the second the duration of a start with them.
//!
//! One process makes a data directory; other, fresh ones measure. The memory of pending requests is
//! the allocation of a process after a restart on that directory, less that with an empty
//! workspace. It includes the memory of the database below: its cache of the journal that the start
//! has read, and its memtables. `otp_pending_memory_store` is the size of that part, and
//! `otp_pending_memory_resident` is the resident memory of it all.

use std::path::Path;
use std::time::Duration;

use postrider_actors::domain::code::Expiry;
use postrider_actors::{Engine, SandboxMessage, SendOtp, Workspace};
use tokio::task::JoinSet;

use super::Group;
use super::restart::{Mode, Restarted, restart};
use crate::measure::{Phones, median};
use crate::report::Row;
use crate::scale::Scale;
use crate::{Error, Result, setup};

/// The rows.
pub(crate) const GROUP: Group = Group {
    rows: &[
        "otp_pending_memory",
        "otp_pending_memory_store",
        "otp_pending_memory_resident",
        "restart_pending_otps",
    ],
    run,
};

const MEMORY_BUDGET_AND_GOAL: (f64, f64) = (130.0, 80.0);
const RESTART_BUDGET_AND_GOAL: (f64, f64) = (1.0, 0.5);
/// The messages that the sandbox retains: its memory is not measured here.
const KEPT: usize = 1000;
/// The number of concurrent callers while the directory is made.
const CALLERS: usize = 2048;

/// The phones of this process: none is used twice.
static PHONES: Phones = Phones::new();

fn run(scale: &Scale) -> Result<Vec<Row>> {
    let (with, without) = (setup::data_directory()?, setup::data_directory()?);
    fill(without.path(), 0)?;
    let codes = fill(with.path(), scale.pending)?;
    if codes.len() < scale.restarts {
        return Err("the sandbox has not as many messages as there are restarts".into());
    }
    let empty = restart(Mode::Engine, without.path(), None)?;
    let mut restarts = Vec::new();
    for code in codes.iter().take(scale.restarts) {
        let restarted = restart(Mode::Engine, with.path(), Some(code))?;
        eprintln!("  {restarted}");
        restarts.push(restarted);
    }
    let store = restart(Mode::StoreAlone, with.path(), None)?.allocated
        - restart(Mode::StoreAlone, without.path(), None)?.allocated;
    Ok(rows(scale.pending, &empty, &restarts, store))
}

fn rows(pending: usize, empty: &Restarted, restarts: &[Restarted], store: f64) -> Vec<Row> {
    let of = |figure: fn(&Restarted) -> f64| median(restarts.iter().map(figure).collect());
    let each = |bytes: f64| bytes / pending as f64;
    let [memory, in_store, resident, seconds] = GROUP.rows else { return Vec::new() };
    let unit = |of_what: &str| format!("bytes {of_what} per pending OTP at {pending}");
    vec![
        Row::of_value(
            memory,
            unit("allocated in the whole process, after a restart,"),
            each(of(|it| it.allocated) - empty.allocated),
            Some(MEMORY_BUDGET_AND_GOAL),
        ),
        Row::of_value(in_store, unit("of the above in the database alone"), each(store), None),
        Row::of_value(
            resident,
            unit("resident (RSS) of the same process"),
            each(of(|it| it.resident) - empty.resident),
            None,
        ),
        Row::of_value(
            seconds,
            format!("s from the start with {pending} pending OTPs to the answer of a verify"),
            of(|it| it.seconds),
            Some(RESTART_BUDGET_AND_GOAL),
        ),
    ]
}

/// A request and its code, as arguments for another process.
pub(crate) type Code = (String, String);

/// Makes a data directory with this many pending requests, all of them delivered, and stops.
///
/// Returns some of the requests with their codes.
fn fill(directory: &Path, pending: usize) -> Result<Vec<Code>> {
    let runtime = setup::runtime()?;
    let codes = runtime.block_on(async {
        let engine = Engine::start(setup::options(directory, KEPT)).await?;
        let workspace = setup::make_workspace(&engine).await?;
        send(&workspace, pending).await?;
        // The sandbox delivers and everything becomes durable: the restart sends nothing again.
        let id = setup::workspace_id()?;
        let sandbox = engine.clone();
        engine.shutdown(Duration::from_secs(60)).await?;
        let messages = sandbox.sandbox().messages(&id, None, KEPT);
        Ok::<_, Error>(messages.into_iter().filter_map(code_of).collect())
    })?;
    runtime.shutdown_timeout(Duration::from_secs(10));
    Ok(codes)
}

/// Returns the request that a message was for, with the code in it.
pub(crate) fn code_of(message: SandboxMessage) -> Option<Code> {
    // A request's first message has its id, under another prefix.
    let request = message.message_id.to_string().replacen("msg_", "otp_", 1);
    message.code.map(|code| (request, code))
}

/// Sends this many one-time passwords, with many at a time.
pub(crate) async fn send(workspace: &Workspace, pending: usize) -> Result<()> {
    let mut running = JoinSet::new();
    for caller in 0..CALLERS {
        let share = pending / CALLERS + usize::from(caller < pending % CALLERS);
        let workspace = workspace.clone();
        running.spawn(async move {
            for _ in 0..share {
                let mut command = SendOtp::to(PHONES.next_phone()?);
                // The longest expiry: they are pending for the whole measurement.
                command.expiry = Expiry::from_seconds(900)?;
                workspace.send_otp(command).await?;
            }
            Ok::<_, Error>(())
        });
    }
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    Ok(())
}
