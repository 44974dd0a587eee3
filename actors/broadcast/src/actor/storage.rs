//! Rebuilds the state of a fan-out from durable records, and makes claims and outcomes durable.

use std::ops::ControlFlow;
use std::sync::Arc;

use postrider_domain::{BroadcastId, Day, WorkspaceId};
use postrider_runtime::supervise::Damaged;
use postrider_store::{Change, Direction, StoreError, Table, View};

use super::outbound::OutboundMessages;
use super::settling::FailureRate;
use super::{Fanout, FanoutState};
use crate::daily_counts::FanoutCounts;
use crate::outcomes::{Reports, Window};
use crate::placement::{DeferredRecipients, Placements};
use crate::plan::FanoutPlan;
use crate::ports::Services;
use crate::record::{parts_prefix, window_key};
use crate::{daily_counts, provider_ids, record};

/// The reason why a fan-out was not rebuilt. Damage is a source and not transparent, because the
/// supervisor searches the sources for [`Damaged`].
#[derive(Debug, thiserror::Error)]
pub(super) enum FanoutLoadError {
    /// The store failed. A later attempt may succeed.
    #[error(transparent)]
    Store(StoreError),
    /// A record cannot be decoded.
    #[error("{0}")]
    Damaged(#[from] Damaged),
    /// Reading the records panicked.
    #[error("reading the broadcast stopped half-way")]
    Interrupted,
}

impl From<StoreError> for FanoutLoadError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Damaged(what) => Self::Damaged(Damaged(what)),
            error => Self::Store(error),
        }
    }
}

/// Reads the broadcast's record, outcomes and reports. Waits for the commits of a predecessor
/// first.
pub(super) async fn load(
    services: &Services,
    workspace: &WorkspaceId,
    id: BroadcastId,
) -> Result<FanoutState, FanoutLoadError> {
    // Commits that a predecessor queued must be settled before the records are read.
    let settled = services.writer.barrier().await;
    settled.map_err(|error| StoreError::Failed(error.to_string()))?;
    let (view, workspace) = (Arc::clone(&services.view), workspace.clone());
    let read = tokio::task::spawn_blocking(move || read(view.as_ref(), &workspace, id));
    read.await.map_err(|_| FanoutLoadError::Interrupted)?
}

fn read(
    store: &dyn View,
    workspace: &WorkspaceId,
    id: BroadcastId,
) -> Result<FanoutState, FanoutLoadError> {
    let missing = || StoreError::Damaged(format!("the record of broadcast {id} is missing"));
    let record = record::read(store, workspace, id)?.ok_or_else(missing)?;
    let mut plan = FanoutPlan::new(record.sendable);
    let (prefix, mut damage) = (parts_prefix(workspace, id), None);
    let direction = Direction::Forward;
    store.scan(Table::BroadcastOutcomes, &prefix, None, direction, &mut |key, value| {
        let number = key[prefix.len()..].try_into().map(u32::from_be_bytes);
        let number = number.map_err(|_| StoreError::Damaged(format!("a window of {id}")));
        match number.and_then(|number| Ok((number, Window::decode(value)?))) {
            Ok((number, window)) if window.is_final() => {
                plan.resume(number, window, None, record.policy);
            }
            Ok((number, window)) => match reports(store, workspace, id, number) {
                Ok(reported) => plan.resume(number, window, reported.as_ref(), record.policy),
                Err(error) => damage = Some(error),
            },
            Err(error) => damage = Some(error),
        }
        ControlFlow::Continue(())
    })?;
    if let Some(damage) = damage {
        return Err(damage.into());
    }
    Ok(FanoutState {
        outbound: OutboundMessages::new(workspace, &record),
        record,
        plan,
        counted: FanoutCounts::default(),
        placed: Placements::default(),
        noted: Vec::new(),
        claimed: Vec::new(),
        failure_rate: FailureRate::default(),
        wakes: 0,
        withdrawal_requested: false,
        is_counted: false,
        deferred: DeferredRecipients::default(),
        unable: Vec::new(),
        names: Vec::new(),
        halted: false,
    })
}

/// Returns the provider's reports on the messages of one window.
fn reports(
    store: &dyn View,
    workspace: &WorkspaceId,
    id: BroadcastId,
    number: u32,
) -> Result<Option<Reports>, StoreError> {
    let reports = store.get(Table::BroadcastReports, &window_key(workspace, id, number))?;
    reports.map(|bytes| Reports::decode(&bytes)).transpose()
}

/// Writes the outcomes and claims that are not durable yet. Returns whether they are now durable.
pub(super) async fn write(fanout: &Fanout, state: &mut FanoutState) -> bool {
    let (today, name) = (Day::of(fanout.services.clock.now()), &*state.record.name);
    let (store, workspace) = (fanout.services.view.as_ref(), &fanout.slot.workspace);
    let stored = || daily_counts::read_stored(store, workspace, fanout.id, (today, name));
    if let Err(error) = state.counted.count(today, state.plan.uncounted(), stored) {
        tracing::warn!(broadcast = %fanout.id, %error, "outcomes wait to be counted");
        return false;
    }
    state.plan.counted();
    let key = |number| window_key(&fanout.slot.workspace, fanout.id, number);
    let windows = state.plan.dirty();
    let mut changes: Vec<_> = windows
        .map(|(number, window)| Change::put(Table::BroadcastOutcomes, key(number), window.encode()))
        .collect();
    changes.extend(state.counted.changes(&fanout.slot.workspace, fanout.id));
    changes.extend(state.noted.iter().cloned());
    changes.extend(provider_ids::changes(&fanout.slot.workspace, fanout.id, &mut state.names));
    // A refused commit would repeat what the number has done. Only one is in progress at a time.
    match fanout.services.writer.commit_own(changes).await {
        Ok(()) => {
            state.plan.written();
            state.counted.written();
            state.noted.clear();
            state.names.clear();
            true
        }
        Err(error) => {
            tracing::warn!(broadcast = %fanout.id, %error, "outcomes wait to be written");
            false
        }
    }
}
