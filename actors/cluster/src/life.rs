//! The thread of one shard: it answers the questions of the rules and carries out their outputs.

mod answers;
#[cfg(test)]
mod tests;
mod warmth;

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use postrider_log::LogError;
use postrider_log::body::DATA_FORMAT;

use crate::coordination::formats::waited_for;
use crate::coordination::{ShardReport, Standing};
use crate::gate::ShardTenure;
use crate::log::{LogReport, OwnedLog};
use crate::settle::Settled;
use crate::shard::{
    Answer, Moment, ReleaseAnswer, Role, Shard, ShardInput, ShardOutput, ShardState,
};
use crate::shared::{Inner, Input, Seen};
use crate::turns::Turn;
use warmth::{Idle, Warmth, follow};

/// The time between two checks of the tenure, in milliseconds.
const TICK_MS: u64 = 100;
/// The time for which a shard rests after its engine has stopped, in milliseconds.
const REST_MS: u64 = 1_000;

/// An order to the worker thread for the engine; orders are carried out in sequence.
enum Order {
    Start(u64, Arc<OwnedLog>, ShardTenure, Turn),
    Follow(Turn),
    Forget,
    Drain,
    Abandon,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// One shard on this node.
pub(crate) struct Life {
    inner: Arc<Inner>,
    number: u16,
    shard: Shard,
    inbox: Receiver<Input>,
    sender: Sender<Input>,
    /// The number of the engine. The next field is its log and its right to act while it may write.
    engine: u64,
    log: Option<(Arc<OwnedLog>, ShardTenure)>,
    reply: Option<SyncSender<ReleaseAnswer>>,
    /// The time from which the shard may be followed again after its engine has stopped.
    rest_until: Option<u64>,
    /// Set if a repair prevented the last attempt to claim the shard.
    waits_for_repair: Cell<bool>,
    /// The progress of the records of a shard for which this node is a standby.
    warmth: Warmth,
    /// The time since which the node has nothing to do with the shard.
    idle: Idle,
}

impl Life {
    pub(crate) fn new(
        inner: Arc<Inner>,
        number: u16,
        inbox: Receiver<Input>,
        sender: Sender<Input>,
    ) -> Self {
        let log = inner.logs[usize::from(number)];
        let me = inner.options.node.clone();
        let shard = Shard::new(me, inner.options.identity, log, number);
        let (engine, log, reply, rest_until) = (0, None, None, None);
        let waits_for_repair = Cell::new(false);
        Self {
            inner,
            number,
            shard,
            inbox,
            sender,
            engine,
            log,
            reply,
            rest_until,
            waits_for_repair,
            warmth: Warmth::default(),
            idle: Idle::default(),
        }
    }

    /// Runs until the node stops.
    pub(crate) fn run(mut self) {
        let (orders, taken) = channel();
        // Without the worker the node could own nothing.
        let Some(worker) = self.worker(taken) else { return };
        let mut ticked = 0;
        loop {
            let input = match self.inbox.recv_timeout(Duration::from_millis(TICK_MS)) {
                Ok(Input::Quit) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(input) => Some(input),
                // A node that did not start reports nothing.
                Err(RecvTimeoutError::Timeout) if self.inner.is_stopping() => break,
                Err(RecvTimeoutError::Timeout) => None,
            };
            if let Some(input) = input {
                self.hear(input, &orders);
            }
            let now = self.inner.clock.now_ms();
            if now >= ticked + TICK_MS {
                ticked = now;
                if self.rest_until.take_if(|until| now >= *until).is_some() {
                    self.step(ShardInput::EngineStopped, &orders);
                }
                self.compare_clocks(&orders);
                self.step(ShardInput::Tick, &orders);
                self.keep_warm(now, &orders);
            }
            self.report();
        }
        self.inner.gate.close(self.number);
        // Both sends fail only when the worker has ended.
        drop((orders.send(Order::Drain), orders.send(Order::Abandon)));
        drop(orders);
        // A worker that panicked has ended.
        drop(worker.join());
        self.inner.gate.owns(self.number, None);
    }

