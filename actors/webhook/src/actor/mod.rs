//! An endpoint's actor: it reads the log, makes attempts, and writes their outcomes.

mod storage;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use postrider_domain::Timestamp;
use postrider_runtime::random;
use postrider_runtime::supervise::{LoadedActor, Placement};
use postrider_runtime::timer::Timer;
use ractor::{ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::attempt::{self, AttemptEnd, EndedAttempt};
use crate::delivery::{Aftermath, StartedAttempt};
use crate::directory_entry::{EndpointEntry, EndpointSlot};
use crate::endpoint::{Endpoint, OpenSecrets};
use crate::message::{EndpointMessage, ReplayError};
use crate::ports::EndpointServices;
use crate::queue::DeliveryQueue;
use crate::records::{AttemptLog, Cursor, DeliveryAttempt};
use crate::request_pool::RequestPermit;
use crate::retry_schedule::DisabledReason;

/// The number of deliveries that are read ahead.
const READ_AHEAD: usize = 128;
/// The maximum of attempts that have ended and are not written.
///
/// A crash may repeat these and those in flight.
const UNWRITTEN_MAX: usize = 256;
/// The time without work after which an actor passivates itself.
const LINGER: Duration = Duration::from_secs(30);
/// The interval of checks whether a failed store works again, or a hold has ended.
const OBSTACLE_WAIT: Duration = Duration::from_secs(1);

/// The actor's immutable half.
pub(crate) struct EndpointActor {
    pub(crate) services: Arc<EndpointServices>,
    pub(crate) slot: Arc<EndpointSlot>,
}

/// The caller that waits for a replay to be durable, and the number of its deliveries.
type ReplayReply = (oneshot::Sender<Result<u64, ReplayError>>, u64);

/// The actor's mutable half, in memory while it runs.
pub(crate) struct EndpointState {
    queue: DeliveryQueue,
    attempts: AttemptLog,
    /// Attempts that have ended and are not written yet.
    new_attempts: Vec<DeliveryAttempt>,
    /// The number of attempts in the write in progress.
    attempts_in_write: usize,
    /// First attempts of batches. A batch must be the same when it is repeated after a crash, so it
    /// is posted only when the record of its events is durable.
    unposted: Vec<(StartedAttempt, RequestPermit)>,
    /// The unposted batches whose record is in the write in progress.
    unposted_in_write: Vec<(StartedAttempt, RequestPermit)>,
    /// The endpoint whose secrets were decrypted last, with them.
    opened: Option<(Arc<Endpoint>, Arc<OpenSecrets>)>,
    /// Attempts in flight; they end with the actor.
    tasks: JoinSet<()>,
    /// Set if the log may have more than was read.
    grown: bool,
    /// Set if a read of the log is in progress.
    reading: bool,
    /// Set if the last read was for a replay.
    replay_was_read: bool,
    /// Set if something has changed since the last write started.
    dirty: bool,
    /// Set if a write is in progress.
    writing: bool,
    /// The cursor that was written last.
    written: Cursor,
    /// Replays that wait for the next write.
    replies: Vec<ReplayReply>,
    /// Replays that wait for the write in progress.
    replies_in_write: Vec<ReplayReply>,
    /// Wakes the actor when the next delivery may start.
    timer: Timer,
    /// Counts messages, so that the idle timer sees whether any came.
    busy: u64,
    /// Set if the idle timer runs.
    idling: bool,
    /// The caller that waits for the actor to drain.
    drained: Option<oneshot::Sender<()>>,
    /// Set if the endpoint was deleted.
    retired: bool,
}

impl EndpointState {
    /// Returns the state at the start: `cursor` is the one that was written last.
    fn new(queue: DeliveryQueue, attempts: AttemptLog, cursor: Cursor) -> Self {
        Self {
            queue,
            attempts,
            new_attempts: Vec::new(),
            attempts_in_write: 0,
            unposted: Vec::new(),
            unposted_in_write: Vec::new(),
            opened: None,
            tasks: JoinSet::new(),
            grown: true,
            reading: false,
            replay_was_read: false,
            dirty: false,
            writing: false,
            written: cursor,
            replies: Vec::new(),
            replies_in_write: Vec::new(),
            timer: Timer::default(),
            busy: 0,
            idling: false,
            drained: None,
            retired: false,
        }
    }
}

impl LoadedActor for EndpointActor {
    type Message = EndpointMessage;
    type State = EndpointState;

    async fn start(
        &self,
        myself: &ActorRef<EndpointMessage>,
    ) -> Result<EndpointState, ActorProcessingErr> {
        self.slot.woken.store(false, Ordering::Release);
        let mut loaded = self.load().await?;
        self.proceed(myself, &mut loaded);
        Ok(loaded)
    }

    async fn handle(
        &self,
        myself: &ActorRef<EndpointMessage>,
        message: EndpointMessage,
        state: &mut EndpointState,
    ) -> Result<(), ActorProcessingErr> {
        if !matches!(message, EndpointMessage::Idle(_)) {
            state.busy += 1;
        }
        match message {
            EndpointMessage::Wake => {
                self.slot.woken.store(false, Ordering::Release);
                state.grown = true;
            }
            EndpointMessage::Changed(_) => {
                state.queue.set_rules(self.slot.endpoint.load().queue_rules());
                state.grown = true;
            }
            EndpointMessage::Permit(permit) => self.begin(myself, permit, state),
            EndpointMessage::LogRead(part) => {
                state.reading = false;
                self.queue_read(part?, state);
            }
            EndpointMessage::Done(finished) => self.attempt_ended(myself, *finished, state),
            EndpointMessage::Flushed(result) => {
                result?;
                self.write_ended(myself, state);
            }
            EndpointMessage::Timer(generation) => {
                state.timer.woken(generation);
            }
            EndpointMessage::Idle(busy) => self.idle(myself, busy, state),
            EndpointMessage::Replay(what, reply, _) => {
                match self.queue_replay(what, &mut state.queue).await {
                    Ok(count) => {
                        state.replies.push((reply, count));
                        (state.dirty, state.grown) = (true, true);
                    }
                    // The caller may have stopped waiting.
                    Err(error) => drop(reply.send(Err(error))),
                }
            }
            EndpointMessage::Retire(_) => {
                state.retired = true;
                state.tasks.abort_all();
            }
            EndpointMessage::Drain(done) => state.drained = Some(done),
        }
        self.proceed(myself, state);
        Ok(())
    }
}

impl EndpointActor {
    /// Does everything that is possible now.
    fn proceed(&self, myself: &ActorRef<EndpointMessage>, state: &mut EndpointState) {
        if state.retired {
            if !state.writing {
                self.services.pool.leave(self.slot.id);
                self.services.forget(self.slot.workspace.clone(), self.slot.id);
                self.slot.publish(Placement::Idle);
                myself.stop(None);
            }
            return;
        }
        self.read_on(myself, state);
        let now = self.services.clock.now();
        while self.may_begin(state) && state.queue.may_start(now) {
            match self.services.pool.permit(self.slot.id, &self.slot.workspace) {
                Some(permit) => self.begin(myself, permit, state),
                // A permit is sent when it is this endpoint's turn.
                None => break,
            }
        }
        let due_since = state.queue.due_since().map_or(u64::MAX, Timestamp::as_millis);
        self.slot.due_since_ms.store(due_since, Ordering::Relaxed);
        self.slot.waiting.store(state.queue.waiting(), Ordering::Relaxed);
        self.slot.breaker_open.store(state.queue.is_left_alone(), Ordering::Relaxed);
        self.write(myself, state);
        self.wait_for_next(myself, now, state);
        if let Some(done) = state.drained.take() {
            if state.queue.in_flight() > 0 || state.writing {
                state.drained = Some(done);
            } else {
                // The caller may have stopped waiting.
                done.send(()).ok();
                myself.stop(None);
            }
        } else if !state.idling && self.has_nothing_to_do(state) {
            state.idling = true;
            let busy = state.busy;
            drop(myself.send_after(LINGER, move || EndpointMessage::Idle(busy)));
        }
    }

    fn may_begin(&self, state: &EndpointState) -> bool {
        let unwritten = state.new_attempts.len() + state.attempts_in_write;
        unwritten < UNWRITTEN_MAX
            && !self.services.is_draining()
            && self.services.hold.lets_out()
            && self.services.writer.is_healthy()
    }

    fn has_nothing_to_do(&self, state: &EndpointState) -> bool {
        let reads_on = state.grown && state.queue.wants_more(READ_AHEAD).is_some();
        let busy = reads_on || state.reading || state.writing || state.dirty;
        !busy && state.queue.is_idle()
    }

    fn idle(&self, myself: &ActorRef<EndpointMessage>, busy: u64, state: &mut EndpointState) {
        state.idling = false;
        if state.busy != busy || !self.has_nothing_to_do(state) {
            return;
        }
        if state.queue.cursor() != state.written {
            // The place of events that it skipped was not worth a write until now.
            state.dirty = true;
        } else if self.slot.rest_if(EndpointEntry::may_rest) {
            myself.stop(None);
        }
    }

    /// Handles a durable write: answers the replays and posts the batches that waited.
    fn write_ended(&self, myself: &ActorRef<EndpointMessage>, state: &mut EndpointState) {
        state.writing = false;
        state.attempts_in_write = 0;
        for (reply, count) in state.replies_in_write.drain(..) {
            // The caller may have stopped waiting.
            drop(reply.send(Ok(count)));
        }
        for (attempt, permit) in std::mem::take(&mut state.unposted_in_write) {
            self.post(myself, attempt, permit, state);
        }
    }

    /// Starts the next attempt.
    fn begin(
        &self,
        myself: &ActorRef<EndpointMessage>,
        permit: RequestPermit,
        state: &mut EndpointState,
    ) {
        if state.retired || !self.may_begin(state) {
            return;
        }
        let Some(attempt) = state.queue.start(self.services.clock.now()) else { return };
        if !attempt.stored && attempt.delivery.batch.is_some() {
            state.unposted.push((attempt, permit));
            state.dirty = true;
        } else {
            self.post(myself, attempt, permit, state);
        }
    }

    fn post(
        &self,
        myself: &ActorRef<EndpointMessage>,
        attempt: StartedAttempt,
        permit: RequestPermit,
        state: &mut EndpointState,
    ) {
        // The attempt is in a box, because a task is moved several times before it runs.
        let making = Box::pin(attempt::make(
            Arc::clone(&self.services),
            self.slot.workspace.clone(),
            self.open_endpoint(state),
            attempt,
            permit,
        ));
        let myself = myself.clone();
        state.tasks.spawn(async move {
            let finished = making.await;
            // An actor that has stopped repeats the attempt when it runs again.
            drop(myself.cast(EndpointMessage::Done(Box::new(finished))));
        });
    }

    /// Returns the endpoint, and its secrets if they can be decrypted.
    fn open_endpoint(
        &self,
        state: &mut EndpointState,
    ) -> (Arc<Endpoint>, Option<Arc<OpenSecrets>>) {
        let endpoint = self.slot.endpoint.load_full();
        // Each change of an endpoint makes another value.
        if let Some((known, secrets)) = &state.opened
            && Arc::ptr_eq(known, &endpoint)
        {
            return (endpoint, Some(Arc::clone(secrets)));
        }
        match endpoint.open_secrets(&self.services.master_keys, self.services.clock.now()) {
            Ok(secrets) => {
                let secrets = Arc::new(secrets);
                state.opened = Some((Arc::clone(&endpoint), Arc::clone(&secrets)));
                (endpoint, Some(secrets))
            }
            Err(error) => {
                tracing::error!(webhook = %endpoint.id, %error, "its secret cannot be opened");
                state.opened = None;
                (endpoint, None)
            }
        }
    }

    fn attempt_ended(
        &self,
        myself: &ActorRef<EndpointMessage>,
        finished: EndedAttempt,
        state: &mut EndpointState,
    ) {
        while state.tasks.try_join_next().is_some() {}
        let EndedAttempt { attempt, outcome, forgotten } = finished;
        let now = self.services.clock.now();
        state.dirty = true;
        if let Some(forgotten) = forgotten {
            state.queue.cut_off(attempt.serial, forgotten.1);
            self.record_forgotten(forgotten, attempt.failures, state);
        }
        match outcome {
            AttemptEnd::Vanished => state.queue.vanished(attempt.serial),
            AttemptEnd::NotTried => state.queue.postponed(attempt.serial, now),
            AttemptEnd::Posted(tried) => match tried.failure {
                None => {
                    state.queue.succeeded(attempt.serial, tried.latency);
                    state.new_attempts.push(self.record(&attempt, tried, now, None));
                }
                Some(failure) => {
                    let jitter = random::fraction();
                    let Aftermath { next_at, disable } =
                        state.queue.failed(attempt.serial, failure, now, jitter);
                    state.new_attempts.push(self.record(&attempt, tried, now, next_at));
                    if let Some(reason) = disable {
                        self.disable(myself, reason, state);
                    }
                }
            },
        }
    }

    /// Has the workspace disable the endpoint, which emits an event.
    fn disable(
        &self,
        myself: &ActorRef<EndpointMessage>,
        reason: DisabledReason,
        state: &mut EndpointState,
    ) {
        state.queue.suspend();
        let Some(control) = self.services.control() else { return };
        let (control, slot) = (Arc::clone(control), Arc::clone(&self.slot));
        let myself = myself.clone();
        let enabled_at = state.queue.enabled_at();
        drop(tokio::spawn(async move {
            let disabled = control.disable(&slot.workspace, slot.id, reason, enabled_at).await;
            if let Err(error) = disabled {
                tracing::warn!(webhook = %slot.id, %error, "not disabled; its next failure tries again");
                drop(myself.cast(EndpointMessage::Changed(slot.call())));
            }
        }));
    }

    /// Sets the timer to the moment of the next delivery. `now` must be the moment at which no
    /// further delivery could start: if the clock were read again, a delivery that has become due
    /// in between would get no timer.
    fn wait_for_next(
        &self,
        myself: &ActorRef<EndpointMessage>,
        now: Timestamp,
        state: &mut EndpointState,
    ) {
        let stands = !self.services.writer.is_healthy() || !self.services.hold.lets_out();
        let next = state.queue.next_at(now).or_else(|| stands.then(|| now.plus(OBSTACLE_WAIT)));
        let Some(next) = next else { return };
        let myself = myself.clone();
        state.timer.wake_at(&self.services.clock, next, move |generation| {
            // The actor may have stopped; its successor sets a timer of its own.
            drop(myself.cast(EndpointMessage::Timer(generation)));
        });
    }
}
