//! The shared state of all workspaces of one engine, and its small parts.

use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use dashmap::{DashMap, Entry};
use parking_lot::Mutex;
use postrider_broadcast::Broadcasts;
use postrider_channel::cloud_api::items::ItemCounts;
use postrider_channel::email::MailOptions;
use postrider_channel::sandbox::Sandbox;
use postrider_domain::event::chain::{OtpChannel, TryStatus};
use postrider_domain::unavailable::{Unavailable, UnavailableReason};
use postrider_domain::{
    BroadcastId, Email, Limits, MasterKeys, MessageId, OptOutWords, Prices, Timestamp, WorkspaceId,
};
use postrider_number::Numbers;
use postrider_runtime::{Clock, Hold, ScanPool, Traces};
use postrider_store::{View, Writer};
use postrider_webhook::{GatewayClient, WebhookOptions, Webhooks};

use crate::core::effects::OtpFiguresAdded;
use crate::core::otp::pumping_guard::PumpingGuard;
use crate::core::portfolio::Portfolios;
use crate::core::settings::{EventOptions, MessageOptions, OtpOptions};
use crate::creation_limit::Creations;
use crate::directory::Workspaces;
use crate::disk_space::DiskSpace;
use crate::mailbox::admission::Admission;
use crate::mailbox::output_gate::Releaser;
use crate::media_files::MediaFiles;
use crate::recovered::Recovered;
use crate::snapshots::KeptAside;
use crate::sweep::SweepTurns;

/// The shared state of all parts of one engine.
pub struct Services {
    /// The committed state.
    pub store: Arc<dyn View>,
    /// The group commit.
    pub writer: Writer,
    /// The task that releases answers when they are durable.
    pub releaser: Releaser,
    /// Engine time.
    pub clock: Clock,
    /// The time of its start.
    pub started_at: Timestamp,
    /// The keys from which codes and stored secrets are derived.
    pub master_keys: MasterKeys,
    /// The limits of workspaces without limits of their own.
    pub limits: Limits,
    /// The prices.
    pub prices: Prices,
    /// The options of single messages.
    pub messages: MessageOptions,
    /// Detects SMS pumping.
    pub guard: PumpingGuard,
    /// The options of one-time passwords.
    pub otp: OtpOptions,
    /// One-time passwords since the start: sent, verified.
    pub otps: [AtomicU64; 2],
    /// Items of callbacks since the start.
    pub callback_items: ItemCounts,
    /// Running synchronizations of templates.
    pub template_syncs: TemplateSyncs,
    /// The maximum number of requests for one-time passwords that one workspace holds in memory.
    pub otps_per_workspace_max: usize,
    /// The bound on running commands.
    pub admission: Arc<Admission>,
    /// The threads of reads that scan, for all workspaces in turn.
    pub scans: ScanPool<WorkspaceId>,
    /// The directory of workspaces.
    pub workspaces: Workspaces,
    /// The messaging numbers.
    pub numbers: Arc<Numbers>,
    /// The webhook endpoints.
    pub webhooks: Arc<Webhooks>,
    /// The shared state of the workers that carry out the steps of chains.
    pub step_workers: StepWorkers,
    /// The mailer.
    pub mailer: Mailer,
    /// The turns of the sweeps of all workspaces.
    pub sweep_turns: SweepTurns,
    /// The retention of the event logs.
    pub events: EventOptions,
    /// The fan-out of broadcasts.
    pub broadcasts: Arc<Broadcasts>,
    /// The sources from which actors are rebuilt.
    pub recovered: Recovered,
    /// The words by which people opt out of messages, and in again.
    pub opt_out: Arc<OptOutWords>,
    /// Broadcasts whose recipients are counted beside their workspaces' actors.
    pub counting: Arc<CountsUnderWay>,
    /// The limits on writing, by the free space of the disk.
    pub disk: DiskSpace,
    /// Files, and those that are being uploaded to the channel.
    pub media: MediaFiles,
    /// The hold: while it is active, nothing may leave.
    pub hold: Hold,
    /// The traces of requests.
    pub traces: Traces,
    /// The limit on the creation of contacts.
    pub creations: Arc<Creations>,
    /// The recipients that count towards the budgets of portfolios.
    pub portfolios: Arc<Portfolios>,
    /// Workspaces whose unreadable state the newest snapshot keeps unchanged.
    pub kept_aside: KeptAside,
}

impl Services {
    /// Returns the unreadable workspaces: those that cannot start, or could not restart.
    pub fn damaged(&self) -> BTreeSet<WorkspaceId> {
        let mut all = self.kept_aside.all();
        all.retain(|id| self.workspaces.contains(id));
        self.workspaces.for_each(|id, slot| {
            if slot.is_parked() {
                all.insert(id.clone());
            }
        });
        all
    }

    /// Checks that messages may be sent.
    ///
    /// # Errors
    /// [`UnavailableReason::Held`].
    pub(crate) fn may_send(&self) -> Result<(), Unavailable> {
        /// An operator has to end the hold.
        const RETRY_AFTER: Duration = Duration::from_secs(30);
        if !self.hold.is_held() {
            return Ok(());
        }
        Err(Unavailable { reason: UnavailableReason::Held, retry_after: RETRY_AFTER })
    }
}

/// The broadcasts whose recipients are counted, and the windows that change meanwhile.
///
/// The count runs beside the actor, which accepts reports during it. So the windows of these
/// reports are recorded, to be counted again.
#[derive(Debug, Default)]
pub struct CountsUnderWay(Mutex<Vec<(BroadcastId, Weak<ChangedWindows>)>>);

