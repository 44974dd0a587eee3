//! Rebuilds a workspace from its durable state.

use std::sync::Arc;

use postrider_domain::{Timestamp, WorkspaceId};
use postrider_number::record::NumberInfo;
use postrider_runtime::supervise::Damaged;
use postrider_store::StoreError;
use postrider_store::view::event_log::{self, End};

use crate::core::hot_state::HotState;
use crate::core::otp::failover_plan::ChannelSetup;
use crate::core::portfolio::{FullNumbers, portfolio_of};
use crate::core::records::WorkspaceRecords;
use crate::core::senders::pool::Pool;
use crate::core::settings::Rules;
use crate::core::{Core, records};
use crate::mailbox::slot::Slot;
use crate::recovered::RebuildError;
use crate::services::Services;
use crate::{otp, templates};

/// The reason why a workspace could not be rebuilt.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceLoadError {
    /// The store does not answer; it may answer later.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The data in the store cannot be read: a retry does not help.
    ///
    /// It is not transparent, since the supervisor looks for [`Damaged`] among the sources.
    #[error("{0}")]
    Damaged(#[from] Damaged),
    /// Reading it panicked.
    #[error("reading the workspace stopped half-way")]
    Interrupted,
}

/// Rebuilds a workspace: its core, its records and the sequence of its next log entry.
pub async fn load(
    shared: &Arc<Services>,
    slot: &Arc<Slot>,
) -> Result<(Core, WorkspaceRecords, End), WorkspaceLoadError> {
    // A predecessor's entries in the writer's queue must be settled before the store is read.
    shared.writer.barrier().await.map_err(|error| {
        StoreError::Failed(format!("the writer did not settle what was queued: {error}"))
    })?;
    let in_journal = slot.enter();
    let hot = match shared.recovered.take(&slot.id) {
        Some(hot) => hot,
        None if in_journal => shared.recovered.rebuild(&slot.id).await?,
        None => HotState::default(),
    };
    let (shared, slot) = (Arc::clone(shared), Arc::clone(slot));
    let read = tokio::task::spawn_blocking(move || read(&shared, &slot.id, hot));
    read.await.map_err(|_| WorkspaceLoadError::Interrupted)?
}

fn read(
    shared: &Services,
    id: &WorkspaceId,
    hot: HotState,
) -> Result<(Core, WorkspaceRecords, End), WorkspaceLoadError> {
    let store = shared.store.as_ref();
    let records = records::load(store, id)
        .and_then(|found| {
            found.ok_or_else(|| StoreError::Damaged(format!("workspace {id} has no profile")))
        })
        .map_err(park_if_damaged)?;
    let rules = Rules {
        limits: shared.limits.with(records.profile.limits),
        prices: shared.prices,
        otps_max: shared.otps_per_workspace_max,
        messages: shared.messages,
        guard: shared.guard.options,
        otp: shared.otp,
    };
    let otp_template = records.profile.otp_template();
    // The journal may have seen a later moment.
    let now = shared.clock.now().max(hot.now());
    let pool = Pool::of(id, &records.numbers, records.profile.alone);
    let core = Core {
        id: id.clone(),
        hot,
        credits: records.credits,
        rules,
        number: pool.first(),
        pool,
        destinations: records.profile.destinations.clone(),
        keys: shared.master_keys.code_keys(id),
        code_templates: templates::code_templates(store, id, &otp_template.name)
            .map_err(park_if_damaged)?,
        otp_template: Arc::new(otp_template),
        needs_template: records::need_template(&records.numbers),
        otp_days: otp::counts_of_today(store, id, now).map_err(park_if_damaged)?,
        channels: ChannelSetup {
            sms: otp::sms::is_set(store, id).map_err(park_if_damaged)?,
            mail: shared.mailer.from().is_some() || records::is_sandbox(&records.numbers),
            mail_server: shared.mailer.from().is_some(),
            default: records.profile.otp_channels.clone(),
            texts: Arc::new(records.profile.otp_texts.clone()),
        },
        test_phones: Arc::new(
            otp::test_phones::load(store, id, &shared.master_keys).map_err(park_if_damaged)?,
        ),
        full: FullNumbers::default(),
        opt_out: Arc::clone(&shared.opt_out),
    };
    // A predecessor's state may not have become durable.
    shared.portfolios.look_again(id);
    let log_end = event_log::end(store, id).map_err(park_if_damaged)?;
    read_budgets(shared, id, &records.numbers, now);
    Ok((core, records, log_end))
}

/// Reads the recipients that count towards the numbers' budgets, before the actor needs them.
///
/// Reading them may take long.
fn read_budgets(shared: &Services, id: &WorkspaceId, numbers: &[NumberInfo], now: Timestamp) {
    for portfolio in numbers.iter().filter_map(portfolio_of) {
        let read = shared.portfolios.with(shared.store.as_ref(), (id, portfolio), now, |_| ());
        if let Err(error) = read {
            // The next use of the budget reads it again.
            tracing::warn!(workspace = %id, %error, "a budget is not read yet");
        }
    }
}

impl From<RebuildError> for WorkspaceLoadError {
    fn from(error: RebuildError) -> Self {
        match error {
            RebuildError::Store(error) => park_if_damaged(error),
            RebuildError::Damaged(what) => Self::Damaged(Damaged(what)),
            RebuildError::Interrupted => Self::Interrupted,
        }
    }
}

fn park_if_damaged(error: StoreError) -> WorkspaceLoadError {
    match error {
        StoreError::Damaged(what) => WorkspaceLoadError::Damaged(Damaged(what)),
        error => WorkspaceLoadError::Store(error),
    }
}
