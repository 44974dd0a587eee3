//! The progress of a view that is rebuilt, for the callers that wait for it.

use std::sync::Arc;

use tokio::sync::watch;

/// The amount that has been read of a view's sources, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// The bytes that have been read.
    pub done: u64,
    /// The approximate total.
    pub total: u64,
}

/// Reports the rebuild of a view. Clones report the same.
#[derive(Debug, Clone)]
pub struct Rebuilding(Arc<watch::Sender<Option<Progress>>>);

impl Default for Rebuilding {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(None)))
    }
}

impl Rebuilding {
    /// Returns the progress; `None` while no view is rebuilt.
    #[must_use]
    pub fn progress(&self) -> Option<Progress> {
        *self.0.borrow()
    }

    /// Waits until a rebuild starts.
    pub async fn begun(&self) {
        let mut progress = self.0.subscribe();
        // The sender exists, so there is no error.
        progress.wait_for(Option::is_some).await.ok();
    }

    pub(crate) fn report(&self, progress: Option<Progress>) {
        self.0.send_replace(progress);
    }
}
