//! Supervision: a supervisor of the actors of one kind starts, restarts and parks them.
//!
//! Children are started on demand. A child that fails is restarted after a backoff. A child that a
//! restart cannot mend is parked.

use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::sync::Arc;

use hashbrown::HashMap;
use ractor::{
    Actor, ActorCell, ActorId, ActorProcessingErr, ActorRef, Message, SpawnErr, SupervisionEvent,
};

use crate::clock::Clock;
use crate::directory::Directory;
use crate::flow::RestartPolicy;
use crate::random;

pub use crate::directory::{Placement, SupervisorMessage};

/// The reason that ractor gives for an actor that was killed. Other stops with a reason are clean.
const KILLED: &str = "killed";

/// A failure that a restart cannot mend: the data from which the child is rebuilt is not readable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("damaged: {0}")]
pub struct Damaged(pub String);

/// One kind of children: the way to start one, and the directory with the placement of each.
pub trait ChildSpec: Send + Sync + 'static {
    /// The key that identifies a child.
    type Key: Clone + Eq + Hash + Send + Sync + fmt::Display + 'static;
    /// The messages of a child.
    type Message: Message;
    /// The kind's own state of each child in the directory.
    type Kept: Send + Sync + 'static;

    /// The name of the kind in the log.
    const NAME: &'static str;

    /// Returns the directory of the kind. A child that has passivated itself is not live there.
    fn directory(&self) -> &Directory<Self::Key, Self::Message, Self::Kept>;

    /// Starts the child. It must be linked to `supervisor`, or its failures go unnoticed.
    fn spawn(
        &self,
        key: &Self::Key,
        supervisor: ActorCell,
    ) -> impl Future<Output = Result<ActorRef<Self::Message>, SpawnErr>> + Send;

    /// Returns whether the child should run; otherwise it is not restarted.
    ///
    /// By default, a child that has an entry should.
    fn is_wanted(&self, key: &Self::Key) -> bool {
        self.directory().contains(key)
    }

    /// Publishes the child's placement. The supervisor replies to a start request only after this.
    fn publish(&self, key: &Self::Key, placement: Placement<Self::Message>) {
        self.directory().publish(key, placement);
    }

    /// Notifies the kind that the child was restarted after a failure.
    ///
    /// By default it does nothing: most children read their remaining work whenever they start.
    fn restarted(&self, _key: &Self::Key) {}
}

/// The supervisor's immutable half.
pub struct Supervisor<S: ChildSpec> {
    /// The kind of its children.
    pub spec: Arc<S>,
    /// The clock that measures health and delays.
    pub clock: Clock,
}

/// The supervisor's mutable half.
pub struct SupervisedChildren<S: ChildSpec> {
    /// The running children, by actor.
    running: HashMap<ActorId, S::Key>,
    /// The children that run, are down or are parked.
    known: HashMap<S::Key, Child>,
}

#[derive(Debug, Default)]
struct Child {
    /// The running actor, or the last one.
    actor: Option<ActorId>,
    policy: RestartPolicy,
    state: ChildState,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum ChildState {
    #[default]
    Running,
    Down,
    Parked,
}

impl<S: ChildSpec> Actor for Supervisor<S> {
    type Msg = SupervisorMessage<S::Key>;
    type State = SupervisedChildren<S>;
    type Arguments = ();

    async fn pre_start(
        &self,
        _myself: ActorRef<Self::Msg>,
        (): (),
    ) -> Result<Self::State, ActorProcessingErr> {
        Ok(SupervisedChildren { running: HashMap::new(), known: HashMap::new() })
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        message: Self::Msg,
        children: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            SupervisorMessage::Start(key, done) => {
                let slot = self.spec.directory().slot(&key);
                let is_live = slot.as_ref().is_some_and(|slot| slot.is_live());
                // A parked child whose entry was replaced does not affect the new one.
                let is_new = slot.as_ref().is_some_and(|slot| slot.is_idle());
                let left = |child: &Child| match child.state {
                    ChildState::Running => !is_live,
                    ChildState::Parked => is_new,
                    ChildState::Down => false,
                };
                if children.known.get(&key).is_none_or(left) {
                    self.start(&myself, key, children).await;
                }
                if let Some(done) = done {
                    // The caller may have stopped waiting.
                    done.send(()).ok();
                }
            }
            SupervisorMessage::Restart(key) => {
                let down = children.known.get(&key).map(|child| &child.state);
                if down == Some(&ChildState::Down) {
                    if self.spec.is_wanted(&key) {
                        self.start(&myself, key.clone(), children).await;
                        self.spec.restarted(&key);
                    } else {
                        children.known.remove(&key);
                        self.spec.publish(&key, Placement::Idle);
                    }
                }
            }
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<Self::Msg>,
        event: SupervisionEvent,
        children: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorFailed(actor, error) => {
                if let Some(key) = children.running.remove(&actor.get_id()) {
                    self.handle_failure(&myself, key, &error, children);
                }
            }
            SupervisionEvent::ActorTerminated(actor, _, Some(reason)) if reason == KILLED => {
                if let Some(key) = children.running.remove(&actor.get_id()) {
                    self.handle_failure(&myself, key, &KILLED.into(), children);
                }
            }
            SupervisionEvent::ActorTerminated(actor, _, _) => {
                // A clean stop: the child published its placement before it stopped, and a
                // successor may run already.
                if let Some(key) = children.running.remove(&actor.get_id())
                    && children.known.get(&key).is_some_and(|c| c.actor == Some(actor.get_id()))
                {
                    children.known.remove(&key);
                }
            }
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => {}
        }
        Ok(())
    }
}

