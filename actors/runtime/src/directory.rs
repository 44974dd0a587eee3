//! A directory of the actors of one kind, with the placement of each.
//!
//! An entry lasts while its actor starts and stops: the actor is started on demand, passivates
//! itself when it has nothing to do, and is restarted by the supervisor when it fails.

use std::fmt;
use std::hash::Hash;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use dashmap::DashMap;
use parking_lot::RwLock;
use ractor::{ActorRef, Message, MessagingErr};
use tokio::sync::oneshot;

/// The placement of a supervised child.
#[derive(Debug)]
pub enum Placement<M> {
    /// The child does not run; it is started when it is needed.
    Idle,
    /// The child runs as this actor.
    Live(ActorRef<M>),
    /// The child failed and is restarted after a delay.
    Down {
        /// The longest time until the restart.
        retry_after: Duration,
    },
    /// The child cannot be started until an operator acts; the text is the reason.
    Parked(Arc<str>),
}

impl<M> Clone for Placement<M> {
    fn clone(&self) -> Self {
        match self {
            Self::Idle => Self::Idle,
            Self::Live(actor) => Self::Live(actor.clone()),
            Self::Down { retry_after } => Self::Down { retry_after: *retry_after },
            Self::Parked(reason) => Self::Parked(Arc::clone(reason)),
        }
    }
}

/// A message to a supervisor.
#[derive(Debug)]
pub enum SupervisorMessage<K> {
    /// Start this child unless it runs, is down or is parked.
    ///
    /// The supervisor replies when the placement is published, whether the child runs or not. A
    /// dropped reply means that the supervisor has stopped.
    Start(K, Option<oneshot::Sender<()>>),
    /// Restart the child, if it is still wanted, since the delay after its failure is over.
    ///
    /// The supervisor does not reply.
    Restart(K),
}

/// The actors of one kind, by key `K`, and the address of their supervisor.
///
/// `M` is their message, `X` the kind's own state of each actor.
pub struct Directory<K, M, X> {
    slots: DashMap<K, Arc<Slot<M, X>>>,
    supervisor: OnceLock<ActorRef<SupervisorMessage<K>>>,
}

/// One actor's entry: its placement, and the kind's own `X`, to which it dereferences.
pub struct Slot<M, X> {
    placement: RwLock<Placement<M>>,
    kept: X,
}

/// A message that no actor received.
#[derive(Debug)]
pub struct Undelivered<M> {
    /// The message.
    pub message: M,
    /// The placement of the actor.
    ///
    /// If it is idle, the caller may have it started. If it is live, the actor has failed and the
    /// supervisor has not noticed yet. Otherwise the actor is down or parked.
    pub placement: Placement<M>,
}

impl<K: Eq + Hash, M, X> Default for Directory<K, M, X> {
    fn default() -> Self {
        Self { slots: DashMap::new(), supervisor: OnceLock::new() }
    }
}

