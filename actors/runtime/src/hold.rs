//! The check before anything leaves an engine: no hold, and a valid tenure if it needs one.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The time after which work that could not leave without the tenure asks again.
pub const TENURE_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// The right of this process to act for the engine's records at this very moment.
///
/// It is checked before everything that leaves, so the check must be cheap: a clock and an atomic.
pub trait Tenure: Debug + Send + Sync + 'static {
    /// Returns whether the process may act. The right may end at any time, and come back.
    fn holds(&self) -> bool;
}

/// The state in which nothing may leave the engine. Clones share it.
///
/// Restored state is older than the world: a message that it holds as unsent may have been sent. So
/// an engine with restored state starts held, and an operator who knows more ends the hold. A hold
/// starts before the first message could leave, and never again while an engine runs.
///
/// An engine that another process may replace has a tenure besides. A message that cannot leave
/// without it waits. The tenure may come back; otherwise the successor knows everything that was
/// claimed.
#[derive(Debug, Clone, Default)]
pub struct Hold {
    held: Arc<AtomicBool>,
    tenure: Option<Arc<dyn Tenure>>,
}

impl Hold {
    /// Creates a hold that is off, with the tenure that must hold whenever something leaves.
    #[must_use]
    pub fn under(tenure: Option<Arc<dyn Tenure>>) -> Self {
        Self { held: Arc::default(), tenure }
    }

    /// Lets nothing leave from now on.
    pub fn begin(&self) {
        self.held.store(true, Ordering::Release);
    }

    /// Lets everything leave again. Returns whether it was held.
    pub fn end(&self) -> bool {
        self.held.swap(false, Ordering::AcqRel)
    }

    /// Returns whether nothing may leave until the hold is ended.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.held.load(Ordering::Acquire)
    }

    /// Returns whether the tenure holds now. An engine without one needs none.
    #[must_use]
    pub fn has_tenure(&self) -> bool {
        self.tenure.as_ref().is_none_or(|tenure| tenure.holds())
    }

    /// Returns whether something may leave at this moment.
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
