//! The engine: it starts and stops all parts, and holds them together.

mod callbacks;
pub(crate) mod checkpoints;
mod health;
pub(crate) mod master_keys;
mod opening;
mod replica;
pub(crate) mod restore_hold;
mod root;
mod start;
mod start_error;
mod stop;
pub(crate) mod stored_clock;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use postrider_broadcast::BroadcastOptions;
use postrider_channel::cloud_api::CloudApiOptions;
use postrider_channel::email::MailOptions;
use postrider_channel::sandbox::Sandbox;
use postrider_domain::keys::MasterKeys;
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{Limits, OptOutWords, Prices, Timestamp, WorkspaceId};
use postrider_number::providers::{CustomChannel, SharedCloudApi};
use postrider_people::{People, PeopleOptions};
use postrider_runtime::clock::Clock;
use postrider_runtime::task::BoxFuture;
use postrider_runtime::{Tenure, Traces};
use postrider_store::blobs::BlobStore;
use postrider_store::{DirectorySpace, FreeSpace, Rebuilding, Store};
use postrider_webhook::{RequestSlots, WebhookOptions};
use postrider_workspace::core::settings::{EventOptions, GuardOptions, MessageOptions, OtpOptions};
use postrider_workspace::mailbox::admission::Admission;
use postrider_workspace::{MediaOptions, Workspace};
use ractor::ActorRef;

use crate::access::Access;
use crate::admin::{Admin, NumberClaims};
use crate::audit::{AuditLog, AuditOptions};
use crate::copies::DataSource;
use crate::operations::Operations;

pub use crate::metrics::SharedRecorder;
pub use callbacks::{CallbackError, CallbackReceiver};
pub use health::Health;
pub use opening::repair_directory;
pub(crate) use postrider_workspace::services::Services;
pub use replica::{CheckpointKeeper, KeptCheckpoint, Replica};
pub use start_error::StartError;
pub use stop::ShutdownError;
pub use stored_clock::{ClockRebase, StoredClock, rebase_clock, stored_clock};

/// The place of the durable data.
#[derive(Debug, Clone)]
pub enum Durability {
    /// In this directory, which is made if it does not exist. One engine at a time uses it.
    Disk(PathBuf),
    /// In memory: lost when the engine stops.
    Memory,
    /// In a store of the caller's, without snapshots.
    Custom(CustomStore),
    /// In a replica of a shard, whose log and checkpoints other nodes read too.
    Replica(Replica),
}

/// A store of the caller's.
#[derive(Clone)]
pub struct CustomStore(pub Arc<dyn Store>);

impl std::fmt::Debug for CustomStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CustomStore")
    }
}

/// The options of the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SandboxOptions {
    /// The number of each workspace's newest messages that can be read; older ones are dropped.
    pub messages_kept: usize,
}

/// The maximum numbers of concurrent commands; beyond them commands are refused at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdmissionOptions {
    /// The commands of one workspace.
    pub in_flight_per_workspace: usize,
    /// The commands of all workspaces together, also of other engines that share the bound.
    pub in_flight_total: usize,
}

