//! The cost of a start, measured in a process of its own.

use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use postrider_actors::store::{Log, Position, directory};
use postrider_actors::{Engine, Verification};
use serde::{Deserialize, Serialize};

use super::child::{self, Child};
use super::pending::Code;
use crate::measure::Stopwatch;
use crate::memory::{allocated, resident};
use crate::{Result, setup};

/// The part that such a process starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Mode {
    /// The engine.
    Engine,
    /// Only the database, read like in a start, to measure its memory.
    StoreAlone,
}

/// The order to such a process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    mode: Mode,
    directory: std::path::PathBuf,
    code: Option<Code>,
}

/// The findings of such a process.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Restarted {
    /// The seconds until a verification was answered, or without one until the start was over.
    pub(crate) seconds: f64,
    /// The allocated bytes.
    pub(crate) allocated: f64,
    /// The resident bytes.
    pub(crate) resident: f64,
}

impl fmt::Display for Restarted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seconds, allocated, resident } = self;
        let (allocated, resident) = (allocated / 1e6, resident / 1e6);
        write!(f, "{seconds:.2} s, {allocated:.1} MB allocated, {resident:.1} MB resident")
    }
}

/// Starts a new process on the directory.
pub(crate) fn restart(mode: Mode, directory: &Path, code: Option<&Code>) -> Result<Restarted> {
    let order = Order { mode, directory: directory.to_owned(), code: code.cloned() };
    Child::start(&child::Order::Restart(order))?.says()
}

/// Runs the process's part.
pub(crate) fn child(order: &Order) -> Result<Restarted> {
    match order.mode {
        Mode::Engine => start_engine(order),
        Mode::StoreAlone => {
            let time = Stopwatch::start();
            let store = directory::open_stopped(&order.directory)?;
            // The blocks read here stay in the database's cache, as they do in a start.
            store.read(Position::START, &mut |_frame| ControlFlow::Continue(()))?;
            settled(time.elapsed())
        }
    }
}

fn start_engine(order: &Order) -> Result<Restarted> {
    let runtime = setup::runtime()?;
    let time = Stopwatch::start();
    let engine = runtime.block_on(Engine::start(setup::options(&order.directory, 1000)))?;
    let id = setup::workspace_id()?;
    if let Some((request, code)) = &order.code {
        let workspace = engine.workspace(&id).ok_or("the workspace is not there any more")?;
        let verification = runtime.block_on(workspace.verify_otp(request.parse()?, code))?;
        if verification != Verification::Verified {
            return Err(format!("a right code was answered {verification:?}").into());
        }
    } else {
        // The actor of numbers runs in the other case, so it does here.
        runtime.block_on(engine.admin().numbers(&id))?;
    }
    let seconds = time.elapsed();
    let found = settled(seconds)?;
    let redelivered = engine.sandbox().messages(&id, None, 1).len();
    runtime.block_on(engine.shutdown(Duration::from_secs(30)))?;
    match redelivered {
        0 => Ok(found),
        _ => Err("messages were sent again: their memory would be counted".into()),
    }
}

/// Returns the memory once it no longer changes.
pub(super) fn settled(seconds: Duration) -> Result<Restarted> {
    let mut last = allocated()?;
    let mut unchanged = 0;
    for _ in 0..100 {
        std::thread::sleep(Duration::from_millis(100));
        let now = allocated()?;
        unchanged = if (now - last).abs() < last / 1000.0 { unchanged + 1 } else { 0 };
        last = now;
        if unchanged == 10 {
            break;
        }
    }
    Ok(Restarted { seconds: seconds.as_secs_f64(), allocated: last, resident: resident()? })
}
