//! The shared state of all workspaces of one engine.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use postrider_broadcast::Broadcasts;
use postrider_channel::cloud_api::items::ItemCounts;
use postrider_domain::unavailable::{Unavailable, UnavailableReason};
use postrider_domain::{Limits, MasterKeys, OptOutWords, Prices, Timestamp, WorkspaceId};
use postrider_number::Numbers;
use postrider_runtime::{Clock, Hold, ScanPool, Traces};
use postrider_store::{View, Writer};
use postrider_webhook::Webhooks;

use crate::core::otp::pumping_guard::Guard;
use crate::core::portfolio::Portfolios;
use crate::core::settings::{MessageOptions, OtpOptions};
use crate::counts_under_way::CountsUnderWay;
use crate::courier_state::Courier;
use crate::creation_limit::Creations;
use crate::directory::Workspaces;
use crate::disk_space::DiskSpace;
use crate::event_options::EventOptions;
use crate::mailbox::admission::Admission;
use crate::mailbox::release::Releaser;
use crate::mailer_state::Mailer;
use crate::media_files::MediaFiles;
use crate::recovered::Recovered;
use crate::snapshots::KeptAside;
use crate::sweep::SweepTurns;
use crate::template_syncs::TemplateSyncs;

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
    pub guard: Guard,
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
    /// The courier that carries out the steps of chains.
    pub courier: Courier,
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
