//! The processor time of operations: unlike rates, it hardly depends on the other load of the
//! machine.

use std::fs;

use crate::Result;

/// The microseconds of the unit in which Linux reports processor time to programs.
const TICK_US: f64 = 10_000.0;
/// The position of the time in user mode behind the name; the time in system mode follows.
const USER: usize = 11;

/// The processor time at a moment, of this process and of it without the measuring thread.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CpuTime {
    others: f64,
    all: f64,
}

impl CpuTime {
    /// Returns the current values.
    pub(crate) fn now() -> Result<Self> {
        let all = taken("/proc/self/stat")?;
        Ok(Self { others: all - taken("/proc/thread-self/stat")?, all })
    }

    /// Returns the microseconds of the whole process per operation since then.
    pub(crate) fn per_operation(self, operations: usize) -> Result<f64> {
        Ok((Self::now()?.all - self.all) / operations as f64)
    }

    /// Returns the microseconds per operation without the measuring thread, which is the client.
    pub(crate) fn of_others_per_operation(self, operations: usize) -> Result<f64> {
        Ok((Self::now()?.others - self.others) / operations as f64)
    }
}

/// Reads the microseconds of processor time, in user and in system mode.
fn taken(path: &str) -> Result<f64> {
    let stat = fs::read_to_string(path)?;
    let (_, behind_name) = stat.rsplit_once(") ").ok_or("no name in it")?;
    let mut times = behind_name.split(' ').skip(USER);
    let mut next = || -> Result<f64> { Ok(times.next().ok_or("no time in it")?.parse()?) };
    Ok((next()? + next()?) * TICK_US)
}
