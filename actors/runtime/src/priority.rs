//! The priority of a thread that computes without pause.

/// The niceness of such a thread: beside one of the usual priority it gets about a tenth of a core.
#[cfg(target_os = "linux")]
pub(crate) const NICENESS: i32 = 10;

/// Lowers the priority of this thread. Only a privileged thread gets its priority back.
#[cfg(target_os = "linux")]
pub fn lower_priority() {
    // On Linux a niceness belongs to a thread. Work at the usual priority is right too.
    if let Err(error) = rustix::process::setpriority_process(None, NICENESS) {
        tracing::debug!(%error, "a thread runs at the usual priority");
    }
}

/// Does nothing: elsewhere a niceness belongs to the whole process.
#[cfg(not(target_os = "linux"))]
pub const fn lower_priority() {}
