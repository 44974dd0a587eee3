//! The root of the supervision tree: it starts the supervisors and gives time its beat.

use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};

use crate::snapshots::{SnapshotMessage, Snapshots};
use crate::workspace::actor::{WorkspaceActor, WorkspaceMessage};
use crate::workspace::broadcasts::Host;
use crate::workspace::email::Mailer;
use crate::workspace::number_news::TellNews;
use crate::workspace::retention::Retention;
use crate::workspace::{DisableInWorkspace, Workspace};
use postrider_broadcast::{BroadcastFamily, FanoutMessage, Wiring as BroadcastWiring};
use postrider_channel::outcome::Settled;
use postrider_channel::{Failure, Origin};
use postrider_domain::unavailable::UnavailableReason;
use postrider_domain::{BroadcastId, NumberId, WorkspaceId};
use postrider_number::news::NumberNotice;
use postrider_number::{Claims, NumberFamily, OutcomeSink, Outcomes, Wiring};
use postrider_runtime::supervise::{Family, Nursery, Residence};
use postrider_webhook::WebhookFamily;

use super::Shared;

/// How often the workspaces are told that time has passed.
const BEAT: Duration = Duration::from_secs(1);

/// How often news of a number are tried to be written, while a workspace cannot take them.
const NEWS_TRIES: u32 = 100;

/// What the root is told.
#[derive(Debug)]
pub(crate) enum RootMessage {
    /// A second has passed.
    Beat,
}

/// The root.
pub(super) struct Root {
    pub(super) shared: Arc<Shared>,
    /// Takes snapshots, where there are any.
    pub(super) snapshots: Option<Snapshots>,
    pub(super) access: crate::access::Access,
}

/// The root's children, which go when it goes.
pub(super) struct Children {
    snapshots: Option<ActorRef<SnapshotMessage>>,
    /// Forgets old events.
    retention: Retention,
}

impl Actor for Root {
    type Msg = RootMessage;
    type State = Children;
    type Arguments = ();

    async fn pre_start(
        &self,
        myself: ActorRef<Self::Msg>,
        (): (),
    ) -> Result<Children, ActorProcessingErr> {
        let clock = self.shared.clock.clone();
        let family = Arc::new(WorkspaceFamily(Arc::clone(&self.shared)));
        let nursery = Nursery { family, clock: clock.clone() };
        let (workspaces, _) = Actor::spawn_linked(None, nursery, (), myself.get_cell()).await?;
        let family = Arc::new(NumberFamily(Arc::clone(&self.shared.numbers)));
        let nursery = Nursery { family, clock: clock.clone() };
        let (supervisor, _) = Actor::spawn_linked(None, nursery, (), myself.get_cell()).await?;
        let family = Arc::new(BroadcastFamily(Arc::clone(&self.shared.broadcasts)));
        let nursery = Nursery { family, clock: self.shared.clock.clone() };
        let (fan_outs, _) = Actor::spawn_linked(None, nursery, (), myself.get_cell()).await?;
        let host = Arc::new(Host(Arc::downgrade(&self.shared)));
        self.shared.broadcasts.wire(BroadcastWiring { supervisor: fan_outs, host });
        self.shared.workspaces.set_supervisor(workspaces);
        let settle = Arc::new(SettleInWorkspace(Arc::downgrade(&self.shared)));
        self.shared.numbers.wire(Wiring { supervisor, sink: settle });
        let family = Arc::new(WebhookFamily(Arc::clone(&self.shared.webhooks)));
        let nursery = Nursery { family, clock };
        let (supervisor, _) = Actor::spawn_linked(None, nursery, (), myself.get_cell()).await?;
        let control = Arc::new(DisableInWorkspace(Arc::downgrade(&self.shared)));
        self.shared.webhooks.wire(supervisor, control);
        let snapshots = match &self.snapshots {
            None => None,
            Some(snapshots) => {
                let spawned =
                    Actor::spawn_linked(None, snapshots.clone(), (), myself.get_cell()).await?;
                Some(spawned.0)
            }
        };
        Ok(Children { snapshots, retention: Retention::default() })
    }

    async fn post_start(
        &self,
        myself: ActorRef<Self::Msg>,
        _children: &mut Children,
    ) -> Result<(), ActorProcessingErr> {
        drop(myself.send_interval(BEAT, || RootMessage::Beat));
        Ok(())
    }

    async fn handle(
        &self,
        _myself: ActorRef<Self::Msg>,
        RootMessage::Beat: RootMessage,
        children: &mut Children,
    ) -> Result<(), ActorProcessingErr> {
        self.shared.workspaces.tell_live(|| WorkspaceMessage::Tick);
        self.shared.broadcasts.beat();
        children.retention.beat(&self.shared);
        Mailer::beat(&self.shared);
        self.access.checkpoint_in_background();
        if let Some(snapshots) = &children.snapshots {
            // One that has gone is reported below.
            drop(snapshots.cast(SnapshotMessage::Consider));
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _myself: ActorRef<Self::Msg>,
        event: SupervisionEvent,
        children: &mut Children,
    ) -> Result<(), ActorProcessingErr> {
        let SupervisionEvent::ActorFailed(child, error) = event else { return Ok(()) };
        if children.snapshots.as_ref().is_some_and(|own| own.get_id() == child.get_id()) {
            // Without snapshots the journal grows and a restart takes longer; nothing is lost.
            tracing::error!(%error, "no more snapshots are taken until the next start");
            children.snapshots = None;
            return Ok(());
        }
        // The supervisors answer their own errors; one that dies is a defect, and the engine
        // cannot go on without it.
        tracing::error!(%error, "a supervisor died; the engine stops");
        Err(error)
    }
}

/// The workspaces as a supervisor's children.
struct WorkspaceFamily(Arc<Shared>);

impl Family for WorkspaceFamily {
    type Key = WorkspaceId;
    type Message = WorkspaceMessage;

