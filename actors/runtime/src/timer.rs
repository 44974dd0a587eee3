//! A timer that wakes its actor, and one timer for all waits of a connection.
//!
//! A [`Timer`] wakes its actor at the earliest moment that was requested. Each wait has a
//! generation, which the wake-up carries. A wake-up may be in the mailbox when an earlier moment
//! replaces its wait. The generation distinguishes it from the current one.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use postrider_domain::Timestamp;
use tokio::task::{AbortHandle, unconstrained};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::clock::{Clock, deadline_in};

/// A wait for one moment of engine time. Dropping it ends the wait.
#[derive(Debug, Default)]
pub struct Timer {
    /// The generation of the last wait.
    generation: u64,
    /// The moment of the running wait; `None` when none runs.
    until: Option<Timestamp>,
    task: Option<AbortHandle>,
}

impl Timer {
    /// Calls `wake` with the generation of this wait once engine time reaches `at`. A wait for that
    /// moment or an earlier one continues instead; a wait for a later one is replaced.
    ///
    /// It must be called in a tokio runtime. `wake` should only put a message into a mailbox: the
    /// actor may have stopped by then.
    pub fn wake_at(
        &mut self,
        clock: &Clock,
        at: Timestamp,
        wake: impl FnOnce(u64) + Send + 'static,
    ) {
        if self.until.is_some_and(|until| until <= at) {
            return;
        }
        self.stop();
        self.generation += 1;
        self.until = Some(at);
        let (clock, generation) = (clock.clone(), self.generation);
        let task = tokio::spawn(async move {
            clock.sleep_until(at).await;
            wake(generation);
        });
        self.task = Some(task.abort_handle());
    }

    /// Records that the wake-up of a generation has arrived. Returns whether it ended the running
    /// wait; a wake-up of an older one changes nothing.
    pub fn woken(&mut self, generation: u64) -> bool {
        let is_current = generation == self.generation && self.until.is_some();
        if is_current {
            self.until = None;
        }
        is_current
    }

    /// Returns the moment of the running wait; `None` when no wait runs.
    #[must_use]
    pub const fn until(&self) -> Option<Timestamp> {
        self.until
    }

