//! Rebuilds the state of a fan-out from durable records.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::budget::Aside;
use crate::daily_counts::Counted;
use crate::outcomes::Window;
use crate::placement::Placed;
use crate::plan::Plan;
use crate::record::{self, parts_prefix, window_key};
use crate::reports::Reports;
use crate::services::Services;
use postrider_domain::{BroadcastId, WorkspaceId};
use postrider_runtime::supervise::Damaged;
use postrider_store::{Direction, StoreError, Table, View};

use super::Running;
use super::judged::Judged;
use super::outbound::OutboundMessages;

/// The reason why a fan-out was not rebuilt. Damage is a source and not transparent, because the
/// supervisor searches the sources for [`Damaged`].
#[derive(Debug, thiserror::Error)]
pub(super) enum LoadError {
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

impl From<StoreError> for LoadError {
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
) -> Result<Running, LoadError> {
    // Commits that a predecessor queued must be settled before the records are read.
    let settled = services.writer.barrier().await;
    settled.map_err(|error| StoreError::Failed(error.to_string()))?;
    let (view, workspace) = (Arc::clone(&services.view), workspace.clone());
    let read = tokio::task::spawn_blocking(move || read(view.as_ref(), &workspace, id));
    read.await.map_err(|_| LoadError::Interrupted)?
}

fn read(store: &dyn View, workspace: &WorkspaceId, id: BroadcastId) -> Result<Running, LoadError> {
    let missing = || StoreError::Damaged(format!("the record of broadcast {id} is missing"));
    let record = record::read(store, workspace, id)?.ok_or_else(missing)?;
    let mut plan = Plan::new(record.sendable);
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
    Ok(Running {
        outbound: OutboundMessages::new(workspace, &record),
        record,
        plan,
        counted: Counted::default(),
        placed: Placed::default(),
        noted: Vec::new(),
        claimed: Vec::new(),
        judged: Judged::default(),
        wakes: 0,
        withdrawal_requested: false,
        is_counted: false,
        aside: Aside::default(),
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
