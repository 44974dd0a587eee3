//! The processor time of operations: unlike rates, it hardly depends on what else the machine does.

use std::fs;

use crate::Result;

/// Microseconds of the unit in which Linux reports processor time to programs.
const TICK_US: f64 = 10_000.0;
/// Where the file has the time in user mode, behind the name; that in system mode follows.
const USER: usize = 11;

/// What this process, without the thread that asks, had taken at a moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CpuTime {
    others: f64,
    all: f64,
}

impl CpuTime {
    /// Now.
    pub(crate) fn now() -> Result<Self> {
        let all = taken("/proc/self/stat")?;
        Ok(Self { others: all - taken("/proc/thread-self/stat")?, all })
    }

    /// Microseconds of the whole process for each of so many operations since then.
    pub(crate) fn per_operation(self, operations: usize) -> Result<f64> {
        Ok((Self::now()?.all - self.all) / operations as f64)
    }

    /// The same without the thread that asks: it is the client.
    pub(crate) fn of_others_per_operation(self, operations: usize) -> Result<f64> {
        Ok((Self::now()?.others - self.others) / operations as f64)
    }
}

/// Microseconds of processor time, in user and in system mode.
fn taken(path: &str) -> Result<f64> {
    let stat = fs::read_to_string(path)?;
    let (_, behind_name) = stat.rsplit_once(") ").ok_or("no name in it")?;
    let mut times = behind_name.split(' ').skip(USER);
    let mut next = || -> Result<f64> { Ok(times.next().ok_or("no time in it")?.parse()?) };
    Ok((next()? + next()?) * TICK_US)
}