    fn stop(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The timer of a connection: for the heads of requests and for their handling.
///
/// Nearly every deadline of a connection passes unused, and arming a timer for each takes a lock
/// that all connections share. So a timer that is armed for an earlier deadline stays armed. When
/// it fires, it is armed again for the deadline that holds then. A request arms none. Clones are
/// the same timer.
#[derive(Debug, Clone, Default)]
pub struct LazyTimer(Arc<Mutex<Option<Armed>>>);

/// A timer that runs, and the task that it wakes.
#[derive(Debug)]
struct Armed {
    timer: Pin<Box<Sleep>>,
    /// `None` until it was polled.
    wakes: Option<Waker>,
}

impl LazyTimer {
    /// Returns `Ready` once `deadline` has passed. Only the task of the connection may poll it.
    pub fn poll(&self, context: &mut Context<'_>, deadline: Instant) -> Poll<()> {
        // No code panics while the lock is held, so the timer is whole.
        let mut armed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Armed { timer, wakes } = armed
            .get_or_insert_with(|| Armed { timer: Box::pin(sleep_until(deadline)), wakes: None });
        // It was polled by this task, and has not fired: it will wake the task in time.
        let is_waiting = wakes.as_ref().is_some_and(|it| it.will_wake(context.waker()));
        if is_waiting && timer.deadline() <= deadline && !timer.is_elapsed() {
            return Poll::Pending;
        }
        *wakes = Some(context.waker().clone());
        if timer.deadline() > deadline {
            timer.as_mut().reset(deadline);
        }
        loop {
            // The timer is registered even if the task has used up its share of this turn.
            ready!(pin!(unconstrained(timer.as_mut())).poll(context));
            if timer.deadline() >= deadline {
                return Poll::Ready(());
            }
            timer.as_mut().reset(deadline);
        }
    }

    /// Returns the result of `work`, or `None` if it takes longer than `wait`.
    pub async fn within<T>(&self, wait: Duration, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        let mut deadline = None;
        std::future::poll_fn(|context| {
            if let Poll::Ready(done) = work.as_mut().poll(context) {
                return Poll::Ready(Some(done));
            }
            let deadline = *deadline.get_or_insert_with(|| deadline_in(wait));
            self.poll(context, deadline).map(|()| None)
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

    use super::*;

    /// A timer, its clock, and the mailbox that it wakes.
    struct Rig {
        timer: Timer,
        clock: Clock,
        sender: UnboundedSender<u64>,
        mailbox: UnboundedReceiver<u64>,
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1000)
    }

    impl Rig {
        fn new() -> Self {
            let (sender, mailbox) = unbounded_channel();
            Self { timer: Timer::default(), clock: Clock::manual(at(0)), sender, mailbox }
        }

        fn wake_at(&mut self, seconds: u64) {
            let sender = self.sender.clone();
            self.timer.wake_at(&self.clock, at(seconds), move |generation| {
                sender.send(generation).unwrap();
            });
        }

        /// Moves the clock and returns the generation that is woken then.
        async fn woken_after(&mut self, seconds: u64) -> u64 {
            self.clock.advance(Duration::from_secs(seconds));
            self.mailbox.recv().await.unwrap()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn it_wakes_at_the_moment_and_can_be_set_again() {
        let mut rig = Rig::new();
        for generation in 1..=3 {
            rig.wake_at(generation * 10);
            assert_eq!(rig.timer.until(), Some(at(generation * 10)));
            assert_eq!(rig.woken_after(10).await, generation);
            assert!(rig.timer.woken(generation));
            assert_eq!(rig.timer.until(), None);
            assert!(!rig.timer.woken(generation), "it has woken already");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_earliest_moment_is_kept() {
        let mut rig = Rig::new();
        rig.wake_at(20);
        rig.wake_at(20);
        rig.wake_at(30);
        assert_eq!(rig.timer.until(), Some(at(20)));
        rig.wake_at(10);
        assert_eq!(rig.timer.until(), Some(at(10)));
        assert_eq!(rig.woken_after(10).await, 2, "the first wait was replaced once");
        assert!(rig.timer.woken(2));
        rig.wake_at(30);
        assert_eq!(rig.woken_after(20).await, 3, "and its task has ended");
    }

    #[tokio::test(start_paused = true)]
    async fn a_wake_up_that_was_replaced_on_its_way_is_ignored() {
        let mut rig = Rig::new();
        rig.wake_at(20);
        let old = rig.woken_after(20).await;
        // The actor has not read it yet when an earlier moment is requested.
        rig.wake_at(15);
        assert!(!rig.timer.woken(old));
        assert_eq!(rig.timer.until(), Some(at(15)));
        let new = rig.mailbox.recv().await.unwrap();
        assert!(new > old && rig.timer.woken(new));
    }

    #[tokio::test(start_paused = true)]
    async fn it_ends_with_its_owner() {
        let Rig { mut timer, clock, sender, mut mailbox } = Rig::new();
        timer.wake_at(&clock, at(10), move |generation| sender.send(generation).unwrap());
        drop(timer);
        // This is tokio's own time, which passes at once when there is no other work.
        let received = tokio::time::timeout(Duration::from_secs(60), mailbox.recv()).await;
        assert_eq!(received, Ok(None), "the task has ended, and its sender with it");
    }

    #[tokio::test(start_paused = true)]
    async fn a_deadline_holds_whatever_the_timer_was_armed_for() {
        let timer = LazyTimer::default();
        let start = deadline_in(Duration::ZERO);
        for (wait, armed_before) in [(10, None), (30, Some(5)), (30, Some(90)), (1, Some(1))] {
            let (start, wait) = (deadline_in(Duration::ZERO), Duration::from_secs(wait));
            if let Some(before) = armed_before {
                let before = start + Duration::from_secs(before);
                let polled = std::future::poll_fn(|it| Poll::Ready(timer.poll(it, before))).await;
                assert!(polled.is_pending());
            }
            assert_eq!(timer.within(wait, std::future::pending::<()>()).await, None);
            let late = start.elapsed() - wait;
            assert!(late < Duration::from_millis(2), "{armed_before:?}: {late:?} late");
        }
        assert!(start.elapsed() >= Duration::from_secs(71));
        assert_eq!(timer.within(Duration::ZERO, std::future::ready(7)).await, Some(7));
    }

    #[tokio::test(start_paused = true)]
    async fn a_deadline_holds_though_the_work_has_used_up_its_turn() {
        let (sender, mut messages) = unbounded_channel();
        (0..1000).for_each(|number| sender.send(number).unwrap());
        let timer = LazyTimer::default();
        for wait in [1, 30, 5] {
            let mut is_first = true;
            let work = std::future::poll_fn(|context| {
                while is_first && tokio::task::coop::has_budget_remaining() {
                    assert!(messages.poll_recv(context).is_ready());
                }
                is_first = false;
                Poll::<()>::Pending
            });
            let within = timer.within(Duration::from_secs(wait), work);
            assert_eq!(tokio::time::timeout(Duration::from_secs(60), within).await, Ok(None));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn many_that_end_in_time_arm_it_once() {
        let timer = LazyTimer::default();
        for _ in 0..20 {
            let work = tokio::time::sleep(Duration::from_secs(1));
            assert_eq!(timer.within(Duration::from_secs(30), work).await, Some(()));
        }
        let armed = timer.0.lock().unwrap().as_ref().map(|it| it.timer.deadline());
        let first = deadline_in(Duration::ZERO) - Duration::from_secs(20) + Duration::from_secs(30);
        let off = armed.unwrap().max(first) - armed.unwrap().min(first);
        assert!(off < Duration::from_millis(50), "{off:?}");
    }
}
