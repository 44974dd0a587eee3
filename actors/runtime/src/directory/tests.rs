//! Tests of a directory that delivers messages while its actors start, stop and fail.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use ractor::{Actor, ActorProcessingErr};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::*;

type Keys = Directory<&'static str, u32, Kept>;

/// The tests' own state of each actor.
#[derive(Debug, Default)]
struct Kept {
    wakes: AtomicUsize,
    waiting: Mutex<Vec<u32>>,
}

/// An actor that forwards the messages that it receives.
struct Echo<M>(UnboundedSender<M>);

impl<M: Message> Actor for Echo<M> {
    type Msg = M;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<M>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle(
        &self,
        _: ActorRef<M>,
        message: M,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        self.0.send(message).map_err(|_| "nobody listens")?;
        Ok(())
    }
}

async fn echo<M: Message>() -> (ActorRef<M>, UnboundedReceiver<M>) {
    let (sender, heard) = unbounded_channel();
    let (actor, _) = Actor::spawn(None, Echo(sender), ()).await.unwrap();
    (actor, heard)
}

/// Creates a slot whose actor runs.
async fn live_slot() -> (Slot<u32, Kept>, ActorRef<u32>, UnboundedReceiver<u32>) {
    let slot = Slot::new(Kept::default());
    let (actor, heard) = echo().await;
    slot.publish(Placement::Live(actor.clone()));
    (slot, actor, heard)
}

#[tokio::test]
async fn an_entry_is_added_once_found_and_removed() {
    let keys = Keys::default();
    assert!(keys.slot(&"a").is_none() && !keys.contains(&"a"));
    let slot = keys.slot_or_insert_with("a", Kept::default);
    slot.wakes.store(7, Ordering::Relaxed);
    let same = keys.slot_or_insert_with("a", || panic!("there is one"));
    assert!(Arc::ptr_eq(&slot, &same) && same.wakes.load(Ordering::Relaxed) == 7);
    keys.slot_or_insert_with("b", Kept::default);
    let mut names = Vec::new();
    keys.for_each(|key, slot| names.push((*key, slot.wakes.load(Ordering::Relaxed))));
    names.sort_unstable();
    assert_eq!(names, [("a", 7), ("b", 0)]);
    assert_eq!(keys.slots().len(), 2);
    assert!(keys.remove(&"a").is_some_and(|removed| Arc::ptr_eq(&slot, &removed)));
    assert!(keys.remove(&"a").is_none() && !keys.contains(&"a") && keys.contains(&"b"));
}

#[tokio::test]
async fn messages_come_to_actors_that_run_and_to_no_others() {
    let keys = Keys::default();
    let (actor, mut heard) = echo().await;
    for key in ["live", "idle", "down"] {
        keys.slot_or_insert_with(key, Kept::default);
    }
    keys.publish(&"live", Placement::Live(actor.clone()));
    keys.publish(&"down", Placement::Down { retry_after: Duration::from_secs(1) });
    keys.publish(&"unknown", Placement::Live(actor.clone()));
    assert!(keys.cast_live(&"live", 1));
    for key in ["idle", "down", "unknown"] {
        assert!(!keys.cast_live(&key, 2) && !keys.is_live(&key) && keys.live(&key).is_none());
    }
    keys.cast_all_live(|| 3);
    assert_eq!([heard.recv().await, heard.recv().await], [Some(1), Some(3)]);
    assert!(keys.is_live(&"live") && keys.all_live() == [actor.clone()]);
    assert_eq!(keys.live(&"live"), Some(actor));
    assert!(heard.try_recv().is_err());
}

#[tokio::test]
async fn what_no_actor_has_comes_back_with_where_it_was() {
    let (slot, actor, _heard) = live_slot().await;
    assert!(slot.cast(1).is_ok());
    actor.stop_and_wait(None, None).await.unwrap();
    let dead = slot.cast(2).unwrap_err();
    assert!(dead.message == 2 && matches!(dead.placement, Placement::Live(_)));
    slot.publish(Placement::Idle);
    assert!(matches!(slot.cast(3).unwrap_err().placement, Placement::Idle) && slot.is_idle());
    let retry_after = Duration::from_secs(5);
    slot.publish(Placement::Down { retry_after });
    let down = slot.cast(4).unwrap_err().placement;
    assert!(matches!(down, Placement::Down { retry_after: published } if published == retry_after));
    slot.publish(Placement::Parked("damaged".into()));
    let parked = slot.cast(5).unwrap_err();
    assert!(parked.message == 5);
    assert!(matches!(parked.placement, Placement::Parked(why) if &*why == "damaged"));
}

