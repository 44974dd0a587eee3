//! The root of the supervision tree: it starts the supervisors and sends the beat of time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use postrider_broadcast::{BroadcastSpec, Wiring as BroadcastWiring};
use postrider_number::{NumberSpec, Wiring};
use postrider_runtime::Clock;
use postrider_runtime::supervise::{ChildSpec, Supervisor, SupervisorMessage};
use postrider_store::FreeSpace;
use postrider_webhook::WebhookSpec;
use postrider_workspace::DisableInWorkspace;
use postrider_workspace::actor::WorkspaceSpec;
use postrider_workspace::actor::snapshots::{SnapshotMessage, Snapshots};
use postrider_workspace::broadcasts::Host;
use postrider_workspace::delivery_sink::DeliverySink;
use postrider_workspace::log_index::LogIndex;
use postrider_workspace::mailbox::message::WorkspaceMessage;
use postrider_workspace::numbers::portfolio;
use postrider_workspace::retention::Retention;
use postrider_workspace::services::{Mailer, Services};
use ractor::{Actor, ActorProcessingErr, ActorRef, SpawnErr, SupervisionEvent};

use crate::audit::{AuditLog, AuditUpkeep};

/// The interval at which the workspaces are notified that time has passed.
const BEAT: Duration = Duration::from_secs(1);

/// A message to the root.
#[derive(Debug)]
pub(crate) enum RootMessage {
    /// A second has passed.
    Beat,
}

/// The root.
pub(super) struct Root {
    pub(super) shared: Arc<Services>,
    /// Takes snapshots, if there are any.
    pub(super) snapshots: Option<Snapshots>,
    pub(super) access: crate::access::Access,
    pub(super) audit: AuditLog,
    /// Measures the free space of the disk, if there is one.
    pub(super) space: Option<SpaceMeter>,
}

/// The root's children, which stop with it.
pub(super) struct RootChildren {
    snapshots: Option<ActorRef<SnapshotMessage>>,
    /// Removes old events.
    retention: Retention,
    /// Indexes new events.
    log_index: LogIndex,
    /// Removes old audit records.
    audit: AuditUpkeep,
}

impl Actor for Root {
    type Msg = RootMessage;
    type State = RootChildren;
    type Arguments = ();

    async fn pre_start(
        &self,
        myself: ActorRef<Self::Msg>,
        (): (),
    ) -> Result<RootChildren, ActorProcessingErr> {
        let clock = &self.shared.clock;
        let spec = WorkspaceSpec(Arc::clone(&self.shared));
        let workspaces = supervise(spec, clock, &myself).await?;
        let spec = NumberSpec(Arc::clone(&self.shared.numbers));
        let numbers = supervise(spec, clock, &myself).await?;
        let spec = BroadcastSpec(Arc::clone(&self.shared.broadcasts));
        let fan_outs = supervise(spec, clock, &myself).await?;
        let host = Arc::new(Host(Arc::downgrade(&self.shared)));
        self.shared.broadcasts.wire(BroadcastWiring { supervisor: fan_outs, host });
        self.shared.workspaces.set_supervisor(workspaces);
        let settle = Arc::new(DeliverySink(Arc::downgrade(&self.shared)));
        self.shared.numbers.wire(Wiring { supervisor: numbers, sink: settle });
        let spec = WebhookSpec(Arc::clone(&self.shared.webhooks));
        let endpoints = supervise(spec, clock, &myself).await?;
        let control = Arc::new(DisableInWorkspace(Arc::downgrade(&self.shared)));
        self.shared.webhooks.wire(endpoints, control);
        let snapshots = match &self.snapshots {
            None => None,
            Some(snapshots) => {
                let spawned =
                    Actor::spawn_linked(None, snapshots.clone(), (), myself.get_cell()).await?;
                Some(spawned.0)
            }
        };
        let audit = AuditUpkeep::new(self.audit.clone());
        let (retention, log_index) = (Retention::default(), LogIndex::default());
        Ok(RootChildren { snapshots, retention, log_index, audit })
    }

