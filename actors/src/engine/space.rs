//! Measures the free space of the disk beside the actors, with each beat of the engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use postrider_store::FreeSpace;
use postrider_workspace::services::Services;

/// The meter, which runs once at a time.
#[derive(Clone)]
pub(super) struct Space {
    measure: Arc<dyn FreeSpace>,
    measuring: Arc<AtomicBool>,
}

impl Space {
    pub(super) fn new(measure: Arc<dyn FreeSpace>) -> Self {
        Self { measure, measuring: Arc::default() }
    }

    /// Measures before anything starts, if there is a meter.
    pub(super) async fn measure_first(space: Option<&Self>, shared: &Services) {
        if let Some(space) = space {
            space.measure(shared).await;
        }
    }

    /// Measures on a thread that may block. After a failure the last value stays.
    pub(super) async fn measure(&self, shared: &Services) {
        let measure = Arc::clone(&self.measure);
        match tokio::task::spawn_blocking(move || measure.free_bytes()).await {
            Ok(Ok(free)) => shared.disk.measured(free),
            Ok(Err(error)) => tracing::warn!(%error, "the free space of the disk is not known"),
            // It panicked, which is logged, or the engine stops.
            Err(_) => {}
        }
    }

    /// Measures in the background, unless the last measurement is still in progress.
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
