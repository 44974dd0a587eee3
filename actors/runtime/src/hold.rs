//! Whether an engine is held: it takes note of what happens, and lets nothing out.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Says whether nothing may leave the engine. Clones share it.
///
/// State that was restored is older than the world: what it takes for unsent may have been sent.
/// So it begins held, and somebody who knows ends that. Being held begins before the first message
/// could leave, and never anew while an engine runs.
#[derive(Debug, Clone, Default)]
pub struct Hold(Arc<AtomicBool>);

impl Hold {
    /// Lets nothing out from now on.
    pub fn begin(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Lets everything out again. Returns whether it was held.
    pub fn end(&self) -> bool {
        self.0.swap(false, Ordering::AcqRel)
    }

    /// Whether nothing may leave.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_are_held_and_released_together() {
        let hold = Hold::default();
        let other = hold.clone();
        assert!(!other.is_held() && !other.end());
        hold.begin();
        assert!(other.is_held());
        assert!(other.end() && !hold.is_held());
    }
}
