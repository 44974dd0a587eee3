//! Ports for servers of others that tests start, and cannot ask for port 0.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// A port that nobody has. It is none of those that the system gives to connections, so nobody
/// else is likely to take it before it is used.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Processes that run at the same time begin at different places.
    let first = u16::try_from(std::process::id().wrapping_mul(7_919) % 20_000).unwrap_or_default();
    loop {
        let port = 10_000 + (first + NEXT.fetch_add(1, Ordering::Relaxed) % 20_000) % 20_000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