#[tokio::test]
async fn the_supervisor_is_asked_to_start_an_actor() {
    let keys = Keys::default();
    // Without a supervisor nothing is started, and the caller does not wait.
    keys.start("a");
    keys.start_and_wait("a").await;
    let (supervisor, mut asked) = echo::<SupervisorMessage<&str>>().await;
    keys.set_supervisor(supervisor.clone());
    keys.set_supervisor(echo().await.0);
    keys.start("b");
    let Some(SupervisorMessage::Start("b", None)) = asked.recv().await else {
        panic!("it was not asked for");
    };
    let seen_to = async {
        let Some(SupervisorMessage::Start("c", Some(done))) = asked.recv().await else {
            panic!("nobody waits for it");
        };
        done.send(()).unwrap();
    };
    tokio::join!(keys.start_and_wait("c"), seen_to);
    supervisor.stop_and_wait(None, None).await.unwrap();
    keys.start_and_wait("d").await;
    assert!(asked.try_recv().is_err(), "it is gone");
}

#[tokio::test]
async fn resting_is_judged_and_noted_under_the_write_lock() {
    let (slot, ..) = live_slot().await;
    let seen = slot.wakes.fetch_add(1, Ordering::AcqRel);
    assert!(!slot.rest_if(|kept| kept.wakes.load(Ordering::Acquire) == seen));
    assert!(slot.is_live(), "it was woken");
    let rests = slot.rest_if(|kept| {
        assert!(slot.placement.is_locked_exclusive());
        kept.wakes.store(0, Ordering::Release);
        true
    });
    assert!(rests && slot.is_idle());
}

#[tokio::test]
async fn what_waits_for_an_actor_is_handed_to_it_as_it_is_published() {
    let slot = Slot::<u32, Kept>::new(Kept::default());
    for message in 1..=3 {
        let kept = slot.cast_or(message, |undelivered, kept| {
            assert!(slot.placement.is_locked() && !slot.placement.is_locked_exclusive());
            kept.waiting.lock().push(undelivered.message);
        });
        assert_eq!(kept, Some(()));
    }
    let (actor, mut heard) = echo().await;
    slot.publish_with(Placement::Live(actor), |placement, kept| {
        assert!(slot.placement.is_locked_exclusive());
        let Placement::Live(actor) = placement else { panic!("it runs") };
        kept.waiting.lock().drain(..).for_each(|message| actor.cast(message).unwrap());
    });
    assert!(slot.cast_or(4, |_, _| ()).is_none());
    for message in 1..=4 {
        assert_eq!(heard.recv().await, Some(message));
    }
}

/// Wakes an actor from one thread while it passivates itself in another.
///
/// In either order, the message is in a mailbox that is read, or its sender knows that it must
/// start the actor.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_message_is_lost_between_a_wake_up_and_a_rest() {
    let (slot, actor, mut heard) = live_slot().await;
    for round in 0..500 {
        slot.publish(Placement::Live(actor.clone()));
        let seen = slot.wakes.load(Ordering::Acquire);
        let (cast, rested) = std::thread::scope(|scope| {
            let wake = scope.spawn(|| {
                slot.wakes.fetch_add(1, Ordering::AcqRel);
                slot.cast(round)
            });
            let rested = slot.rest_if(|kept| kept.wakes.load(Ordering::Acquire) == seen);
            (wake.join().unwrap(), rested)
        });
        assert_eq!(slot.is_idle(), rested);
        match cast {
            Ok(()) => {
                assert!(!rested, "{round}: it rests with a message in its mailbox");
                assert_eq!(heard.recv().await, Some(round));
            }
            Err(undelivered) => assert!(rested && undelivered.message == round),
        }
    }
}
