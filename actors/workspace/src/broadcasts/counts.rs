//! The stored counts of a settled broadcast, in a record of their own.
//!
//! From then on only reports of the provider change them, each in its own commit, so nobody counts
//! the recipients again.

use std::collections::BTreeMap;

use postrider_broadcast::outcomes::{Mark, Window};
use postrider_broadcast::record::{Record, counts_key, window_key};
use postrider_broadcast::reports::{Report, Reports};
use postrider_store::view::codec;
use postrider_store::{StoreError, Table, View};

use crate::broadcasts::view::{BroadcastCounts, RecipientStatus, status_of, unsent};
use crate::core::command::Context;
use crate::core::view::unreadable;
use postrider_domain::WorkspaceId;
use postrider_domain::unavailable::Unavailable;

/// What is kept of a broadcast's counts; nothing of one that is not settled.
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

/// The counts of each window of a broadcast that sends nothing more.
#[derive(Debug, Default)]
pub(crate) struct WindowCounts(BTreeMap<u32, BroadcastCounts>);

impl WindowCounts {
    /// Counts these windows; windows that were counted before are counted again.
    pub(crate) fn count(
        &mut self,
        store: &dyn View,
        workspace: &WorkspaceId,
        record: &Record,
        windows: impl IntoIterator<Item = u32>,
    ) -> Result<(), StoreError> {
        for window in windows {
            let key = window_key(workspace, record.id, window);
            let marks = store.get(Table::BroadcastOutcomes, &key)?;
            let reports = store.get(Table::BroadcastReports, &key)?;
            self.set(record, window, marks, reports)?;
        }
        Ok(())
    }

    /// Counts windows in the actor, with the changes by commands that are not durable yet.
    pub(crate) fn count_changed(
        &mut self,
        context: &Context<'_>,
        record: &Record,
        windows: impl IntoIterator<Item = u32>,
    ) -> Result<(), Unavailable> {
        for window in windows {
            let key = window_key(&context.core.id, record.id, window);
            let marks = context.get(Table::BroadcastOutcomes, &key)?;
            let reports = context.get(Table::BroadcastReports, &key)?;
            self.set(record, window, marks, reports).map_err(unreadable)?;
        }
        Ok(())
    }

    fn set(
        &mut self,
        record: &Record,
        window: u32,
        marks: Option<Vec<u8>>,
        reports: Option<Vec<u8>>,
    ) -> Result<(), StoreError> {
        // A window without a record has no claimed messages.
        let Some(marks) = marks else { return Ok(()) };
        let marks = Window::decode(&marks)?;
        let reports = reports.map(|bytes| Reports::decode(&bytes)).transpose()?;
        let mut counts = BroadcastCounts::default();
        for (at, mark) in marks.marks().enumerate() {
            let report = reports.as_ref().and_then(|reports| reports.of(at));
            *counts.of(status_of(record, mark, report)) += 1;
        }
        self.0.insert(window, counts);
        Ok(())
    }

    /// Returns the counts of all recipients.
    pub(crate) fn sum(self, record: &Record) -> BroadcastCounts {
        let (mut all, mut claimed) = (BroadcastCounts::default(), 0);
        for mut counts in self.0.into_values() {
            for &status in RecipientStatus::ALL {
                *all.of(status) += *counts.of(status);
                claimed += *counts.of(status);
            }
        }
        *all.of(unsent(record)) += record.sendable.saturating_sub(claimed);
        *all.of(RecipientStatus::Suppressed) += record.total - record.sendable;
        all
    }
}

/// Returns the counts of a settled broadcast after a report on a message with this outcome.
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
