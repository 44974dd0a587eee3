//! What all workspaces of one engine share.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use postrider_broadcast::Broadcasts;
use postrider_domain::{Limits, MasterKeys, OptOutWords, Prices};
use postrider_number::Numbers;
use postrider_runtime::Clock;
use postrider_store::{View, Writer};
use postrider_webhook::Webhooks;

use crate::EventOptions;
use crate::actor::recovery::Recovered;
use crate::contacts::creation_limit::Creations;
use crate::core::otp::pumping_guard::Guard;
use crate::directory::Workspaces;
use crate::email::Mailer;
use crate::mailbox::slot::Admission;
use crate::messages::MessageOptions;
use crate::templates::sync::TemplateSyncs;

/// What all parts of one engine share.
pub struct Services {
    pub store: Arc<dyn View>,
    pub writer: Writer,
    pub clock: Clock,
    pub master_keys: MasterKeys,
    pub limits: Limits,
    pub prices: Prices,
    pub messages: MessageOptions,
    pub guard: Guard,
    /// One-time passwords since the start: sent, verified.
    pub otps: [AtomicU64; 2],
    pub template_syncs: TemplateSyncs,
    pub otps_per_workspace_max: usize,
    pub admission: Arc<Admission>,
    pub workspaces: Workspaces,
    pub numbers: Arc<Numbers>,
    pub webhooks: Arc<Webhooks>,
    pub mailer: Mailer,
    pub events: EventOptions,
    pub broadcasts: Arc<Broadcasts>,
    pub recovered: Recovered,
    /// How people opt out of messages, and in again.
    pub opt_out: Arc<OptOutWords>,
    /// What limits the making of contacts.
    pub creations: Arc<Creations>,
}
