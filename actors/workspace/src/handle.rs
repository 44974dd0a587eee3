//! The handle that callers hold of a workspace.

use std::sync::Arc;

use postrider_domain::unavailable::{Unavailable, UnavailableReason};
use postrider_domain::{AuditContext, AuditEntry, EventId, WorkspaceId};
use postrider_runtime::{ScanError, random, task};
use postrider_store::view::event_log::{self, EventEntry};
use postrider_store::{StoreError, View};
use tokio::sync::oneshot;

use crate::core::command::{AuditDraft, Command, Footprint};
use crate::core::otp::types::{ResendOtpError, SendOtpError};
use crate::core::settings::{ChangeError, WorkspaceSettings};
use crate::core::view::unreadable;
use crate::events::{self, EventFilter, EventsBack, EventsPage};
use crate::mailbox::message::{BoxedCommand, Configure, WorkspaceMessage};
use crate::mailbox::slot::{CommandTrace, NotDelivered, ReplyTo, Slot, deliver};
use crate::services::Services;

/// The maximum number of actor starts for a command before it gives up.
const STARTS_MAX: usize = 3;

/// One workspace. It is cheap to clone, and every call may be made from anywhere, concurrently.
///
/// Each answer comes after everything that it reports is durable. A call whose future is dropped
/// may have been carried out.
#[derive(Clone)]
pub struct Workspace {
    pub(crate) shared: Arc<Services>,
    pub(crate) slot: Arc<Slot>,
    /// The author of changes by this handle; `None` is the server itself.
    caller: Option<Arc<AuditContext>>,
}

impl std::fmt::Debug for Workspace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Workspace").field(&self.slot.id).finish()
    }
}

impl Workspace {
    /// Returns the handle of the workspace with this entry.
    pub const fn new(shared: Arc<Services>, slot: Arc<Slot>) -> Self {
        Self { shared, slot, caller: None }
    }

    /// Returns the same workspace, for changes that the audit log records as this caller's.
    #[must_use]
    pub fn by(&self, caller: Arc<AuditContext>) -> Self {
        Self { caller: Some(caller), ..self.clone() }
    }

    /// Returns whether a caller requests the changes, whom the audit log names.
    ///
    /// Otherwise the server itself makes them.
    pub(crate) const fn is_asked_for(&self) -> bool {
        self.caller.is_some()
    }

    /// Returns the workspace's id.
    #[must_use]
    pub fn id(&self) -> &WorkspaceId {
        &self.slot.id
    }

    /// Returns at most `limit` events after the sequence `after` (0: from the start of the log).
    ///
    /// They are of type `kind` if one is given. The call looks at a bounded part of the log, so a
    /// page can be empty before the end; `next_after` then still advances.
    ///
    /// # Errors
    /// [`Unavailable`] when the store cannot be read.
    pub async fn events(
        &self,
        after: u64,
        limit: usize,
        kind: Option<&str>,
    ) -> Result<EventsPage, Unavailable> {
        let filter =
            EventFilter { types: kind.map(|kind| vec![kind.to_owned()]), about: Vec::new() };
        self.events_that(after, limit, filter).await
    }

    /// Returns the events that match a filter, in the same way.
    ///
    /// # Errors
    /// [`Unavailable`] when the store cannot be read.
    pub async fn events_that(
        &self,
        after: u64,
        limit: usize,
        filter: EventFilter,
    ) -> Result<EventsPage, Unavailable> {
        self.scan(move |store, id| events::after(store, id, after, limit, &filter)).await
    }

    /// Returns at most `limit` events before the sequence `before`, newest first.
    ///
    /// `None` starts at the newest. The call looks at a bounded part of the log, so a page can be
    /// empty before the oldest event.
    ///
    /// # Errors
    /// [`Unavailable`] when the store cannot be read.
    pub async fn events_back(
        &self,
        before: Option<u64>,
        limit: usize,
        filter: EventFilter,
    ) -> Result<EventsBack, Unavailable> {
        let before = before.unwrap_or(u64::MAX);
        self.scan(move |store, id| events::before(store, id, before, limit, &filter)).await
    }

    /// Returns the event with this id; `None` if the workspace does not have it, or no longer.
    ///
    /// # Errors
    /// [`Unavailable`] when the store cannot be read.
    pub async fn event(&self, id: EventId) -> Result<Option<EventEntry>, Unavailable> {
        self.read(move |store, of| events::one(store, of, id)).await
    }

    /// Returns the sequence of the newest event; 0 if there is none.
    ///
    /// # Errors
    /// [`Unavailable`] when the store cannot be read.
    pub async fn last_event(&self) -> Result<u64, Unavailable> {
        self.read(event_log::last_sequence).await
    }

    /// Returns the sequence of the event with this id, if known even after its deletion.
    ///
    /// `None` if the workspace has had no such event.
    ///
    /// # Errors
    /// [`Unavailable`] when the store cannot be read.
    pub async fn event_sequence(&self, id: EventId) -> Result<Option<u64>, Unavailable> {
        self.read(move |store, of| event_log::sequence_of(store, of, id)).await
    }

    /// Returns a receiver that changes each time the event log has grown, for a stream of events.
    ///
    /// # Errors
    /// [`Unavailable`] if the workspace has the maximum number of streams.
    pub fn follow_events(&self) -> Result<tokio::sync::watch::Receiver<()>, Unavailable> {
        let overloaded = || Unavailable::because(UnavailableReason::Overloaded);
        self.slot.subscribers.stream().ok_or_else(overloaded)
    }

