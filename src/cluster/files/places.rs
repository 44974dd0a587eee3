//! A bound on long work that takes a thread: some run at once, and some more wait.

use std::io;
use std::sync::{Condvar, Mutex, PoisonError};

/// Free places, and the number of waiters.
#[derive(Debug)]
pub(super) struct Places {
    state: Mutex<State>,
    freed: Condvar,
    waiting_max: usize,
}

#[derive(Debug)]
struct State {
    free: usize,
    waiting: usize,
}

/// A place that is taken until this is dropped.
#[derive(Debug)]
pub(super) struct Place<'a>(&'a Places);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        // No holder of the lock panics.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner).free += 1;
        self.0.freed.notify_one();
    }
}

impl Places {
    pub(super) fn new(places: usize, waiting_max: usize) -> Self {
        let state = Mutex::new(State { free: places, waiting: 0 });
        Self { state, freed: Condvar::new(), waiting_max }
    }

    /// Takes a place. Blocks while none is free, unless too many wait already.
    pub(super) fn take(&self) -> io::Result<Place<'_>> {
        // No holder of the lock panics.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.free == 0 {
            if state.waiting >= self.waiting_max {
                return Err(io::Error::other("too many files are on their way"));
            }
            state.waiting += 1;
            let waited = self.freed.wait_while(state, |it| it.free == 0);
            state = waited.unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
        state.free -= 1;
        Ok(Place(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_take_a_place_some_wait_and_more_are_refused() {
        let places = Places::new(1, 1);
        let first = places.take().unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| drop(places.take().unwrap()));
            while places.state.lock().unwrap().waiting == 0 {
                std::thread::yield_now();
            }
            assert!(places.take().is_err());
            drop(first);
            waiting.join().unwrap();
        });
        drop(places.take().unwrap());
        assert!(Places::new(1, 0).take().is_ok());
    }
}