    const NAME: &'static str = "workspace";

    async fn spawn(
        &self,
        id: &WorkspaceId,
        supervisor: ractor::ActorCell,
    ) -> Result<ActorRef<WorkspaceMessage>, ractor::SpawnErr> {
        let Some(slot) = self.0.workspaces.slot(id) else {
            let error = format!("there is no workspace {id}");
            return Err(ractor::SpawnErr::StartupFailed(error.into()));
        };
        let actor = WorkspaceActor { shared: Arc::clone(&self.0), slot };
        let (actor, _) = Actor::spawn_linked(None, actor, (), supervisor).await?;
        Ok(actor)
    }

    fn is_wanted(&self, id: &WorkspaceId) -> bool {
        self.0.workspaces.slot(id).is_some()
    }

    fn is_resident(&self, id: &WorkspaceId) -> bool {
        self.0.workspaces.slot(id).is_some_and(|slot| slot.live().is_some())
    }

    fn publish(&self, id: &WorkspaceId, residence: Residence<WorkspaceMessage>) {
        if let Some(slot) = self.0.workspaces.slot(id) {
            slot.set_residence(residence);
        }
    }

    /// A workspace hands over what is unsent whenever it starts.
    fn restarted(&self, _id: &WorkspaceId) {}
}

/// Brings the numbers' answers to their workspaces. Weak, because the workspaces own the numbers.
struct SettleInWorkspace(std::sync::Weak<Shared>);

impl OutcomeSink for SettleInWorkspace {
    fn settled(&self, workspace: &WorkspaceId, outcomes: Outcomes) {
        let Some(shared) = self.0.upgrade() else { return };
        let (broadcasts, settled) = by_origin(outcomes.settled);
        shared.broadcasts.settled(broadcasts);
        if settled.is_empty() {
            return;
        }
        if let Some(actor) = shared.workspaces.slot(workspace).and_then(|slot| slot.live()) {
            let noted_to = outcomes.noted_to;
            // A workspace that has just died gets them again when it asks for what it misses.
            drop(actor.cast(WorkspaceMessage::Settled(Outcomes { settled, noted_to })));
        }
    }

    fn claims(&self, workspace: &WorkspaceId, claims: Claims) {
        let Some(shared) = self.0.upgrade() else { return };
        if let Some(actor) = shared.workspaces.slot(workspace).and_then(|slot| slot.live()) {
            // The number asks a workspace that has just died again.
            drop(actor.cast(WorkspaceMessage::Claims(claims)));
        }
    }

    fn notice(&self, workspace: &WorkspaceId, number: NumberId, news: NumberNotice) {
        let Some(shared) = self.0.upgrade() else { return };
        let Some(slot) = shared.workspaces.slot(workspace) else { return };
        let workspace = Workspace::new(shared, slot);
        drop(tokio::spawn(async move {
            let news = TellNews { number, news };
            for _ in 0..NEWS_TRIES {
                match workspace.perform(news.clone()).await {
                    Err(why) if why.reason != UnavailableReason::Draining => {
                        tokio::time::sleep(why.retry_after).await;
                    }
                    _ => return,
                }
            }
            tracing::error!(%number, news = ?news.news, "news of a number could not be written");
        }));
    }

    fn withdrawn(&self, places: Vec<(BroadcastId, u32)>) {
        if let Some(shared) = self.0.upgrade() {
            shared.broadcasts.withdrawn(places);
        }
    }

    fn stopped(&self, number: NumberId, failure: &Failure) {
        if let Some(shared) = self.0.upgrade() {
            let stopped = || FanoutMessage::NumberStopped(number, failure.clone());
            shared.broadcasts.tell_live(stopped);
        }
    }

    fn queue_lost(&self, number: NumberId) {
        if let Some(shared) = self.0.upgrade() {
            shared.broadcasts.tell_live(|| FanoutMessage::QueueLost(number));
            shared.workspaces.tell_live(|| WorkspaceMessage::Redispatch);
        }
    }
}

/// An outcome of a broadcast's message: broadcast, recipient, outcome.
type BroadcastOutcome = (BroadcastId, u32, Settled);

/// Splits outcomes into those of broadcasts and those of codes and single messages.
fn by_origin(outcomes: Vec<(Origin, Settled)>) -> (Vec<BroadcastOutcome>, Vec<(Origin, Settled)>) {
    if !outcomes.iter().any(|(origin, _)| matches!(origin, Origin::Broadcast { .. })) {
        return (Vec::new(), outcomes);
    }
    let (mut broadcasts, mut others) = (Vec::new(), Vec::new());
    for (origin, settled) in outcomes {
        match origin {
            Origin::Broadcast { broadcast, index } => broadcasts.push((broadcast, index, settled)),
            Origin::Otp { .. } | Origin::Message(_) => others.push((origin, settled)),
        }
    }
    (broadcasts, others)
}