/// The options of an engine.
#[derive(Clone)]
pub struct EngineOptions {
    /// The place of the durable data.
    pub durability: Durability,
    /// The keys from which codes are derived.
    pub master_keys: MasterKeys,
    /// The limits if a workspace or a key has none of its own.
    pub limits: Limits,
    /// The prices of messages.
    pub prices: Prices,
    /// The words by which people opt out of messages, and in again.
    pub opt_out: OptOutWords,
    /// The options of broadcasts.
    pub broadcasts: BroadcastOptions,
    /// The options of single messages.
    pub messages: MessageOptions,
    /// The reaction to codes that nobody submits.
    pub guard: GuardOptions,
    /// The options of one-time passwords.
    pub otp: OtpOptions,
    /// The maximum number of concurrent commands.
    pub admission: AdmissionOptions,
    /// The maximum number of requests for one-time passwords in memory, for each workspace.
    pub otps_per_workspace_max: usize,
    /// The maximum number of bytes that wait for the disk.
    pub queued_bytes_max: usize,
    /// The options of the sandbox.
    pub sandbox: SandboxOptions,
    /// The retention of the event logs.
    pub events: EventOptions,
    /// The options of the audit log.
    pub audit: AuditOptions,
    /// The options of webhooks.
    pub webhooks: WebhookOptions,
    /// The address and the timeouts of the chat-app channel.
    pub cloud_api: CloudApiOptions,
    /// The options of files; with [`Durability::Custom`] there are none.
    pub media: MediaOptions,
    /// The server that mail leaves through; without one, mails arrive and cannot be answered.
    pub mail: Option<MailOptions>,
    /// The duration and the request limits of people's sessions.
    pub people: PeopleOptions,
    /// The channel of numbers of [`NumberKind::Custom`](crate::NumberKind::Custom).
    pub channel: Option<CustomChannel>,
    /// The maximum messages in a second through a number without a rate of its own, 0 for no limit.
    /// `None` is 80 for a number of the Cloud API, and no limit for others.
    pub number_messages_per_second: Option<u32>,
    /// The minimum bytes of journal since the last snapshot at which the next one is taken.
    pub snapshot_journal_bytes: u64,
    /// The minimum bytes of log since the last checkpoint at which the next one is made. `None`
    /// makes none. Checkpoints allow the rebuild of a damaged view.
    pub checkpoint_log_bytes: Option<u64>,
    /// The number of bytes of a file of the log.
    pub segment_bytes: u64,
    /// The free bytes of the disk below which nothing new is made. Below half of it no write
    /// starts. 0 is no bound.
    pub free_bytes_min: u64,
    /// The meter of free bytes; `None` for the file system of the directory, if there is one.
    pub free_space: Option<Arc<dyn FreeSpace>>,
    /// The engine's clock.
    pub clock: Clock,
    /// The time after which engine time starts: a log may have later entries than the records say.
    pub begins_after: Option<Timestamp>,
    /// The condition for sending a message, a webhook or a mail. `None` if nothing else uses these
    /// records.
    pub tenure: Option<Arc<dyn Tenure>>,
    /// The receiver of number reports, in other engines of the same Postrider; `None` without
    /// others.
    pub number_claims: Option<Arc<dyn NumberClaims>>,
    /// Reports the progress of the rebuild of a view during the start.
    pub rebuilding: Rebuilding,
    /// Set if it starts although engine time was moved ahead of the system's.
    pub allow_moved_clock: bool,
    /// The recorder of metrics; `None` records nothing.
    pub recorder: Option<SharedRecorder>,
    /// The collector of the spans of traced requests.
    pub traces: Traces,
    /// The resources shared with other engines of this process; `None` shares nothing.
    pub common: Option<Common>,
    /// Set if new keys end with the home of their workspace, see [`home_of`](crate::home_of).
    pub keys_carry_home: bool,
}

impl EngineOptions {
    /// Returns options for the directory `dir`, with defaults for everything else.
    #[must_use]
    pub fn on_disk(dir: impl Into<PathBuf>, master_keys: MasterKeys) -> Self {
        Self::with(Durability::Disk(dir.into()), master_keys)
    }

    /// Returns options for memory, with defaults for everything else.
    #[must_use]
    pub fn in_memory(master_keys: MasterKeys) -> Self {
        Self::with(Durability::Memory, master_keys)
    }

    fn with(durability: Durability, master_keys: MasterKeys) -> Self {
        Self {
            durability,
            master_keys,
            limits: Limits::default(),
            broadcasts: BroadcastOptions::default(),
            prices: Prices::default(),
            opt_out: OptOutWords::default(),
            messages: MessageOptions::default(),
            guard: GuardOptions::default(),
            otp: OtpOptions::default(),
            admission: AdmissionOptions {
                in_flight_per_workspace: 10_000,
                in_flight_total: 50_000,
            },
            otps_per_workspace_max: 10_000_000,
            queued_bytes_max: 64 * 1024 * 1024,
            sandbox: SandboxOptions { messages_kept: 200_000 },
            events: EventOptions::default(),
            audit: AuditOptions::default(),
            webhooks: WebhookOptions::default(),
            cloud_api: CloudApiOptions::default(),
            media: MediaOptions::default(),
            mail: None,
            people: PeopleOptions::default(),
            channel: None,
            number_messages_per_second: None,
            snapshot_journal_bytes: 64 * 1024 * 1024,
            checkpoint_log_bytes: None,
            segment_bytes: 16 * 1024 * 1024,
            free_bytes_min: 1 << 30,
            free_space: None,
            clock: Clock::system(),
            begins_after: None,
            tenure: None,
            number_claims: None,
            rebuilding: Rebuilding::default(),
            allow_moved_clock: true,
            recorder: None,
            traces: Traces::default(),
            common: None,
            keys_carry_home: false,
        }
    }

    /// Returns the meter of the disk's free space.
    fn measure(&self) -> Option<Arc<dyn FreeSpace>> {
        match (&self.free_space, &self.durability) {
            (Some(given), _) => Some(Arc::clone(given)),
            (None, Durability::Disk(dir)) => Some(Arc::new(DirectorySpace(dir.clone()))),
            (None, Durability::Memory | Durability::Custom(_) | Durability::Replica(_)) => None,
        }
    }
}

impl std::fmt::Debug for EngineOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EngineOptions")
            .field("durability", &self.durability)
            .field("master_keys", &self.master_keys)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// The shared resources of one process's engines. Each must have the same options for it.
#[derive(Clone)]
pub struct Common {
    /// The number of commands in progress, at most `in_flight_total`.
    in_flight: Arc<AtomicUsize>,
    /// The slots of requests to webhooks.
    webhook_requests: Arc<RequestSlots>,
    /// The client of the Cloud API.
    cloud_api: SharedCloudApi,
}

