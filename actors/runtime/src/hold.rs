//! Whether something may leave an engine: it is not held, and has its tenure if it needs one.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long something waits that could not leave without the tenure, before it is asked again.
pub const TENURE_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// Says whether this process may act for the engine's records at this very moment.
///
/// It is asked before each thing that leaves, so it must be cheap: a clock and an atomic.
pub trait Tenure: Debug + Send + Sync + 'static {
    /// Whether it may. It may end at any time, and come back.
    fn holds(&self) -> bool;
}

/// Says whether nothing may leave the engine. Clones share it.
///
/// State that was restored is older than the world: what it takes for unsent may have been sent.
/// So it begins held, and somebody who knows ends that. Being held begins before the first message
/// could leave, and never anew while an engine runs.
///
/// An engine that another process may replace has a tenure besides. What cannot leave without it
/// waits: it may come back, and else the successor knows of everything that was claimed.
#[derive(Debug, Clone, Default)]
pub struct Hold {
    held: Arc<AtomicBool>,
    tenure: Option<Arc<dyn Tenure>>,
}

impl Hold {
    /// Not held, with the tenure that must hold whenever something leaves.
    #[must_use]
    pub fn under(tenure: Option<Arc<dyn Tenure>>) -> Self {
        Self { held: Arc::default(), tenure }
    }

    /// Lets nothing out from now on.
    pub fn begin(&self) {
        self.held.store(true, Ordering::Release);
    }

    /// Lets everything out again. Returns whether it was held.
    pub fn end(&self) -> bool {
        self.held.swap(false, Ordering::AcqRel)
    }

    /// Whether nothing may leave until somebody ends that.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.held.load(Ordering::Acquire)
    }

    /// Whether the tenure holds now. An engine without one needs none.
    #[must_use]
    pub fn has_tenure(&self) -> bool {
        self.tenure.as_ref().is_none_or(|tenure| tenure.holds())
    }

    /// Whether something may leave at this moment.
    #[must_use]
    pub fn lets_out(&self) -> bool {
        !self.is_held() && self.has_tenure()
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

    #[derive(Debug, Default)]
    struct Scripted(AtomicBool);

    impl Tenure for Scripted {
        fn holds(&self) -> bool {
            self.0.load(Ordering::Acquire)
        }
    }

    #[test]
    fn something_leaves_with_the_tenure_unless_it_is_held() {
        let tenure = Arc::new(Scripted::default());
        let hold = Hold::under(Some(tenure.clone()));
        assert!(!hold.has_tenure() && !hold.lets_out() && !hold.is_held());
        tenure.0.store(true, Ordering::Release);
        assert!(hold.lets_out());
        hold.begin();
        assert!(hold.has_tenure() && !hold.lets_out());
        assert!(Hold::default().lets_out(), "without a tenure nothing is asked");
    }
}