impl<S: ChildSpec> Supervisor<S> {
    async fn start(
        &self,
        myself: &ActorRef<SupervisorMessage<S::Key>>,
        key: S::Key,
        children: &mut SupervisedChildren<S>,
    ) {
        match self.spec.spawn(&key, myself.get_cell()).await {
            Ok(actor) => {
                children.running.insert(actor.get_id(), key.clone());
                let child = children.known.entry(key.clone()).or_default();
                child.actor = Some(actor.get_id());
                child.state = ChildState::Running;
                child.policy.started(self.clock.now());
                self.spec.publish(&key, Placement::Live(actor));
            }
            Err(error) => {
                self.handle_failure(myself, key, &ActorProcessingErr::from(error), children)
            }
        }
    }

    /// Parks a child that failed, or schedules its restart.
    fn handle_failure(
        &self,
        myself: &ActorRef<SupervisorMessage<S::Key>>,
        key: S::Key,
        error: &ActorProcessingErr,
        children: &mut SupervisedChildren<S>,
    ) {
        let child = children.known.entry(key.clone()).or_default();
        if let Some(reason) = damage_cause(error) {
            tracing::error!(kind = S::NAME, child = %key, reason, "parked");
            child.state = ChildState::Parked;
            self.spec.publish(&key, Placement::Parked(reason.into()));
            return;
        }
        let delay = child.policy.failed(self.clock.now(), random::fraction());
        tracing::warn!(kind = S::NAME, child = %key, %error, ?delay, "died; it is restarted");
        child.state = ChildState::Down;
        self.spec.publish(&key, Placement::Down { retry_after: delay });
        let supervisor = myself.clone();
        drop(tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            // The supervisor has stopped if the engine has.
            drop(supervisor.cast(SupervisorMessage::Restart(key)));
        }));
    }
}

/// Returns the damage that made a child fail, if that is the cause.
fn damage_cause(error: &ActorProcessingErr) -> Option<String> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error.as_ref());
    while let Some(error) = cause {
        if let Some(damaged) = error.downcast_ref::<Damaged>() {
            return Some(damaged.0.clone());
        }
        cause = error.source();
    }
    None
}

/// An actor whose state is loaded, which can fail.
pub trait LoadedActor: Sized + Send + Sync + 'static {
    /// Its messages.
    type Message: Message;
    /// Its state.
    type State: Send + 'static;

    /// Loads the state.
    ///
    /// The supervisor is linked by then, so it restarts or parks an actor that fails here like any
    /// other.
    fn start(
        &self,
        myself: &ActorRef<Self::Message>,
    ) -> impl Future<Output = Result<Self::State, ActorProcessingErr>> + Send;

    /// Handles a message. An error ends the actor.
    fn handle(
        &self,
        myself: &ActorRef<Self::Message>,
        message: Self::Message,
        state: &mut Self::State,
    ) -> impl Future<Output = Result<(), ActorProcessingErr>> + Send;

    /// Spawns the actor, linked to its supervisor.
    fn spawn(
        self,
        supervisor: ActorCell,
    ) -> impl Future<Output = Result<ActorRef<Self::Message>, SpawnErr>> + Send {
        async {
            let (actor, _) =
                Actor::spawn_linked(None, LoadedActorShell(self), (), supervisor).await?;
            Ok(actor)
        }
    }
}

/// A [`LoadedActor`] in the form that ractor runs.
struct LoadedActorShell<A>(A);

impl<A: LoadedActor> Actor for LoadedActorShell<A> {
    type Msg = A::Message;
    /// `None` until the state is loaded.
    type State = Option<Box<A::State>>;
    type Arguments = ();

    async fn pre_start(
        &self,
        _myself: ActorRef<Self::Msg>,
        (): (),
    ) -> Result<Self::State, ActorProcessingErr> {
        Ok(None)
    }

    async fn post_start(
        &self,
        myself: ActorRef<Self::Msg>,
        state: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        *state = Some(Box::new(self.0.start(&myself).await?));
        Ok(())
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        message: Self::Msg,
        state: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        // No message is handled before `post_start` has returned.
        let Some(state) = state.as_mut() else { return Ok(()) };
        self.0.handle(&myself, message, state).await
    }
}