/// The windows with reports since they were counted.
pub(crate) type ChangedWindows = Mutex<BTreeSet<u32>>;

impl CountsUnderWay {
    /// Starts to record a broadcast's changed windows, until the returned value is dropped.
    pub(crate) fn begin(&self, id: BroadcastId) -> Arc<ChangedWindows> {
        let changed = Arc::default();
        let mut all = self.0.lock();
        all.retain(|(_, changed)| changed.strong_count() > 0);
        all.push((id, Arc::downgrade(&changed)));
        changed
    }

    /// Records a report about a message in this window.
    pub(crate) fn changed(&self, id: BroadcastId, window: u32) {
        let all = self.0.lock();
        for (_, changed) in all.iter().filter(|(of, _)| *of == id) {
            if let Some(changed) = changed.upgrade() {
                changed.lock().insert(window);
            }
        }
    }
}

/// The workspace and the id of a mail.
pub(crate) type MailKey = (WorkspaceId, MessageId);

/// The state of the mailer between its runs. Mails are handed over if there is a mail server.
#[derive(Default)]
pub struct Mailer {
    pub(crate) options: Option<MailOptions>,
    /// The mails that this process is handing over.
    pub(crate) busy: Mutex<HashSet<MailKey>>,
    /// Set while it looks for more.
    pub(crate) looking: AtomicBool,
    pub(crate) stopping: AtomicBool,
}

impl Mailer {
    /// Returns a mailer for this server; without one no mail leaves.
    pub fn new(options: Option<MailOptions>) -> Self {
        Self { options, ..Self::default() }
    }

    /// Returns the sender's address; `None` if there is no server.
    pub fn from(&self) -> Option<&Email> {
        self.options.as_ref().map(|options| &options.from)
    }
}

/// The workspaces whose templates are being synchronized in the background.
///
/// The value is set if another synchronization was requested meanwhile.
#[derive(Debug, Default)]
pub struct TemplateSyncs(DashMap<WorkspaceId, bool>);

impl TemplateSyncs {
    /// Requests a synchronization. Returns whether the caller has to start it.
    pub(crate) fn ask(&self, id: &WorkspaceId) -> bool {
        match self.0.entry(id.clone()) {
            Entry::Occupied(mut repeat) => {
                *repeat.get_mut() = true;
                false
            }
            Entry::Vacant(free) => {
                free.insert(false);
                true
            }
        }
    }

    /// Ends a synchronization. Returns whether another one was requested.
    pub(crate) fn goes_on(&self, id: &WorkspaceId) -> bool {
        if self.0.remove_if(id, |_, repeat| !*repeat).is_some() {
            return false;
        }
        if let Some(mut repeat) = self.0.get_mut(id) {
            *repeat = false;
        }
        true
    }
}

/// The shared state of the workers that send codes by SMS and mail, step by step of a failover.
pub struct StepWorkers {
    pub(crate) sandbox: Arc<Sandbox>,
    /// The figures of steps since the start.
    pub figures: OtpFigures,
    /// `None` inside if no client could be created.
    client: OnceLock<Option<Arc<GatewayClient>>>,
}

impl StepWorkers {
    /// Returns the state of workers that deliver messages for a sandbox there.
    #[must_use]
    pub fn new(sandbox: Arc<Sandbox>) -> Self {
        Self { sandbox, figures: OtpFigures::default(), client: OnceLock::new() }
    }

    /// Returns the client of gateways, created when it is first needed.
    pub(crate) fn client(&self, options: &WebhookOptions) -> Option<Arc<GatewayClient>> {
        let make = || {
            let made = GatewayClient::new(options.addresses.clone(), options.timeout);
            made.inspect_err(|error| tracing::error!(%error, "no SMS gateway can be called"))
                .ok()
                .map(Arc::new)
        };
        self.client.get_or_init(make).clone()
    }
}

/// The maximum number of durations that are held until they are read; more are dropped.
const TIMES_MAX: usize = 10_000;

/// The counts, for the metrics, of the steps of codes over several channels.
///
/// They are by channel and status, with the durations until the next step started.
#[derive(Debug, Default)]
pub struct OtpFigures {
    tries: [[AtomicU64; TryStatus::ALL.len()]; OtpChannel::ALL.len()],
    failovers: Mutex<Vec<Duration>>,
}

impl OtpFigures {
    pub(crate) fn add(&self, added: &mut OtpFiguresAdded) {
        for (channel, status) in added.tries.drain(..) {
            let place = |at: Option<usize>| at.unwrap_or_default();
            let row = place(OtpChannel::ALL.iter().position(|it| *it == channel));
            let column = place(TryStatus::ALL.iter().position(|it| *it == status));
            self.tries[row][column].fetch_add(1, Ordering::Relaxed);
        }
        if !added.failovers.is_empty() {
            let mut times = self.failovers.lock();
            let room = TIMES_MAX.saturating_sub(times.len());
            times.extend(added.failovers.drain(..).take(room));
            added.failovers.clear();
        }
    }

    /// Returns each channel and status with the number of steps that ended so.
    pub fn tries(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        OtpChannel::ALL.iter().zip(&self.tries).flat_map(|(channel, row)| {
            let count = |(status, count): (&TryStatus, &AtomicU64)| {
                (channel.as_str(), status.as_str(), count.load(Ordering::Relaxed))
            };
            TryStatus::ALL.iter().zip(row).map(count)
        })
    }

    /// Returns the durations until the next step started, since the last call.
    pub fn take_failovers(&self) -> Vec<Duration> {
        std::mem::take(&mut *self.failovers.lock())
    }
}
