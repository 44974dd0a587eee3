//! What all workspaces of one engine share.

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

/// What all parts of one engine share.
pub struct Services {
    /// What is committed.
    pub store: Arc<dyn View>,
    /// The group commit.
    pub writer: Writer,
    /// What lets answers out when they are durable.
    pub releaser: Releaser,
    /// Engine time.
    pub clock: Clock,
    /// When it was started.
    pub started_at: Timestamp,
    /// What codes and stored secrets are derived from.
    pub master_keys: MasterKeys,
    /// The limits of those that have none of their own.
    pub limits: Limits,
    /// What things cost.
    pub prices: Prices,
    /// How single messages are sent.
    pub messages: MessageOptions,
    /// Detects SMS pumping.
    pub guard: Guard,
    /// How one-time passwords are sent and kept.
    pub otp: OtpOptions,
    /// One-time passwords since the start: sent, verified.
    pub otps: [AtomicU64; 2],
    /// Items of callbacks since the start.
    pub callback_items: ItemCounts,
    /// Synchronisations of templates that are under way.
    pub template_syncs: TemplateSyncs,
    /// Requests for one-time passwords that one workspace may hold in memory.
    pub otps_per_workspace_max: usize,
    /// The bound on commands under way.
    pub admission: Arc<Admission>,
    /// The threads of reads that scan, for all workspaces in turn.
    pub scans: ScanPool<WorkspaceId>,
    /// The directory of workspaces.
    pub workspaces: Workspaces,
    /// The messaging numbers.
    pub numbers: Arc<Numbers>,
    /// The webhook endpoints.
    pub webhooks: Arc<Webhooks>,
    /// What carries out the steps of chains.
    pub courier: Courier,
    /// What sends mails.
    pub mailer: Mailer,
    /// What the sweeps of all workspaces wait for.
    pub sweep_turns: SweepTurns,
    /// How much of the event logs is kept.
    pub events: EventOptions,
    /// The fan-out of broadcasts.
    pub broadcasts: Arc<Broadcasts>,
    /// What actors are rebuilt from.
    pub recovered: Recovered,
    /// How people opt out of messages, and in again.
    pub opt_out: Arc<OptOutWords>,
    /// Broadcasts whose recipients are counted beside their workspaces' actors.
    pub counting: Arc<CountsUnderWay>,
    /// How much is still written, by the free space of the disk.
    pub disk: DiskSpace,
    /// Files, and those that are being uploaded to the channel.
    pub media: MediaFiles,
    /// Whether nothing may leave.
    pub hold: Hold,
    /// What is followed of requests.
    pub traces: Traces,
    /// What limits the making of contacts.
    pub creations: Arc<Creations>,
    /// The recipients that count towards the budgets of portfolios.
    pub portfolios: Arc<Portfolios>,
    /// Workspaces whose state the newest snapshot keeps as it is, because it cannot be read.
    pub kept_aside: KeptAside,
}

impl Services {
    /// The workspaces that cannot be read: those that cannot start, and those that could not
    /// start again.
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

    /// Whether something may be sent.
    ///
    /// # Errors
    /// [`UnavailableReason::Held`].
    pub(crate) fn may_send(&self) -> Result<(), Unavailable> {
        /// Somebody has to end it.
        const RETRY_AFTER: Duration = Duration::from_secs(30);
        if !self.hold.is_held() {
            return Ok(());
        }
        Err(Unavailable { reason: UnavailableReason::Held, retry_after: RETRY_AFTER })
    }
}
