//! An endpoint's actor: it reads the log, makes tries, and has what became of them written.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use postrider_domain::Timestamp;
use postrider_runtime::random;
use postrider_runtime::supervise::Placement;
use postrider_runtime::timer::Timer;
use postrider_store::StoreError;
use postrider_store::writer::CommitError;

use super::attempt::{self, Finished, Outcome};
use super::delivery::{Aftermath, Attempt, DisabledReason};
use super::log_reader::Fed;
use super::persist::row;
use super::queue::DeliveryQueue;
use super::records::{Cursor, DeliveryAttempt, Tries};
use super::replay::{Replay, ReplayError};
use super::request_pool::Permit;
use super::{EndpointSlot, Webhooks};

/// Deliveries that are read ahead.
pub(super) const READ_AHEAD: usize = 128;
/// Tries that may have ended and not be written: with those under way what a crash may repeat.
const UNWRITTEN_MAX: usize = 256;
/// An actor that has had nothing to do for this long goes.
const LINGER: Duration = Duration::from_secs(30);
/// How often an actor looks whether a store that failed works again.
const STORAGE_WAIT: Duration = Duration::from_secs(1);

/// What an endpoint's actor is told.
#[derive(Debug)]
pub enum EndpointMessage {
    /// The log has grown.
    Wake,
    /// The settings have changed.
    Changed,
    /// A place for a request is free.
    Permit(Permit),
    /// The log was read.
    Fed(Result<Fed, StoreError>),
    /// A try has ended.
    Done(Box<Finished>),
    /// What was to be written is durable, or is not.
    Flushed(Result<(), CommitError>),
    /// The wait of this generation is over.
    Timer(u64),
    /// Nothing was done for a while, if this still is the count of messages.
    Idle(u64),
    /// Deliver something again; answered with how much, once that is durable.
    Replay(Replay, oneshot::Sender<Result<u64, ReplayError>>),
    /// The endpoint was deleted.
    Retire,
    /// Begin nothing more; answered when nothing is under way and everything is written.
    Drain(oneshot::Sender<()>),
}

type ReplayReply = (oneshot::Sender<Result<u64, ReplayError>>, u64);

/// The actor's immutable half.
pub(super) struct EndpointActor {
    pub(super) hub: Arc<Webhooks>,
    pub(super) slot: Arc<EndpointSlot>,
}

/// The actor's mutable half; nothing until it is loaded.
pub(super) struct Loaded {
    pub(super) line: DeliveryQueue,
    pub(super) tries: Tries,
    /// Tries that are not written yet.
    pub(super) new_tries: Vec<DeliveryAttempt>,
    /// Tries that are being written.
    pub(super) tries_being_written: usize,
    /// First tries of batches, which wait until it is durable what is in them; and those whose
    /// writing is under way. A batch that comes again after a crash must be the same.
    pub(super) held: Vec<(Attempt, Permit)>,
    pub(super) held_under_way: Vec<(Attempt, Permit)>,
    /// Tries under way; they end with the actor.
    pub(super) tasks: JoinSet<()>,
    /// The log may have more than was read.
    pub(super) grown: bool,
    pub(super) reading: bool,
    /// What was read last is delivered again.
    pub(super) read_again: bool,
    /// Something came to an end since the last writing began.
    pub(super) dirty: bool,
    pub(super) writing: bool,
    /// The cursor that was written last.
    pub(super) written: Cursor,
    /// Who waits for the next writing, and for the one under way.
    pub(super) replies: Vec<ReplayReply>,
    pub(super) replies_under_way: Vec<ReplayReply>,
    /// Wakes the actor when the next delivery may go.
    pub(super) timer: Timer,
    /// Counts what was done, to tell whether nothing was.
    pub(super) busy: u64,
    pub(super) idling: bool,
    pub(super) drained: Option<oneshot::Sender<()>>,
    pub(super) retired: bool,
}

impl Actor for EndpointActor {
    type Msg = EndpointMessage;
    type State = Option<Box<Loaded>>;
    type Arguments = ();

    async fn pre_start(
        &self,
        _myself: ActorRef<Self::Msg>,
        (): (),
    ) -> Result<Self::State, ActorProcessingErr> {
        // What can fail happens after the supervisor is linked.
        Ok(None)
    }

