//! Actors that load their state when they start.

use std::future::Future;

use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, Message, SpawnErr};

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
            let (actor, _) = Actor::spawn_linked(None, Loaded(self), (), supervisor).await?;
            Ok(actor)
        }
    }
}

/// A [`LoadedActor`] in the form that ractor runs.
struct Loaded<A>(A);

impl<A: LoadedActor> Actor for Loaded<A> {
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
