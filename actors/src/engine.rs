//! The engine: what starts everything, holds it together and stops it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ractor::ActorRef;

use crate::access::Access;
use crate::admin::{Admin, NumberClaims};
use crate::audit::{AuditLog, AuditOptions};
use crate::copies::DataSource;
use crate::operations::Operations;
use postrider_broadcast::BroadcastOptions;
use postrider_channel::cloud_api::CloudApiOptions;
use postrider_channel::email::MailOptions;
use postrider_channel::sandbox::Sandbox;
use postrider_domain::keys::MasterKeys;
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{Limits, OptOutWords, Prices, Timestamp, WorkspaceId};
use postrider_number::providers::CustomChannel;
use postrider_people::{People, PeopleOptions};
use postrider_runtime::clock::Clock;
use postrider_runtime::task::BoxFuture;
use postrider_runtime::{Tenure, Traces};
use postrider_store::blobs::BlobStore;
use postrider_store::{DirectorySpace, FreeSpace, Rebuilding, Store};
use postrider_webhook::WebhookOptions;
use postrider_workspace::core::settings::{GuardOptions, MessageOptions, OtpOptions};
use postrider_workspace::event_options::EventOptions;
pub(crate) use postrider_workspace::services::Services;
use postrider_workspace::{MediaOptions, Workspace};

mod callbacks;
pub(crate) mod checkpoints;
pub(crate) mod clock_offset;
mod common;
mod disk;
mod health;
pub(crate) mod hold;
pub(crate) mod key_check;
mod media;
mod opened;
mod opening;
mod reencrypt;
mod replica;
mod root;
mod sandbox_reports;
mod space;
mod start;
mod start_error;
mod stop;
mod stored_clock;
#[cfg(test)]
mod tests;

pub use crate::metrics::SharedRecorder;
pub use callbacks::{CallbackError, CallbackReceiver};
pub use common::{AdmissionOptions, Common};
pub use disk::repair_directory;
pub use health::Health;
pub use replica::{CheckpointKeeper, KeptCheckpoint, Replica};
pub use start_error::StartError;
pub use stop::ShutdownError;
pub use stored_clock::{ClockRebase, StoredClock, rebase_clock, stored_clock};

/// Where the engine keeps what is durable.
#[derive(Debug, Clone)]
pub enum Durability {
    /// In this directory, which is made if it is not there. One engine at a time uses it.
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

/// How the sandbox behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SandboxOptions {
    /// The newest messages of each workspace that can be read; older ones are forgotten.
    pub messages_kept: usize,
}

/// How an engine is set up.
#[derive(Clone)]
pub struct EngineOptions {
    /// Where it keeps what is durable.
    pub durability: Durability,
    /// What codes are derived with.
    pub master_keys: MasterKeys,
    /// The limits where a workspace or a key has none of its own.
    pub limits: Limits,
    /// What things cost.
    pub prices: Prices,
    /// How people opt out of messages, and in again.
    pub opt_out: OptOutWords,
    /// How broadcasts are made and sent.
    pub broadcasts: BroadcastOptions,
    /// How long single messages are worked at.
    pub messages: MessageOptions,
    /// What is done about codes that nobody submits.
    pub guard: GuardOptions,
    /// How one-time passwords are sent and kept.
    pub otp: OtpOptions,
    /// How much may be under way.
    pub admission: AdmissionOptions,
    /// Requests for one-time passwords that one workspace may hold in memory.
    pub otps_per_workspace_max: usize,
    /// Bytes that may wait for the disk.
    pub queued_bytes_max: usize,
    /// How the sandbox behaves.
    pub sandbox: SandboxOptions,
    /// How much of the event logs is kept.
    pub events: EventOptions,
    /// How the audit log is kept.
    pub audit: AuditOptions,
    /// How webhooks are delivered.
    pub webhooks: WebhookOptions,
    /// Where the chat-app channel is.
    pub cloud_api: CloudApiOptions,
    /// How files are kept; with [`Durability::Custom`] none are.
    pub media: MediaOptions,
    /// The server that mail leaves through; without one, mails come in and cannot be answered.
    pub mail: Option<MailOptions>,
    /// How long sessions of people last, and how much they may ask.
    pub people: PeopleOptions,
    /// What numbers of [`NumberKind::Custom`](crate::NumberKind::Custom) send through.
    pub channel: Option<CustomChannel>,
    /// Most messages in a second through a number that has no rate of its own, 0 for no limit;
    /// `None`: 80 for one of the Cloud API, no limit for others.
    pub number_messages_per_second: Option<u32>,
    /// Bytes of journal since the last snapshot, at the least, at which the next one is taken.
    pub snapshot_journal_bytes: u64,
    /// Bytes of log since the last checkpoint, at the least, at which the next one is made; `None`:
    /// none is made. With checkpoints a damaged view is built anew.
    pub checkpoint_log_bytes: Option<u64>,
    /// Bytes of a file of the log.
    pub segment_bytes: u64,
    /// Free bytes of the disk below which nothing more is made; below half of it nothing is begun
    /// that writes. 0 is no bound.
    pub free_bytes_min: u64,
    /// What measures the free bytes; `None`: the file system of the directory, if there is one.
    pub free_space: Option<Arc<dyn FreeSpace>>,
    /// Engine time.
    pub clock: Clock,
    /// Engine time begins after this moment: a log may have later entries than the records say.
    pub begins_after: Option<Timestamp>,
    /// What must hold whenever a message, a webhook or a mail leaves; `None`: nothing else runs on
    /// these records.
    pub tenure: Option<Arc<dyn Tenure>>,
    /// What is reported of numbers to other engines of the same Postrider; `None`: there are none.
    pub number_claims: Option<Arc<dyn NumberClaims>>,
    /// Reports, while it starts, how far a view is that is built anew.
    pub rebuilding: Rebuilding,
    /// Whether it starts where engine time was moved ahead of the system's.
    pub allow_moved_clock: bool,
    /// Where metrics are registered; `None` is nowhere.
    pub recorder: Option<SharedRecorder>,
    /// What collects the spans of requests that are followed.
    pub traces: Traces,
    /// What it shares with other engines of this process; `None`: nothing.
    pub common: Option<Common>,
    /// Whether new keys end with where their workspace is, see [`home_of`](crate::home_of).
    pub keys_carry_home: bool,
}