    async fn post_start(
        &self,
        myself: ActorRef<Self::Msg>,
        state: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        self.slot.woken.store(false, Ordering::Release);
        let loaded = state.insert(Box::new(self.load().await?));
        self.go_on(&myself, loaded);
        Ok(())
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        message: Self::Msg,
        state: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        let Some(state) = state.as_mut() else { return Ok(()) };
        if !matches!(message, EndpointMessage::Idle(_)) {
            state.busy += 1;
        }
        match message {
            EndpointMessage::Wake => {
                self.slot.woken.store(false, Ordering::Release);
                state.grown = true;
            }
            EndpointMessage::Changed => {
                state.line.set_rules(self.slot.endpoint.load().line_rules());
                state.grown = true;
            }
            EndpointMessage::Permit(permit) => self.begin(&myself, permit, state),
            EndpointMessage::Fed(fed) => {
                state.reading = false;
                self.take(fed?, state);
            }
            EndpointMessage::Done(finished) => self.finished(&myself, *finished, state),
            EndpointMessage::Flushed(result) => {
                result?;
                self.flushed(&myself, state);
            }
            EndpointMessage::Timer(generation) => {
                state.timer.woken(generation);
            }
            EndpointMessage::Idle(busy) => self.idle(&myself, busy, state),
            EndpointMessage::Replay(what, reply) => match self.replay(what, state).await {
                Ok(count) => {
                    state.replies.push((reply, count));
                    (state.dirty, state.grown) = (true, true);
                }
                // Nobody is told if the asker has gone away.
                Err(error) => drop(reply.send(Err(error))),
            },
            EndpointMessage::Retire => {
                state.retired = true;
                state.tasks.abort_all();
            }
            EndpointMessage::Drain(done) => state.drained = Some(done),
        }
        self.go_on(&myself, state);
        Ok(())
    }
}

impl EndpointActor {
    /// Does everything that can be done now.
    fn go_on(&self, myself: &ActorRef<EndpointMessage>, state: &mut Loaded) {
        if state.retired {
            if !state.writing {
                self.hub.pool.leave(self.slot.id);
                self.hub.forget(self.slot.workspace.clone(), self.slot.id);
                self.slot.publish(Placement::Idle);
                myself.stop(None);
            }
            return;
        }
        self.read_on(myself, state);
        let now = self.hub.clock.now();
        while self.may_begin(state) && state.line.may_start(now) {
            match self.hub.pool.permit(self.slot.id, &self.slot.workspace) {
                Some(permit) => self.begin(myself, permit, state),
                // One comes when it is this endpoint's turn.
                None => break,
            }
        }
        let due_since = state.line.due_since().map_or(u64::MAX, Timestamp::as_millis);
        self.slot.due_since_ms.store(due_since, Ordering::Relaxed);
        self.write(myself, state);
        self.wait_for_next(myself, now, state);
        if let Some(done) = state.drained.take() {
            if state.line.under_way() > 0 || state.writing {
                state.drained = Some(done);
            } else {
                // Nobody is told if the asker has gone away.
                done.send(()).ok();
                myself.stop(None);
            }
        } else if !state.idling && self.has_nothing_to_do(state) {
            state.idling = true;
            let busy = state.busy;
            drop(myself.send_after(LINGER, move || EndpointMessage::Idle(busy)));
        }
    }

    fn may_begin(&self, state: &Loaded) -> bool {
        let unwritten = state.new_tries.len() + state.tries_being_written;
        unwritten < UNWRITTEN_MAX && !self.hub.is_draining() && self.hub.writer.is_healthy()
    }

    fn has_nothing_to_do(&self, state: &Loaded) -> bool {
        let reads_on = state.grown && state.line.wants_more(READ_AHEAD).is_some();
        let busy = reads_on || state.reading || state.writing || state.dirty;
        !busy && state.line.is_idle()
    }

    fn idle(&self, myself: &ActorRef<EndpointMessage>, busy: u64, state: &mut Loaded) {
        state.idling = false;
        if state.busy != busy || !self.has_nothing_to_do(state) {
            return;
        }
        if state.line.cursor() != state.written {
            // What it only looked at was not worth a write until now.
            state.dirty = true;
        } else if self.slot.rest_if(|endpoint| !endpoint.woken.load(Ordering::Acquire)) {
            // The log has not grown since the actor looked.
            myself.stop(None);
        }
    }

