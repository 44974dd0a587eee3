//! Measures the free space of the disk beside the actors, with each beat of the engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use postrider_store::FreeSpace;
use postrider_workspace::services::Services;

/// What measures, once at a time.
#[derive(Clone)]
pub(super) struct Space {
    measure: Arc<dyn FreeSpace>,
    measuring: Arc<AtomicBool>,
}

impl Space {
    pub(super) fn new(measure: Arc<dyn FreeSpace>) -> Self {
        Self { measure, measuring: Arc::default() }
    }

    /// Measures before anything begins, where there is something to measure.
    pub(super) async fn measure_first(space: Option<&Self>, shared: &Services) {
        if let Some(space) = space {
            space.measure(shared).await;
        }
    }

    /// Measures on a thread that may block. What cannot be measured stays as it was.
    pub(super) async fn measure(&self, shared: &Services) {
        let measure = Arc::clone(&self.measure);
        match tokio::task::spawn_blocking(move || measure.free_bytes()).await {
            Ok(Ok(free)) => shared.disk.measured(free),
            Ok(Err(error)) => tracing::warn!(%error, "the free space of the disk is not known"),
            // It panicked, which is logged, or the engine stops.
            Err(_) => {}
        }
    }

    /// The same without waiting for it, unless the last measurement is still under way.
    pub(super) fn measure_in_background(&self, shared: &Arc<Services>) {
        if self.measuring.swap(true, Ordering::AcqRel) {
            return;
        }
        let (space, shared) = (self.clone(), Arc::clone(shared));
        drop(tokio::spawn(async move {
            space.measure(&shared).await;
            space.measuring.store(false, Ordering::Release);
        }));
    }
}