impl<K, M, X> Directory<K, M, X>
where
    K: Clone + Eq + Hash + Send + Sync + 'static,
    M: Message,
{
    /// Connects the supervisor; only the first call counts.
    pub fn set_supervisor(&self, supervisor: ActorRef<SupervisorMessage<K>>) {
        drop(self.supervisor.set(supervisor));
    }

    /// Returns the entry of `key`, if there is one.
    pub fn slot(&self, key: &K) -> Option<Arc<Slot<M, X>>> {
        self.slots.get(key).map(|slot| Arc::clone(&slot))
    }

    /// Returns the entry of `key`. If there is none, adds an idle one with the value of `new`.
    pub fn slot_or_insert_with(&self, key: K, new: impl FnOnce() -> X) -> Arc<Slot<M, X>> {
        // Most calls find one: look before locking the shard for writing.
        if let Some(slot) = self.slot(&key) {
            return slot;
        }
        Arc::clone(&self.slots.entry(key).or_insert_with(|| Arc::new(Slot::new(new()))))
    }

    /// Removes the entry of `key`. Its actor continues until it receives a message to stop.
    pub fn remove(&self, key: &K) -> Option<Arc<Slot<M, X>>> {
        self.slots.remove(key).map(|(_, slot)| slot)
    }

    /// Returns whether `key` has an entry.
    pub fn contains(&self, key: &K) -> bool {
        self.slots.contains_key(key)
    }

    /// Returns every entry.
    pub fn slots(&self) -> Vec<Arc<Slot<M, X>>> {
        self.slots.iter().map(|slot| Arc::clone(&slot)).collect()
    }

    /// Visits every entry. The visitor must not use the directory: part of it is locked.
    pub fn for_each(&self, mut visit: impl FnMut(&K, &Slot<M, X>)) {
        self.slots.iter().for_each(|entry| visit(entry.key(), entry.value()));
    }

    /// Returns the actor of `key`, if it runs.
    pub fn live(&self, key: &K) -> Option<ActorRef<M>> {
        self.slot(key).and_then(|slot| slot.live())
    }

    /// Returns whether the actor of `key` runs.
    pub fn is_live(&self, key: &K) -> bool {
        self.slot(key).is_some_and(|slot| slot.is_live())
    }

    /// Returns the actors that run.
    pub fn all_live(&self) -> Vec<ActorRef<M>> {
        self.slots.iter().filter_map(|slot| slot.live()).collect()
    }

    /// Puts a message into the mailbox of `key`'s actor, if it runs. Returns whether it did.
    pub fn cast_live(&self, key: &K, message: M) -> bool {
        self.slot(key).is_some_and(|slot| slot.cast(message).is_ok())
    }

    /// Puts a message into the mailbox of every actor that runs. `message` is called for each.
    pub fn cast_all_live(&self, message: impl Fn() -> M) {
        for slot in self.slots() {
            if slot.is_live() {
                // An actor that has failed or passivated itself meanwhile needs no message.
                drop(slot.cast(message()));
            }
        }
    }

    /// Asks the supervisor to start the actor of `key`, unless it runs, or is down or parked.
    pub fn start(&self, key: K) {
        self.ask_to_start(key, None);
    }

    /// Does the same as [`start`](Self::start), and returns when the supervisor has replied.
    ///
    /// The actor may not run even then: it is down or parked, or the engine is stopping.
    pub async fn start_and_wait(&self, key: K) {
        let (done, seen) = oneshot::channel();
        self.ask_to_start(key, Some(done));
        // Dropped unanswered: the engine is stopping.
        drop(seen.await);
    }

    fn ask_to_start(&self, key: K, done: Option<oneshot::Sender<()>>) {
        if let Some(supervisor) = self.supervisor.get() {
            // The supervisor has stopped if the engine has.
            drop(supervisor.cast(SupervisorMessage::Start(key, done)));
        }
    }

    /// Publishes the placement of the actor of `key`, if there is such an entry.
    pub fn publish(&self, key: &K, placement: Placement<M>) {
        if let Some(slot) = self.slot(key) {
            slot.publish(placement);
        }
    }
}

impl<M, X> Slot<M, X> {
    /// Creates a slot whose actor is idle.
    pub const fn new(kept: X) -> Self {
        Self { placement: RwLock::new(Placement::Idle), kept }
    }

    /// Returns the placement of the actor.
    pub fn placement(&self) -> Placement<M> {
        self.placement.read().clone()
    }

    /// Returns the actor, if it runs.
    pub fn live(&self) -> Option<ActorRef<M>> {
        match &*self.placement.read() {
            Placement::Live(actor) => Some(actor.clone()),
            _ => None,
        }
    }

    /// Returns whether the actor runs.
    pub fn is_live(&self) -> bool {
        matches!(&*self.placement.read(), Placement::Live(_))
    }