impl Common {
    /// Creates the resources for engines with these options, before the first of them starts.
    #[must_use]
    pub fn new(webhooks: &WebhookOptions) -> Self {
        Self {
            in_flight: Arc::default(),
            webhook_requests: Arc::new(RequestSlots::new(webhooks.requests_max)),
            cloud_api: SharedCloudApi::default(),
        }
    }

    /// Returns the bound on the commands of one engine.
    fn admission(&self, options: AdmissionOptions) -> Arc<Admission> {
        let AdmissionOptions { in_flight_per_workspace, in_flight_total } = options;
        let in_all = Arc::clone(&self.in_flight);
        Arc::new(Admission::new(in_flight_per_workspace, in_flight_total, in_all))
    }
}

impl std::fmt::Debug for Common {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Common").field("in_flight", &self.in_flight).finish_non_exhaustive()
    }
}

/// A running engine. Cheap to clone; clones are the same engine.
///
/// It runs until [`shutdown`](Self::shutdown); dropping the last handle without that is a crash.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Services>,
    access: Access,
    admin: Admin,
    operations: Operations,
    audit: AuditLog,
    people: People,
    sandbox: Arc<Sandbox>,
    data: Option<DataSource>,
    checkpoints: Option<Arc<checkpoints::Checkpoints>>,
    root: ActorRef<root::RootMessage>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.root.kill();
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Engine")
    }
}

impl Engine {
    /// Opens the durable data, replays the state in memory, and starts.
    ///
    /// # Errors
    /// [`StartError`]: the store is in use, damaged or out of reach.
    pub fn start(options: EngineOptions) -> BoxFuture<'static, Result<Self, StartError>> {
        // Boxed, here and below: each program that awaits an `async fn` compiles its body again,
        // and all actors start in this one.
        Box::pin(start::start(options))
    }

    /// Returns the workspace of that id, if there is one.
    #[must_use]
    pub fn workspace(&self, id: &WorkspaceId) -> Option<Workspace> {
        let slot = self.inner.shared.workspaces.slot(id)?;
        Some(Workspace::new(Arc::clone(&self.inner.shared), slot))
    }

    /// Returns the API keys and request limits.
    #[must_use]
    pub fn access(&self) -> &Access {
        &self.inner.access
    }

    /// Returns the administration of workspaces, keys, limits, credits and numbers.
    #[must_use]
    pub fn admin(&self) -> &Admin {
        &self.inner.admin
    }

    /// Returns the state of the whole server.
    #[must_use]
    pub fn operations(&self) -> &Operations {
        &self.inner.operations
    }

    /// Returns the audit log: changes and their authors.
    #[must_use]
    pub fn audit(&self) -> &AuditLog {
        &self.inner.audit
    }

    /// Returns the people, their roles and their sessions.
    #[must_use]
    pub fn people(&self) -> &People {
        &self.inner.people
    }

    /// Returns the sandbox: its delivered messages and its next outcomes.
    #[must_use]
    pub fn sandbox(&self) -> &Sandbox {
        &self.inner.sandbox
    }

    /// Returns the data, to make copies of; `None` if it is not in a directory.
    #[must_use]
    pub fn data(&self) -> Option<&DataSource> {
        self.inner.data.as_ref()
    }

    /// Returns the contents of files, to make copies of; `None` if there are none.
    #[must_use]
    pub fn contents(&self) -> Option<BlobStore> {
        self.inner.shared.media.blobs.clone()
    }

    /// Returns the collector of the spans of traced requests.
    #[must_use]
    pub fn traces(&self) -> &Traces {
        &self.inner.shared.traces
    }

    /// Returns the engine's clock.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.inner.shared.clock
    }

    /// Returns the time of the last durable commit, or `None` if none is known.
    #[must_use]
    pub fn durable_moment(&self) -> Option<Timestamp> {
        self.inner.shared.writer.last_moment()
    }

    /// Moves engine time forward. When this returns, expired items have their events. The move
    /// outlives a restart, cannot be undone, and does not pass the year 2500.
    ///
    /// # Errors
    /// [`Unavailable`] if the move could not be made durable; then time does not move.
    pub fn advance_clock(&self, step: Duration) -> BoxFuture<'_, Result<(), Unavailable>> {
        Box::pin(self.inner.admin.advance_clock(step))
    }

    /// Stops at once, as a crash does: no work is finished, and nothing more is written. Blocks.
    pub fn abandon(&self) {
        self.inner.root.kill();
        self.inner.shared.writer.stop();
    }

    /// Stops within `grace`: refuses new commands, answers those in progress, makes all durable.
    ///
    /// # Errors
    /// [`ShutdownError`] if the time was too short; acknowledged changes are still durable.
    pub fn shutdown(&self, grace: Duration) -> BoxFuture<'_, Result<(), ShutdownError>> {
        Box::pin(stop::stop(&self.inner, grace))
    }
}
