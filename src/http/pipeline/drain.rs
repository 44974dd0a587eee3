//! The server's stop, as requests see it.

use tokio::sync::watch;

/// Tells requests that the server stops: whose body is still on its way is then refused, instead
/// of waited for. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Drain(watch::Sender<bool>);

impl Drain {
    /// Begins it.
    pub fn begin(&self) {
        self.0.send_replace(true);
    }

    /// Resolves when it has begun.
    pub(crate) async fn begun(&self) {
        // The sender lives as long as this does, so there is no other end.
        drop(self.0.subscribe().wait_for(|begun| *begun).await);
    }
}