    /// What was being written is durable: whoever waited for it goes on.
    fn flushed(&self, myself: &ActorRef<EndpointMessage>, state: &mut Loaded) {
        state.writing = false;
        state.tries_being_written = 0;
        for (reply, count) in state.replies_under_way.drain(..) {
            // Nobody is told if the asker has gone away.
            drop(reply.send(Ok(count)));
        }
        for (attempt, permit) in std::mem::take(&mut state.held_under_way) {
            self.post(myself, attempt, permit, state);
        }
    }

    /// Makes the next try.
    fn begin(&self, myself: &ActorRef<EndpointMessage>, permit: Permit, state: &mut Loaded) {
        if state.retired || !self.may_begin(state) {
            return;
        }
        let Some(attempt) = state.line.start(self.hub.clock.now()) else { return };
        if !attempt.stored && attempt.parcel.batch.is_some() {
            state.held.push((attempt, permit));
            state.dirty = true;
        } else {
            self.post(myself, attempt, permit, state);
        }
    }

    fn post(
        &self,
        myself: &ActorRef<EndpointMessage>,
        attempt: Attempt,
        permit: Permit,
        state: &mut Loaded,
    ) {
        let making = attempt::make(
            Arc::clone(&self.hub),
            self.slot.workspace.clone(),
            self.slot.endpoint.load_full(),
            attempt,
            permit,
        );
        let myself = myself.clone();
        state.tasks.spawn(async move {
            let finished = making.await;
            // An actor that is gone makes the try again when it is back.
            drop(myself.cast(EndpointMessage::Done(Box::new(finished))));
        });
    }

    fn finished(&self, myself: &ActorRef<EndpointMessage>, finished: Finished, state: &mut Loaded) {
        while state.tasks.try_join_next().is_some() {}
        let Finished { attempt, outcome, forgotten } = finished;
        let now = self.hub.clock.now();
        state.dirty = true;
        if let Some(forgotten) = forgotten {
            state.line.cut_off(attempt.serial, forgotten.1);
            self.note_forgotten(forgotten, attempt.failures, state);
        }
        match outcome {
            Outcome::Vanished => state.line.vanished(attempt.serial),
            Outcome::NotTried => state.line.postponed(attempt.serial, now),
            Outcome::Tried(tried) => match tried.failure {
                None => {
                    state.line.succeeded(attempt.serial, tried.latency);
                    state.new_tries.push(row(&attempt, tried, now, None));
                }
                Some(failure) => {
                    let jitter = random::fraction();
                    let Aftermath { next_at, disable } =
                        state.line.failed(attempt.serial, failure, now, jitter);
                    state.new_tries.push(row(&attempt, tried, now, next_at));
                    if let Some(reason) = disable {
                        self.disable(myself, reason, state);
                    }
                }
            },
        }
    }

    /// Has the endpoint disabled, and its workspace told.
    fn disable(
        &self,
        myself: &ActorRef<EndpointMessage>,
        reason: DisabledReason,
        state: &mut Loaded,
    ) {
        state.line.suspend();
        let Some(control) = self.hub.control.get() else { return };
        let (control, slot) = (Arc::clone(control), Arc::clone(&self.slot));
        let myself = myself.clone();
        let enabled_at = state.line.enabled_at();
        drop(tokio::spawn(async move {
            let disabled = control.disable(&slot.workspace, slot.id, reason, enabled_at).await;
            if let Err(error) = disabled {
                tracing::warn!(webhook = %slot.id, %error, "not disabled; its next failure tries again");
                drop(myself.cast(EndpointMessage::Changed));
            }
        }));
    }

    /// Has the actor woken when the next delivery may go. `now` is the moment at which nothing
    /// more could go: read anew, it could be the next one's, and nobody would wait for it.
    fn wait_for_next(
        &self,
        myself: &ActorRef<EndpointMessage>,
        now: Timestamp,
        state: &mut Loaded,
    ) {
        let healthy = self.hub.writer.is_healthy();
        let next = state.line.next_at(now).or_else(|| (!healthy).then(|| now.plus(STORAGE_WAIT)));
        let Some(next) = next else { return };
        let myself = myself.clone();
        state.timer.wake_at(&self.hub.clock, next, move |generation| {
            // The actor may be gone, and its successor waits for itself.
            drop(myself.cast(EndpointMessage::Timer(generation)));
        });
    }
}
