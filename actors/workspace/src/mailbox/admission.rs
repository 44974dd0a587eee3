//! Admission: the bound on commands under way, and the permit that each of them holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use postrider_domain::unavailable::{Unavailable, UnavailableReason};

/// The bound on commands under way in the whole engine.
///
/// `in_flight` and `draining` are `SeqCst`: a drain writes one and reads the other, a command the
/// other way round, and one of the two must see what the other wrote.
#[derive(Debug)]
pub struct Admission {
    in_flight: AtomicUsize,
    in_flight_max: usize,
    per_workspace_max: usize,
    /// Set once the engine stops: nothing more is admitted.
    draining: AtomicBool,
    /// Told each time a command is over while the engine drains.
    idle: tokio::sync::Notify,
}

impl Admission {
    /// Bounds for one workspace and for the whole engine.
    #[must_use]
    pub fn new(per_workspace_max: usize, in_flight_max: usize) -> Self {
        Self {
            in_flight: AtomicUsize::new(0),
            in_flight_max,
            per_workspace_max,
            draining: false.into(),
            idle: tokio::sync::Notify::new(),
        }
    }

    /// Commands under way.
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::SeqCst)
    }

    /// Whether the engine still takes commands.
    pub fn is_open(&self) -> bool {
        !self.draining.load(Ordering::SeqCst)
    }

    /// Admits nothing more, and resolves when nothing is under way.
    pub async fn drain(&self) {
        self.draining.store(true, Ordering::SeqCst);
        loop {
            let idle = self.idle.notified();
            tokio::pin!(idle);
            idle.as_mut().enable();
            if self.in_flight() == 0 {
                return;
            }
            idle.await;
        }
    }

    /// Takes a permit for a command of a workspace, whose commands under way are counted by `own`.
    ///
    /// # Errors
    /// [`Unavailable`]: the engine drains, or as many commands are under way as may be.
    pub fn admit(self: &Arc<Self>, own: &Arc<AtomicUsize>) -> Result<Permit, Unavailable> {
        let total = self.in_flight.fetch_add(1, Ordering::SeqCst);
        let of_workspace = own.fetch_add(1, Ordering::AcqRel);
        // From here on the permit gives back what was counted.
        let permit = Permit { own: Arc::clone(own), admission: Arc::clone(self) };
        if !self.is_open() {
            return Err(Unavailable::because(UnavailableReason::Draining));
        }
        if total >= self.in_flight_max || of_workspace >= self.per_workspace_max {
            return Err(Unavailable::because(UnavailableReason::Overloaded));
        }
        Ok(permit)
    }
}

/// The right to have one command under way. It travels with the command and ends with its reply.
///
/// It holds the counters that it gives back to, not the workspace's entry: no message keeps alive
/// what it was sent to.
#[derive(Debug)]
pub struct Permit {
    /// The workspace's commands under way.
    own: Arc<AtomicUsize>,
    /// The engine's.
    admission: Arc<Admission>,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.own.fetch_sub(1, Ordering::AcqRel);
        self.admission.in_flight.fetch_sub(1, Ordering::SeqCst);
        if !self.admission.is_open() {
            self.admission.idle.notify_waiters();
        }
    }
}
