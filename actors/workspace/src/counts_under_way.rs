//! Records the windows of a broadcast that change while its recipients are counted.
//!
//! The count runs beside the actor.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use postrider_domain::BroadcastId;

/// The broadcasts whose windows are being counted, with the windows that changed meanwhile.
#[derive(Debug, Default)]
pub struct CountsUnderWay(Mutex<Vec<(BroadcastId, Weak<Changed>)>>);

/// Windows with reports since they were counted.
pub(crate) type Changed = Mutex<BTreeSet<u32>>;

impl CountsUnderWay {
    /// Starts to record a broadcast's changed windows, until the returned value is dropped.
    pub(crate) fn begin(&self, id: BroadcastId) -> Arc<Changed> {
        let changed = Arc::default();
        let mut all = self.0.lock();
        all.retain(|(_, changed)| changed.strong_count() > 0);
        all.push((id, Arc::downgrade(&changed)));
        changed
    }

    /// Records a report about a message in this window.
    pub(crate) fn changed(&self, id: BroadcastId, window: u32) {
        let all = self.0.lock();
        for (_, changed) in all.iter().filter(|(of, _)| *of == id) {
            if let Some(changed) = changed.upgrade() {
                changed.lock().insert(window);
            }
        }
    }
}
