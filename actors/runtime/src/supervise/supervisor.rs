//! A supervisor of many actors of one kind, its children.
//!
//! It starts them on demand, restarts those that fail after a backoff, and parks those that a restart
//! cannot mend.

use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::sync::Arc;

use hashbrown::HashMap;
use ractor::{
    Actor, ActorCell, ActorId, ActorProcessingErr, ActorRef, Message, SpawnErr, SupervisionEvent,
};
use tokio::sync::oneshot;

use crate::clock::Clock;
use crate::random;

use super::{Damaged, Placement, RestartPolicy};

/// The reason that ractor gives for an actor that was killed, alone of those that do not fail.
const KILLED: &str = "killed";

/// One kind of children: how one is started, whether it is wanted, and where its placement is kept.
pub trait ChildSpec: Send + Sync + 'static {
    /// Tells one child from another.
    type Key: Clone + Eq + Hash + Send + Sync + fmt::Display + 'static;
    /// What a child is told.
    type Message: Message;

    /// What a child is called in the log.
    const NAME: &'static str;

    /// Starts the child, linked to `supervisor`.
    fn spawn(
        &self,
        key: &Self::Key,
        supervisor: ActorCell,
    ) -> impl Future<Output = Result<ActorRef<Self::Message>, SpawnErr>> + Send;

    /// Whether the child should run; one that should not is not restarted.
    fn is_wanted(&self, key: &Self::Key) -> bool;

    /// Whether the child was last published as live. One that has passivated itself was not.
    fn is_live(&self, key: &Self::Key) -> bool;

    /// Publishes the child's placement.
    fn publish(&self, key: &Self::Key, placement: Placement<Self::Message>);

    /// The child runs again after it had died.
    fn restarted(&self, key: &Self::Key);
}

/// What the supervisor is told.
#[derive(Debug)]
pub enum SupervisorMessage<K> {
    /// Start this child unless it runs, or is down for a while or for good. Answered, by a value
    /// or by being dropped, when it has been seen to.
    Start(K, Option<oneshot::Sender<()>>),
    /// The delay after a death is over.
    Restart(K),
}

/// The supervisor.
pub struct Supervisor<S: ChildSpec> {
    /// How its children are started.
    pub spec: Arc<S>,
    /// Measures health and delays.
    pub clock: Clock,
}

/// The supervisor's memory.
pub struct Children<S: ChildSpec> {
    /// The running ones, by actor.
    running: HashMap<ActorId, S::Key>,
    /// What is known of each that runs, or is down or parked.
    known: HashMap<S::Key, Child>,
}

#[derive(Debug, Default)]
struct Child {
    /// The actor that runs, or ran last.
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
    type State = Children<S>;
    type Arguments = ();

    async fn pre_start(
        &self,
        _myself: ActorRef<Self::Msg>,
        (): (),
    ) -> Result<Self::State, ActorProcessingErr> {
        Ok(Children { running: HashMap::new(), known: HashMap::new() })
    }

    async fn handle(
        &self,
        myself: ActorRef<Self::Msg>,
        message: Self::Msg,
        children: &mut Self::State,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            SupervisorMessage::Start(key, done) => {
                let left =
                    |child: &Child| child.state == ChildState::Running && !self.spec.is_live(&key);
                if children.known.get(&key).is_none_or(left) {
                    self.start(&myself, key, children).await;
                }
                if let Some(done) = done {
                    // Nobody is told if the asker has gone away.
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
                    self.died(&myself, key, &error, children);
                }
            }
            SupervisionEvent::ActorTerminated(actor, _, Some(reason)) if reason == KILLED => {
                if let Some(key) = children.running.remove(&actor.get_id()) {
                    self.died(&myself, key, &KILLED.into(), children);
                }
            }
            SupervisionEvent::ActorTerminated(actor, _, _) => {
                // A clean stop: it published where it is before it stopped, and a successor may
                // run already.
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
        children: &mut Children<S>,
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
            Err(error) => self.died(myself, key, &ActorProcessingErr::from(error), children),
        }
    }

    /// Parks a child, or has it started again after a while.
    fn died(
        &self,
        myself: &ActorRef<SupervisorMessage<S::Key>>,
        key: S::Key,
        error: &ActorProcessingErr,
        children: &mut Children<S>,
    ) {
        let child = children.known.entry(key.clone()).or_default();
        if let Some(reason) = damage(error) {
            tracing::error!(kind = S::NAME, child = %key, reason, "parked");
            child.state = ChildState::Parked;
            self.spec.publish(&key, Placement::Parked(reason.into()));
            return;
        }
        let delay = child.policy.died(self.clock.now(), random::fraction());
        tracing::warn!(kind = S::NAME, child = %key, %error, ?delay, "died; it is restarted");
        child.state = ChildState::Down;
        self.spec.publish(&key, Placement::Down { retry_after: delay });
        let supervisor = myself.clone();
        drop(tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            // The supervisor is gone when the engine is.
            drop(supervisor.cast(SupervisorMessage::Restart(key)));
        }));
    }
}

/// The damage that a child died of, if it is that.
fn damage(error: &ActorProcessingErr) -> Option<String> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error.as_ref());
    while let Some(error) = cause {
        if let Some(damaged) = error.downcast_ref::<Damaged>() {
            return Some(damaged.0.clone());
        }
        cause = error.source();
    }
    None
}
