//! Tests the behaviour of ractor that the supervision relies on.
//!
//! They prevent that an upgrade of ractor changes it unnoticed.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ractor::{
    Actor, ActorCell, ActorProcessingErr, ActorRef, ActorStatus, MessagingErr, SupervisionEvent,
};
use tokio::sync::{mpsc, oneshot};

/// The messages to the child.
#[derive(Debug)]
enum ChildMessage {
    Panic,
    Fail,
    Stop,
    /// Waits for the other end, then answers.
    Work(oneshot::Receiver<()>, oneshot::Sender<&'static str>),
}

/// Counts its clean stops.
struct Child {
    fails_to_start: bool,
    stops: Arc<AtomicUsize>,
}

impl Actor for Child {
    type Msg = ChildMessage;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<ChildMessage>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn post_start(
        &self,
        _: ActorRef<ChildMessage>,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        if self.fails_to_start { Err("it cannot be loaded".into()) } else { Ok(()) }
    }

    async fn post_stop(
        &self,
        _: ActorRef<ChildMessage>,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        self.stops.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    async fn handle(
        &self,
        myself: ActorRef<ChildMessage>,
        message: ChildMessage,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        match message {
            ChildMessage::Panic => panic!("it panicked"),
            ChildMessage::Fail => return Err("it failed".into()),
            ChildMessage::Stop => myself.stop(None),
            ChildMessage::Work(go_on, answer) => {
                go_on.await.ok();
                answer.send("done").ok();
            }
        }
        Ok(())
    }
}

/// Passes on the events of its children.
struct Parent(mpsc::UnboundedSender<String>);

impl Actor for Parent {
    type Msg = ();
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<()>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _: ActorRef<()>,
        event: SupervisionEvent,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        let heard = match event {
            SupervisionEvent::ActorFailed(_, error) => format!("failed: {error}"),
            // The state in the event does not show the cause: a killed actor has it, unless it had
            // not started.
            SupervisionEvent::ActorTerminated(_, _, reason) => format!("terminated: {reason:?}"),
            _ => return Ok(()),
        };
        self.0.send(heard)?;
        Ok(())
    }
}

struct Family {
    parent: ActorRef<()>,
    heard: mpsc::UnboundedReceiver<String>,
    stops: Arc<AtomicUsize>,
}

impl Family {
    async fn new() -> Self {
        let (sender, heard) = mpsc::unbounded_channel();
        let (parent, _) = Actor::spawn(None, Parent(sender), ()).await.unwrap();
        Self { parent, heard, stops: Arc::default() }
    }

    async fn child(&self, fails_to_start: bool) -> ActorRef<ChildMessage> {
        let child = Child { fails_to_start, stops: Arc::clone(&self.stops) };
        let (child, _) =
            Actor::spawn_linked(None, child, (), self.parent.get_cell()).await.unwrap();
        child
    }

    async fn hears(&mut self) -> String {
        self.heard.recv().await.unwrap()
    }

    fn stops(&self) -> usize {
        self.stops.load(Ordering::SeqCst)
    }
}

async fn stopped(actor: &ActorCell) {
    actor.wait(None).await.ok();
    assert_eq!(actor.get_status(), ActorStatus::Stopped);
}

#[tokio::test]
async fn an_error_of_post_start_reaches_the_supervisor_and_not_the_spawner() {
    let mut family = Family::new().await;
    let child = family.child(true).await;
    assert_eq!(family.hears().await, "failed: it cannot be loaded");
    stopped(&child).await;
    assert_eq!(family.stops(), 0);
}

#[tokio::test]
async fn a_panic_and_an_error_in_handle_reach_it_as_failures() {
    let mut family = Family::new().await;
    family.child(false).await.cast(ChildMessage::Panic).unwrap();
    assert_eq!(family.hears().await, "failed: it panicked");
    family.child(false).await.cast(ChildMessage::Fail).unwrap();
    assert_eq!(family.hears().await, "failed: it failed");
    assert_eq!(family.stops(), 0, "without post_stop");
    assert_eq!(family.parent.get_status(), ActorStatus::Running);
}

#[tokio::test]
async fn a_stop_and_a_kill_differ_in_the_reason_and_in_post_stop() {
    let mut family = Family::new().await;
    family.child(false).await.cast(ChildMessage::Stop).unwrap();
    assert_eq!(family.hears().await, "terminated: None");
    assert_eq!(family.stops(), 1);
    family.child(false).await.kill();
    assert_eq!(family.hears().await, r#"terminated: Some("killed")"#);
    assert_eq!(family.stops(), 1);
}

#[tokio::test]
async fn children_are_killed_with_their_parent() {
    for kill in [true, false] {
        let family = Family::new().await;
        let child = family.child(false).await;
        if kill {
            family.parent.kill();
        } else {
            family.parent.stop(None);
        }
        stopped(&child).await;
        assert_eq!(family.stops(), 0, "without post_stop");
    }
}

#[tokio::test]
async fn a_message_to_one_that_has_ended_comes_back() {
    let family = Family::new().await;
    let child = family.child(false).await;
    child.cast(ChildMessage::Stop).unwrap();
    stopped(&child).await;
    let back = child.cast(ChildMessage::Fail);
    assert!(matches!(back, Err(MessagingErr::SendErr(ChildMessage::Fail))), "{back:?}");
}

#[tokio::test]
async fn a_stop_drops_what_is_queued_and_what_it_carries() {
    let mut family = Family::new().await;
    let child = family.child(false).await;
    let (go_on, waits) = oneshot::channel();
    let (answer, answered) = oneshot::channel();
    child.cast(ChildMessage::Work(waits, answer)).unwrap();
    // There is one thread: the child runs while this yields, and waits inside of the message.
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    let (_never, waits) = oneshot::channel();
    let (answer, dropped) = oneshot::channel();
    child.cast(ChildMessage::Work(waits, answer)).unwrap();
    child.stop(None);
    go_on.send(()).unwrap();
    assert_eq!(answered.await, Ok("done"), "what is being handled is finished");
    assert!(dropped.await.is_err(), "what waits learns it by being dropped");
    assert_eq!(family.hears().await, "terminated: None");
}

#[tokio::test]
async fn a_failure_drops_what_is_queued_and_what_it_carries() {
    let mut family = Family::new().await;
    let child = family.child(false).await;
    let (_never, waits) = oneshot::channel();
    let (answer, dropped) = oneshot::channel();
    child.cast(ChildMessage::Fail).unwrap();
    child.cast(ChildMessage::Work(waits, answer)).unwrap();
    assert_eq!(family.hears().await, "failed: it failed");
    assert!(dropped.await.is_err());
}