    async fn post_start(
        &self,
        myself: ActorRef<Self::Msg>,
        _children: &mut RootChildren,
    ) -> Result<(), ActorProcessingErr> {
        drop(myself.send_interval(BEAT, || RootMessage::Beat));
        Ok(())
    }

    async fn handle(
        &self,
        _myself: ActorRef<Self::Msg>,
        RootMessage::Beat: RootMessage,
        children: &mut RootChildren,
    ) -> Result<(), ActorProcessingErr> {
        self.shared.workspaces.cast_all_live(|| WorkspaceMessage::Tick);
        self.shared.broadcasts.beat();
        self.shared.numbers.rest_idle();
        portfolio::beat(&self.shared);
        children.retention.beat(&self.shared);
        children.log_index.beat(&self.shared);
        children.audit.beat();
        Mailer::beat(&self.shared);
        self.access.save_use_in_background();
        if let Some(space) = &self.space {
            space.measure_in_background(&self.shared);
        }
        if let Some(snapshots) = &children.snapshots {
            // An actor that has stopped is reported below.
            drop(snapshots.cast(SnapshotMessage::Consider));
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _myself: ActorRef<Self::Msg>,
        event: SupervisionEvent,
        children: &mut RootChildren,
    ) -> Result<(), ActorProcessingErr> {
        let SupervisionEvent::ActorFailed(child, error) = event else { return Ok(()) };
        if children.snapshots.as_ref().is_some_and(|own| own.get_id() == child.get_id()) {
            // Without snapshots the journal grows and a restart takes longer; nothing is lost.
            tracing::error!(%error, "no more snapshots are taken until the next start");
            children.snapshots = None;
            return Ok(());
        }
        // The supervisors handle their own errors. One that dies is a defect, and the engine cannot
        // continue without it.
        tracing::error!(%error, "a supervisor died; the engine stops");
        Err(error)
    }
}

/// Starts the supervisor of one kind of actors, linked to the root.
async fn supervise<S: ChildSpec>(
    spec: S,
    clock: &Clock,
    root: &ActorRef<RootMessage>,
) -> Result<ActorRef<SupervisorMessage<S::Key>>, SpawnErr> {
    let supervisor = Supervisor { spec: Arc::new(spec), clock: clock.clone() };
    let (supervisor, _) = Actor::spawn_linked(None, supervisor, (), root.get_cell()).await?;
    Ok(supervisor)
}

/// Measures the free space of the disk at the start and with each beat of the engine.
///
/// It runs beside the actors, because a measurement blocks, and once at a time.
#[derive(Clone)]
pub(super) struct SpaceMeter {
    measure: Arc<dyn FreeSpace>,
    measuring: Arc<AtomicBool>,
}

impl SpaceMeter {
    pub(super) fn new(measure: Arc<dyn FreeSpace>) -> Self {
        Self { measure, measuring: Arc::default() }
    }

    /// Measures before anything starts, if there is a meter.
    pub(super) async fn measure_first(space: Option<&Self>, shared: &Services) {
        if let Some(space) = space {
            space.measure(shared).await;
        }
    }

    /// Measures on a thread that may block. After a failure the last value stays.
    pub(super) async fn measure(&self, shared: &Services) {
        let measure = Arc::clone(&self.measure);
        match tokio::task::spawn_blocking(move || measure.free_bytes()).await {
            Ok(Ok(free)) => shared.disk.measured(free),
            Ok(Err(error)) => tracing::warn!(%error, "the free space of the disk is not known"),
            // It panicked, which is logged, or the engine stops.
            Err(_) => {}
        }
    }

    /// Measures in the background, unless the last measurement is still in progress.
    pub(super) fn measure_in_background(&self, shared: &Arc<Services>) {
        if self.measuring.swap(true, Ordering::AcqRel) {
            return;
        }
        let (space, shared) = (self.clone(), Arc::clone(shared));
        drop(tokio::spawn(async move {
            space.measure(&shared).await;
            space.measuring.store(false, Ordering::Release);
        }));
    }
}
