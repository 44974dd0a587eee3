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
    /// A command that is refused is never counted, so it takes no place from one that has room.
    ///
    /// # Errors
    /// [`Unavailable`]: the engine drains, or as many commands are under way as may be.
    pub fn admit(self: &Arc<Self>, own: &Arc<AtomicUsize>) -> Result<Permit, Unavailable> {
        let draining = || Unavailable::because(UnavailableReason::Draining);
        let overloaded = || Unavailable::because(UnavailableReason::Overloaded);
        if !self.is_open() {
            return Err(draining());
        }
        // The engine's counter is shared by all workspaces, so it is taken last: whoever is refused
        // by its own workspace's bound never touches it.
        if self.in_flight() >= self.in_flight_max || !take(own, self.per_workspace_max) {
            return Err(overloaded());
        }
        if !take(&self.in_flight, self.in_flight_max) {
            own.fetch_sub(1, Ordering::AcqRel);
            return Err(overloaded());
        }
        // From here on the permit gives back what was counted.
        let permit = Permit { own: Arc::clone(own), admission: Arc::clone(self) };
        // A drain that began since then may not have seen it.
        if !self.is_open() {
            return Err(draining());
        }
        Ok(permit)
    }
}

/// Adds one to a counter unless it has reached `max`, and returns whether it did.
fn take(counter: &AtomicUsize, max: usize) -> bool {
    let next = |count: usize| (count < max).then_some(count + 1);
    counter.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next).is_ok()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_takes_no_place_from_what_has_room() {
        let admission = Arc::new(Admission::new(3, 4));
        let (full, other) = (Arc::default(), Arc::default());
        let held: Vec<_> = (0..3).map(|_| admission.admit(&full).unwrap()).collect();
        let done = AtomicBool::new(false);
        // One place is left in the engine, and the flooded workspace may not have it.
        std::thread::scope(|scope| {
            let flood = || {
                let mut refused = 0;
                while !done.load(Ordering::Acquire) {
                    assert!(admission.admit(&full).is_err());
                    refused += 1;
                }
                refused
            };
            let floods = [scope.spawn(flood), scope.spawn(flood), scope.spawn(flood)];
            let admitted = (0..20_000).filter(|_| admission.admit(&other).is_ok()).count();
            done.store(true, Ordering::Release);
            let refused: usize = floods.into_iter().map(|flood| flood.join().unwrap()).sum();
            assert_eq!(admitted, 20_000, "beside {refused} that were refused");
        });
        drop(held);
        assert_eq!(admission.in_flight(), 0);
        assert_eq!(full.load(Ordering::Acquire), 0);
    }

    #[test]
    fn the_bounds_are_exact_and_a_drain_admits_nothing() {
        let admission = Arc::new(Admission::new(2, 3));
        let workspaces: [Arc<AtomicUsize>; 2] = Default::default();
        let admit = |index: usize| admission.admit(&workspaces[index]);
        let first = admit(0).unwrap();
        let second = admit(0).unwrap();
        assert!(admit(0).is_err());
        let third = admit(1).unwrap();
        assert!(admit(1).is_err(), "the engine is full");
        assert_eq!(workspaces[1].load(Ordering::Acquire), 1, "the refused one is not counted");
        drop(first);
        let fourth = admit(1).unwrap();
        admission.draining.store(true, Ordering::SeqCst);
        drop(second);
        assert!(matches!(admit(0).unwrap_err().reason, UnavailableReason::Draining));
        drop((third, fourth));
        assert_eq!(admission.in_flight(), 0);
    }
}