    /// Returns whether the actor is idle: not running, and neither down nor parked.
    pub fn is_idle(&self) -> bool {
        matches!(&*self.placement.read(), Placement::Idle)
    }

    /// Returns whether the actor is parked.
    pub fn is_parked(&self) -> bool {
        matches!(&*self.placement.read(), Placement::Parked(_))
    }

    /// Publishes the placement of the actor.
    pub fn publish(&self, placement: Placement<M>) {
        *self.placement.write() = placement;
    }

    /// Makes a parked slot idle, so that its actor may be started again.
    ///
    /// Returns whether it was parked.
    pub fn unpark(&self) -> bool {
        let mut placement = self.placement.write();
        let is_parked = matches!(&*placement, Placement::Parked(_));
        if is_parked {
            *placement = Placement::Idle;
        }
        is_parked
    }

    /// Publishes the placement of the actor, after calling `before` under the write lock.
    ///
    /// `before` can hand the actor the messages that [`cast_or`](Self::cast_or) has kept for it. No
    /// message that the actor would miss is kept later.
    pub fn publish_with(&self, placement: Placement<M>, before: impl FnOnce(&Placement<M>, &X)) {
        let mut place = self.placement.write();
        before(&placement, &self.kept);
        *place = placement;
    }

    /// Passivates the actor if `may_rest`, and returns whether it did. The actor must stop then.
    ///
    /// `may_rest` judges under the write lock, and [`cast`](Self::cast) holds the read lock: that
    /// is what makes passivation safe. A caller that has work for the actor must record that in `X`
    /// (take a permit, count a wake-up) before it casts. So either `may_rest` sees it and the actor
    /// stays, or the caller finds the actor idle and has it started again; no message is left in a
    /// mailbox that no actor reads. `may_rest` must not use the slot's placement: it is locked.
    pub fn rest_if(&self, may_rest: impl FnOnce(&X) -> bool) -> bool {
        let mut placement = self.placement.write();
        let rests = may_rest(&self.kept);
        if rests {
            *placement = Placement::Idle;
        }
        rests
    }
}

impl<M: Message, X> Slot<M, X> {
    /// Puts a message into the actor's mailbox.
    ///
    /// # Errors
    /// [`Undelivered`]: no actor has received it.
    pub fn cast(&self, message: M) -> Result<(), Undelivered<M>> {
        self.cast_or(message, |undelivered, _| undelivered).map_or(Ok(()), Err)
    }

    /// Puts a message into the actor's mailbox, or calls `otherwise` with it.
    ///
    /// `otherwise` runs under the read lock, so that the placement does not change meanwhile.
    /// Returns the result of `otherwise`; `None` if the message is in the mailbox.
    ///
    /// `otherwise` must not use the slot's placement: it is locked.
    pub fn cast_or<R>(
        &self,
        message: M,
        otherwise: impl FnOnce(Undelivered<M>, &X) -> R,
    ) -> Option<R> {
        let placement = self.placement.read();
        let message = match &*placement {
            Placement::Live(actor) => match actor.cast(message) {
                Err(MessagingErr::SendErr(message)) => message,
                // No other error returns the message. It is lost as if the actor had failed with
                // the message in its mailbox.
                Ok(()) | Err(_) => return None,
            },
            Placement::Idle | Placement::Down { .. } | Placement::Parked(_) => message,
        };
        let undelivered = Undelivered { message, placement: placement.clone() };
        Some(otherwise(undelivered, &self.kept))
    }
}

impl<M, X> Deref for Slot<M, X> {
    type Target = X;

    fn deref(&self) -> &X {
        &self.kept
    }
}

impl<M, X: fmt::Debug> fmt::Debug for Slot<M, X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").field("kept", &self.kept).finish_non_exhaustive()
    }
}

impl<K, M, X> fmt::Debug for Directory<K, M, X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Directory")
    }
}

#[cfg(test)]
mod tests;
