//! How far a view is that is built anew, for those who wait for it.

use std::sync::Arc;

use tokio::sync::watch;

/// How much has been read of what a view is built of, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// What has been read.
    pub done: u64,
    /// About how much there is.
    pub total: u64,
}

/// Reports a view that is built anew. Clones report the same.
#[derive(Debug, Clone)]
pub struct Rebuilding(Arc<watch::Sender<Option<Progress>>>);

impl Default for Rebuilding {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(None)))
    }
}

impl Rebuilding {
    /// How far it is; `None` while none is built.
    #[must_use]
    pub fn progress(&self) -> Option<Progress> {
        *self.0.borrow()
    }

    /// Waits until one is built.
    pub async fn begun(&self) {
        let mut progress = self.0.subscribe();
        // The sender is here, so there is no error.
        progress.wait_for(Option::is_some).await.ok();
    }

    pub(crate) fn report(&self, progress: Option<Progress>) {
        self.0.send_replace(progress);
    }
}
