//! Signals the shutdown of the server to requests.

use tokio::sync::watch;

/// Signals to requests that the server shuts down.
///
/// A request whose body is still incomplete is then refused instead of waited for. Clones share the
/// signal.
#[derive(Debug, Clone, Default)]
pub struct Drain(watch::Sender<bool>);

impl Drain {
    /// Starts the shutdown.
    pub fn begin(&self) {
        self.0.send_replace(true);
    }

    /// Resolves when the shutdown has started.
    pub(crate) async fn begun(&self) {
        // The sender lives as long as `self`, so the wait cannot fail.
        drop(self.0.subscribe().wait_for(|begun| *begun).await);
    }
}
