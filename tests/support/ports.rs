//! Ports for third-party servers that tests start and that cannot ask for port 0.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// Returns a port that is free. The system gives none of these ports to connections, so it is
/// unlikely that another process takes it before it is used.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Processes that run at the same time start at different ports.
    let first = u16::try_from(std::process::id().wrapping_mul(7_919) % 20_000).unwrap_or_default();
    loop {
        let port = 10_000 + (first + NEXT.fetch_add(1, Ordering::Relaxed) % 20_000) % 20_000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
