//! The memory of this process.

use tikv_jemalloc_ctl::{epoch, stats};

use crate::Result;

/// Returns the allocated bytes.
pub(crate) fn allocated() -> Result<f64> {
    let failed = |error: tikv_jemalloc_ctl::Error| error.to_string();
    epoch::advance().map_err(failed)?;
    Ok(stats::allocated::read().map_err(failed)? as f64)
}

/// Returns the resident bytes.
pub(crate) fn resident() -> Result<f64> {
    status("VmRSS:")
}

/// Returns the maximum of resident bytes since [`forget_most_resident`].
pub(crate) fn most_resident() -> Result<f64> {
    status("VmHWM:")
}

/// Resets the maximum of resident bytes.
pub(crate) fn forget_most_resident() -> Result<()> {
    Ok(std::fs::write("/proc/self/clear_refs", "5")?)
}

fn status(name: &str) -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)).ok_or("no such line")?;
    let kibibytes: f64 = line.trim().trim_end_matches(" kB").trim().parse()?;
    Ok(kibibytes * 1024.0)
}