    /// Starts the thread that starts and stops the engine, which may take long.
    fn worker(&self, orders: Receiver<Order>) -> Option<JoinHandle<()>> {
        let (host, shard, sender) = (self.inner.host.clone(), self.number, self.sender.clone());
        let (checkpoints, inner) = (self.inner.checkpoints(shard), self.inner.clone());
        let work = move || {
            for order in orders {
                // The turn is dropped before anybody learns of the result.
                let done = match order {
                    Order::Start(engine, log, tenure, _turn) => {
                        let started = host.start(shard, log, checkpoints.clone(), tenure);
                        Input::Started(engine, started)
                    }
                    Order::Follow(_turn) => {
                        Input::Followed(follow(&*host, &inner, shard, checkpoints.clone()))
                    }
                    Order::Forget => Input::Removed(host.forget(shard)),
                    Order::Drain => {
                        host.drain(shard);
                        Input::Drained
                    }
                    Order::Abandon => {
                        host.abandon(shard);
                        Input::Stopped
                    }
                };
                // The thread of the shard may have ended.
                drop(sender.send(done));
            }
        };
        let spawned = std::thread::Builder::new().name(format!("engine-{shard}")).spawn(work);
        spawned.map_err(|error| tracing::error!(%error, shard, "no engine can be started")).ok()
    }

    fn hear(&mut self, input: Input, orders: &Sender<Order>) {
        match input {
            Input::Seen(seen) => self.seen(&seen, orders),
            Input::Log(engine, report) if engine == self.engine => match report {
                LogReport::NotAppended(settled @ Settled::Taken(_)) => {
                    count(&self.inner.counters.fenced);
                    self.step(ShardInput::NotAppended(settled), orders);
                }
                LogReport::Appended(bytes) => self.step(ShardInput::Appended(bytes), orders),
                LogReport::NotAppended(settled) => {
                    self.step(ShardInput::NotAppended(settled), orders);
                }
            },
            Input::Started(engine, Ok(())) if engine == self.engine => {
                self.inner.gate.owns(self.number, self.shard.owned_in());
                count(&self.inner.counters.claims);
                tracing::info!(shard = self.number, "the shard is owned");
            }
            Input::Started(engine, Err(error)) if engine == self.engine => {
                tracing::error!(shard = self.number, error, "the engine did not start");
                self.step(ShardInput::EngineFailed, orders);
            }
            Input::Followed(followed) => self.followed(followed),
            Input::Removed(is_done) => self.idle.removed(is_done),
            Input::Drained => {
                // Every request is answered; the handoff and another owner follow.
                self.inner.gate.owns(self.number, None);
                self.step(ShardInput::Drained, orders);
            }
            Input::Stopped => self.rest_until = Some(self.inner.clock.now_ms() + REST_MS),
            Input::Release { by, reply } => {
                self.reply = Some(reply);
                self.step(ShardInput::ReleaseAsked { by }, orders);
            }
            // The input belongs to an engine that was given up. The end arrives before.
            Input::Log(..) | Input::Started(..) | Input::Quit => {}
        }
    }

    fn seen(&mut self, seen: &Seen, orders: &Sender<Order>) {
        let me = &self.inner.options.node;
        let placed = seen.assignment.get(usize::from(self.number));
        let role = match placed {
            Some(placed) if placed.owner.as_ref() == Some(me) => Role::Owner,
            Some(placed) => {
                let rank = placed.standbys.iter().position(|it| it == me);
                let rank = rank.and_then(|rank| u32::try_from(rank).ok());
                rank.map_or(Role::Nothing, Role::Standby)
            }
            None => Role::Nothing,
        };
        self.forget_later(role, seen, orders);
        let waits = waited_for(&seen.nodes, &seen.draining, DATA_FORMAT).next().is_some();
        self.step(ShardInput::OlderMembers(waits), orders);
        self.compare_clocks(orders);
        self.step(ShardInput::Role(role), orders);
        let owner = self.shard.replica().owner().map(|owner| owner.node.clone());
        if let Some(owner) = owner {
            self.step(ShardInput::OwnerKey(seen.nodes.contains_key(&owner)), orders);
        }
    }

    /// Compares the clocks before each step that may claim, because a clock that is set counts at
    /// once.
    fn compare_clocks(&mut self, orders: &Sender<Order>) {
        self.step(ShardInput::ClockAgrees(self.inner.clock_agrees()), orders);
    }

