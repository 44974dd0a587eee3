//! Notes which windows of a broadcast change while its recipients are counted beside the actor.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use postrider_domain::BroadcastId;

/// The broadcasts whose windows are being counted, with the windows that changed meanwhile.
#[derive(Debug, Default)]
pub struct CountsUnderWay(Mutex<Vec<(BroadcastId, Weak<Changed>)>>);

/// Windows of which something was reported since they were counted.
pub(crate) type Changed = Mutex<BTreeSet<u32>>;

impl CountsUnderWay {
    /// Begins to note which windows of a broadcast change, until what this returns is dropped.
    pub(crate) fn begin(&self, id: BroadcastId) -> Arc<Changed> {
        let changed = Arc::default();
        let mut all = self.0.lock();
        all.retain(|(_, changed)| changed.strong_count() > 0);
        all.push((id, Arc::downgrade(&changed)));
        changed
    }

    /// Notes that something is reported of a message in this window.
    pub(crate) fn changed(&self, id: BroadcastId, window: u32) {
        let all = self.0.lock();
        for (_, changed) in all.iter().filter(|(of, _)| *of == id) {
            if let Some(changed) = changed.upgrade() {
                changed.lock().insert(window);
            }
        }
    }
}