    /// Reads one or a few committed records, without the actor.
    ///
    /// Reads with a scan use [`scan`](Self::scan), so that this call never waits for them.
    pub async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&dyn View, &WorkspaceId) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Unavailable> {
        match task::blocking(self.reader(read)?).await {
            Ok(read) => read.map_err(unreadable),
            Err(task::Lost) => Err(Unavailable::because(UnavailableReason::Storage)),
        }
    }

    /// Reads any part of the committed state, without the actor.
    ///
    /// It runs when it is this workspace's turn to scan.
    ///
    /// # Errors
    /// [`Unavailable`]: too many scans wait, or the store cannot be read.
    pub async fn scan<T: Send + 'static>(
        &self,
        read: impl FnOnce(&dyn View, &WorkspaceId) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Unavailable> {
        let scanned = self.shared.scans.run(&self.slot.id, self.reader(read)?).await;
        scanned.map_err(scan_refused)?.map_err(unreadable)
    }

    /// Takes a permit for a read, which the read returns when it has ended.
    ///
    /// The read sees the state of one moment, so the figures of an answer fit together.
    fn reader<T>(
        &self,
        read: impl FnOnce(&dyn View, &WorkspaceId) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<impl FnOnce() -> Result<T, StoreError> + Send + 'static, Unavailable> {
        let permit = self.slot.admit(&self.shared.admission)?;
        let (store, id) = (Arc::clone(&self.shared.store), self.slot.id.clone());
        Ok(move || {
            let read = store.moment().and_then(|moment| match moment {
                Some(moment) => read(&*moment, &id),
                None => read(store.as_ref(), &id),
            });
            drop(permit);
            read
        })
    }

    /// Returns the settings of the workspace.
    pub async fn settings(&self) -> Result<WorkspaceSettings, ChangeError> {
        self.call(|reply| WorkspaceMessage::Configure(Configure::Read, None, reply)).await
    }

    /// Gives the workspace another name.
    pub async fn rename(&self, name: String) -> Result<WorkspaceSettings, ChangeError> {
        let entry = AuditEntry::new("workspace.rename").target(self.id()).change("name", &name);
        self.configure(Configure::Name(name), entry).await
    }

    /// Changes the settings of the workspace, and records that in the audit log.
    pub async fn configure(
        &self,
        configure: Configure,
        entry: AuditEntry,
    ) -> Result<WorkspaceSettings, ChangeError> {
        self.shared.disk.admit(Footprint::Settles)?;
        let audit = Some(self.draft(entry));
        self.call(|reply| WorkspaceMessage::Configure(configure, audit, reply)).await
    }

    /// Carries out a command beside the hot path.
    pub async fn perform<C: Command>(&self, command: C) -> Result<C::Answer, C::Error> {
        self.perform_with(command, None).await
    }

    /// Does the same, and records it in the audit log if it succeeds.
    pub(crate) async fn perform_audited<C: Command>(
        &self,
        command: C,
        entry: AuditEntry,
    ) -> Result<C::Answer, C::Error> {
        self.perform_with(command, Some(self.draft(entry))).await
    }

    async fn perform_with<C: Command>(
        &self,
        command: C,
        audit: Option<Box<AuditDraft>>,
    ) -> Result<C::Answer, C::Error> {
        if C::SENDS {
            self.shared.may_send()?;
        }
        self.shared.disk.admit(C::FOOTPRINT)?;
        self.call(|reply| {
            WorkspaceMessage::Perform(Box::new(BoxedCommand { command, audit, reply }))
        })
        .await
    }

    fn draft(&self, entry: AuditEntry) -> Box<AuditDraft> {
        let caller = self.caller.clone().unwrap_or_else(|| Arc::new(AuditContext::system()));
        Box::new(AuditDraft::new(caller, entry.workspace(self.id()), random::unique()))
    }

    /// Takes a permit, sends a command and waits for its answer.
    pub(crate) async fn call<T, E: From<Unavailable>>(
        &self,
        message: impl FnOnce(ReplyTo<T, E>) -> WorkspaceMessage,
    ) -> Result<T, E> {
        let permit = self.slot.admit(&self.shared.admission)?;
        let (sender, answer) = oneshot::channel();
        let trace = CommandTrace::of_this_task(&self.shared.traces);
        match deliver(&self.slot, message(ReplyTo::new(sender, permit, trace))) {
            Ok(()) => {}
            Err(NotDelivered::Down(why)) => return Err(why.into()),
            Err(NotDelivered::NotLive(message)) => self.start_and_deliver(message).await?,
        }
        match answer.await {
            Ok(answer) => answer,
            Err(_) => Err(Unavailable::because(UnavailableReason::Restarting).into()),
        }
    }

    /// Starts the actor and sends it the command.
    ///
    /// If no actor starts, the command and its reply are dropped, which answers the caller.
    async fn start_and_deliver(
        &self,
        mut message: Box<WorkspaceMessage>,
    ) -> Result<(), Unavailable> {
        for _ in 0..STARTS_MAX {
            self.shared.workspaces.start_and_wait(self.slot.id.clone()).await;
            match deliver(&self.slot, *message) {
                Ok(()) => break,
                Err(NotDelivered::Down(why)) => return Err(why),
                Err(NotDelivered::NotLive(it)) => message = it,
            }
        }
        Ok(())
    }
}

impl From<Unavailable> for ResendOtpError {
    fn from(why: Unavailable) -> Self {
        Self::Refused(SendOtpError::Unavailable(why))
    }
}

fn scan_refused(error: ScanError) -> Unavailable {
    Unavailable::because(match error {
        ScanError::Full => UnavailableReason::Overloaded,
        ScanError::Failed => UnavailableReason::Storage,
    })
}