    fn step(&mut self, input: ShardInput, orders: &Sender<Order>) {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            let (now, term) = (self.inner.clock.now_ms(), self.inner.gate.term());
            let moment = Moment { now, term, engine_ms: self.inner.host.wall_ms() };
            let was_left = self.shard.was_left();
            for output in self.shard.step(moment, input) {
                match output {
                    ShardOutput::Ask(ticket, question) => {
                        let answer = self.ask(question).unwrap_or(Answer::Nothing);
                        inputs.push_back(ShardInput::Answered(ticket, answer));
                    }
                    // The start of the engine applies the log to the records.
                    ShardOutput::Apply(entry) => self.inner.host.keep(self.number, entry),
                    ShardOutput::StartEngine { .. } => {
                        if was_left {
                            count(&self.inner.counters.failovers);
                        }
                        if let Err(error) = self.start_engine(orders) {
                            tracing::warn!(shard = self.number, %error, "the claim was no use");
                            inputs.push_back(ShardInput::EngineFailed);
                        }
                    }
                    ShardOutput::CloseAdmission => {
                        self.inner.gate.close(self.number);
                        drop(orders.send(Order::Drain));
                    }
                    ShardOutput::StopEngine => self.stop_engine(orders),
                    ShardOutput::AnswerRelease(answer) => {
                        // The node that asked may wait no more.
                        self.reply.take().map(|reply| reply.try_send(answer));
                    }
                    ShardOutput::Stopped(reason) => {
                        count(&self.inner.counters.lost);
                        tracing::error!(shard = self.number, %reason, "the shard has stopped");
                        self.stop_engine(orders);
                    }
                }
            }
        }
    }

    fn start_engine(&mut self, orders: &Sender<Order>) -> Result<(), LogError> {
        self.engine += 1;
        let (engine, sender) = (self.engine, self.sender.clone());
        let log = self.inner.open_log(self.number)?;
        let claim = self.shard.replica().chain().last();
        // The thread of the shard may have ended.
        let report = Box::new(move |it| drop(sender.send(Input::Log(engine, it))));
        let bytes_max = self.inner.record.stream_bytes_max.unsigned_abs();
        let tenure = ShardTenure::new(self.inner.gate.clone(), self.shard.owned_in());
        let log = OwnedLog::behind_claim(log, claim, bytes_max, tenure.clone(), report)?;
        self.log = Some((log.clone(), tenure.clone()));
        let ended = |_| LogError::Failed("the thread of the engine has ended".to_owned());
        let turn = self.inner.turns.start();
        orders.send(Order::Start(engine, log, tenure, turn)).map_err(ended)
    }

    /// Gives up the engine: nothing from it counts any more.
    fn stop_engine(&mut self, orders: &Sender<Order>) {
        self.inner.gate.owns(self.number, None);
        self.engine += 1;
        if let Some((log, tenure)) = self.log.take() {
            tenure.end();
            log.fence();
            tracing::warn!(shard = self.number, "the shard is given up");
        }
        drop(orders.send(Order::Abandon));
    }

    /// Returns the reason why the shard is not served, or could not be served here.
    fn reason(&self, state: Standing) -> Option<String> {
        let waits = state == Standing::Claiming && self.waits_for_repair.get();
        let stopped = self.shard.stop_reason().map(ToString::to_string);
        let stopped = stopped.or_else(|| waits.then(|| Self::waiting(self.number)));
        stopped.or_else(|| self.lags_because())
    }

    /// Records the report about the shard for other nodes.
    fn report(&self) {
        let state = match self.shard.state() {
            ShardState::Absent | ShardState::Restoring => None,
            ShardState::Following | ShardState::Abandoned => Some(Standing::Following),
            ShardState::Claiming | ShardState::HandingOff => Some(Standing::Claiming),
            ShardState::Owning if self.inner.gate.answers(self.number) => Some(Standing::Owned),
            ShardState::Owning => Some(Standing::Claiming),
            ShardState::Stopped => Some(Standing::Stopped),
        };
        let chain = self.shard.replica().chain();
        let report = state.map(|state| ShardReport {
            shard: self.number,
            state,
            epoch: chain.epoch(),
            position: chain.last().0,
            checkpoint: self.shard.replica().checkpoint().map(|at| at.0),
            format: self.shard.replica().format(),
            reason: self.reason(state),
        });
        if let Some(kept) = self.inner.reports.lock().get_mut(usize::from(self.number)) {
            *kept = report;
        }
    }
}
