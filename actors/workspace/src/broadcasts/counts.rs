//! The counts of a settled broadcast are kept in a record of their own.
//!
//! From then on only reports of the provider change them, each in its own commit, so nobody counts
//! the recipients again.

use postrider_broadcast::outcomes::{Mark, Window};
use postrider_broadcast::record::{Record, WINDOW, counts_key, window_key};
use postrider_broadcast::reports::{Report, Reports};
use postrider_store::view::codec;
use postrider_store::{StoreError, Table, View};

use crate::broadcasts::view::{BroadcastCounts, RecipientStatus, status_of, unsent};
use crate::core::command::Context;
use crate::core::view::unreadable;
use postrider_domain::WorkspaceId;
use postrider_domain::unavailable::Unavailable;

/// What is kept of a broadcast's counts; nothing of one that is not settled, or was by an earlier
/// version.
pub(crate) fn read(
    store: &dyn View,
    workspace: &WorkspaceId,
    record: &Record,
) -> Result<Option<BroadcastCounts>, StoreError> {
    if !record.settled {
        return Ok(None);
    }
    let found = store.get(Table::Broadcasts, &counts_key(workspace, record.id))?;
    found.map(|json| codec::decode(&json)).transpose()
}

/// Counts the recipients: some ten milliseconds for a million.
pub(crate) fn count(
    context: &Context<'_>,
    record: &Record,
) -> Result<BroadcastCounts, Unavailable> {
    let (mut counts, mut claimed) = (BroadcastCounts::default(), 0);
    for number in 0..record.sendable.div_ceil(WINDOW) {
        let key = window_key(&context.core.id, record.id, number);
        let Some(window) = context.get(Table::BroadcastOutcomes, &key)? else { break };
        let window = Window::decode(&window).map_err(unreadable)?;
        let reports = context.get(Table::BroadcastReports, &key)?;
        let reports = reports.map(|bytes| Reports::decode(&bytes)).transpose();
        let reports = reports.map_err(unreadable)?;
        for (at, mark) in window.marks().enumerate() {
            let report = reports.as_ref().and_then(|reports| reports.of(at));
            *counts.of(status_of(record, mark, report)) += 1;
            claimed += 1;
        }
    }
    *counts.of(unsent(record)) += record.sendable - claimed;
    *counts.of(RecipientStatus::Suppressed) += record.total - record.sendable;
    Ok(counts)
}

/// The counts of a settled broadcast with what is reported of a message with this outcome.
pub(crate) fn after_report(
    context: &Context<'_>,
    record: &Record,
    mark: Option<Mark>,
    (before, now): (Option<Report>, Report),
) -> Result<Option<BroadcastCounts>, Unavailable> {
    let Some(mark) = mark.filter(|_| record.settled) else { return Ok(None) };
    let key = counts_key(&context.core.id, record.id);
    let Some(mut counts) = context.get_json::<BroadcastCounts>(Table::Broadcasts, &key)? else {
        return Ok(None);
    };
    let left = counts.of(status_of(record, mark, before));
    *left = left.saturating_sub(1);
    *counts.of(status_of(record, mark, Some(now))) += 1;
    Ok(Some(counts))
}

/// Writes the counts of a settled broadcast.
pub(crate) fn put(context: &mut Context<'_>, record: &Record, counts: &BroadcastCounts) {
    let key = counts_key(&context.core.id, record.id);
    context.put_json(Table::Broadcasts, key, counts);
}