impl EngineOptions {
    /// In the directory `dir`; everything else at its default.
    #[must_use]
    pub fn on_disk(dir: impl Into<PathBuf>, master_keys: MasterKeys) -> Self {
        Self::with(Durability::Disk(dir.into()), master_keys)
    }

    /// In memory; everything else at its default.
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
}

impl EngineOptions {
    /// What measures the free space of the disk.
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
    /// Opens what is durable, replays what was hot, and starts.
    ///
    /// # Errors
    /// [`StartError`]: the store is in use, damaged or out of reach.
    pub fn start(options: EngineOptions) -> BoxFuture<'static, Result<Self, StartError>> {
        // Boxed, here and below: the compiler translates the body of an `async fn` in each program
        // that awaits it, and all actors begin in this one.
        Box::pin(start::start(options))
    }

    /// The workspace of that id, if there is one.
    #[must_use]
    pub fn workspace(&self, id: &WorkspaceId) -> Option<Workspace> {
        let slot = self.inner.shared.workspaces.slot(id)?;
        Some(Workspace::new(Arc::clone(&self.inner.shared), slot))
    }

    /// API keys and request limits.
    #[must_use]
    pub fn access(&self) -> &Access {
        &self.inner.access
    }

    /// Administration of workspaces, keys, limits, credits and numbers.
    #[must_use]
    pub fn admin(&self) -> &Admin {
        &self.inner.admin
    }

    /// How the whole server does.
    #[must_use]
    pub fn operations(&self) -> &Operations {
        &self.inner.operations
    }

    /// The audit log: who changed what.
    #[must_use]
    pub fn audit(&self) -> &AuditLog {
        &self.inner.audit
    }

    /// People, their roles and their sessions.
    #[must_use]
    pub fn people(&self) -> &People {
        &self.inner.people
    }

    /// What the sandbox delivered, and what it does next.
    #[must_use]
    pub fn sandbox(&self) -> &Sandbox {
        &self.inner.sandbox
    }

    /// The data, to make copies of; `None` where it is not in a directory.
    #[must_use]
    pub fn data(&self) -> Option<&DataSource> {
        self.inner.data.as_ref()
    }

    /// The contents of files, to make copies of; `None` where none are kept.
    #[must_use]
    pub fn contents(&self) -> Option<BlobStore> {
        self.inner.shared.media.blobs.clone()
    }

    /// What collects the spans of requests that are followed.
    #[must_use]
    pub fn traces(&self) -> &Traces {
        &self.inner.shared.traces
    }

    /// Engine time.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.inner.shared.clock
    }

    /// The moment of the last durable commit; `None` where none is known.
    #[must_use]
    pub fn durable_moment(&self) -> Option<Timestamp> {
        self.inner.shared.writer.last_moment()
    }

    /// Moves engine time forward; when this returns, what has expired has its event. The move
    /// outlives a restart, cannot be taken back, and does not pass the year 2500.
    ///
    /// # Errors
    /// [`Unavailable`] when the move could not be made durable; time then stands where it stood.
    pub fn advance_clock(&self, step: Duration) -> BoxFuture<'_, Result<(), Unavailable>> {
        Box::pin(self.inner.admin.advance_clock(step))
    }

    /// Stops at once, as a crash does: nothing is finished, and nothing more is written. Blocks.
    pub fn abandon(&self) {
        self.inner.root.kill();
        self.inner.shared.writer.stop();
    }

    /// Refuses new commands, answers those under way, makes everything durable, stops; in `grace`.
    ///
    /// # Errors
    /// [`ShutdownError`] when the time was too short; what was acknowledged is durable even so.
    pub fn shutdown(&self, grace: Duration) -> BoxFuture<'_, Result<(), ShutdownError>> {
        Box::pin(stop::stop(&self.inner, grace))
    }
}
