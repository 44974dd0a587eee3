//! Admission: the bound on running commands, and the permit that each of them holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use postrider_domain::unavailable::{Unavailable, UnavailableReason};

/// The bound on running commands in the whole engine, and in the engines that share it.
///
/// `in_flight` and `draining` are `SeqCst`. A drain writes one and reads the other, a command the
/// other way round. One of the two must see the write of the other.
#[derive(Debug)]
pub struct Admission {
    in_flight: AtomicUsize,
    /// The commands of all engines that share the bound.
    in_all: Arc<AtomicUsize>,
    in_flight_max: usize,
    per_workspace_max: usize,
    /// Set once the engine stops: nothing more is admitted.
    draining: AtomicBool,
    /// Notified each time a command ends while the engine drains.
    idle: tokio::sync::Notify,
}

impl Admission {
    /// Sets the bounds for one workspace and for all engines that `in_all` counts.
    #[must_use]
    pub fn new(per_workspace_max: usize, in_flight_max: usize, in_all: Arc<AtomicUsize>) -> Self {
        Self {
            in_flight: AtomicUsize::new(0),
            in_all,
            in_flight_max,
            per_workspace_max,
            draining: false.into(),
            idle: tokio::sync::Notify::new(),
        }
    }

    /// Returns the number of this engine's running commands.
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::SeqCst)
    }

    /// Returns whether the engine still accepts commands.
    pub fn is_open(&self) -> bool {
        !self.draining.load(Ordering::SeqCst)
    }

    /// Admits nothing more, and resolves when no command is running.
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

    /// Takes a permit for a command of a workspace, whose running commands `own` counts.
    ///
    /// A refused command is never counted, so it takes no place from one that has room.
    ///
    /// # Errors
    /// [`Unavailable`]: the engine drains, or the maximum number of commands is running.
    pub fn admit(self: &Arc<Self>, own: &Arc<AtomicUsize>) -> Result<Permit, Unavailable> {
        let draining = || Unavailable::because(UnavailableReason::Draining);
        let overloaded = || Unavailable::because(UnavailableReason::Overloaded);
        if !self.is_open() {
            return Err(draining());
        }
        // All workspaces share the counter `in_all`, so it is taken last. A command that its own
        // workspace's bound refuses never touches it.
        let are_full = self.in_all.load(Ordering::SeqCst) >= self.in_flight_max;
        if are_full || !take(own, self.per_workspace_max) {
            return Err(overloaded());
        }
        if !take(&self.in_all, self.in_flight_max) {
            own.fetch_sub(1, Ordering::AcqRel);
            return Err(overloaded());
        }
        self.in_flight.fetch_add(1, Ordering::SeqCst);
        // From here on the permit gives back the counts.
        let permit = Permit { own: Arc::clone(own), admission: Arc::clone(self) };
        // A drain that started since then may not have seen it.
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

/// The right to run one command. It travels with the command and ends with its reply.
///
/// It holds the counters that it gives back to, not the workspace's entry: no message keeps its own
/// recipient alive.
#[derive(Debug)]
pub struct Permit {
    /// The counter of the workspace's running commands.
    own: Arc<AtomicUsize>,
    /// The engine's admission.
    admission: Arc<Admission>,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.own.fetch_sub(1, Ordering::AcqRel);
        self.admission.in_all.fetch_sub(1, Ordering::SeqCst);
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
        let admission = Arc::new(Admission::new(3, 4, Arc::default()));
        let (full, other) = (Arc::default(), Arc::default());
        let held: Vec<_> = (0..3).map(|_| admission.admit(&full).unwrap()).collect();
        let done = AtomicBool::new(false);
        // One place is left in the engine, and the flooded workspace must not get it.
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
        let admission = Arc::new(Admission::new(2, 3, Arc::default()));
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

    #[test]
    fn engines_that_share_a_bound_have_no_more_under_way_than_one() {
        let in_all = Arc::<AtomicUsize>::default();
        let engine = || Arc::new(Admission::new(2, 3, Arc::clone(&in_all)));
        let (first, second) = (engine(), engine());
        let own: [Arc<AtomicUsize>; 3] = Default::default();
        let held = [first.admit(&own[0]).unwrap(), first.admit(&own[0]).unwrap()];
        let last = second.admit(&own[1]).unwrap();
        assert!(second.admit(&own[2]).is_err(), "both are full");
        assert_eq!((first.in_flight(), second.in_flight()), (2, 1));
        drop(held);
        assert_eq!((first.in_flight(), second.in_flight()), (0, 1), "a drain waits for its own");
        assert!(second.admit(&own[2]).is_ok());
        drop(last);
        assert_eq!(in_all.load(Ordering::SeqCst), 0);
    }
}
