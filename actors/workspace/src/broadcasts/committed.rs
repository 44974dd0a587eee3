//! A broadcast's committed record, audience, outcomes, reports and counts.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use hashbrown::HashMap;
use postrider_broadcast::audience::Segment;
use postrider_broadcast::outcomes::{Failed, Mark, Report, Reports, Window};
use postrider_broadcast::record;
use postrider_broadcast::record::{Record, SEGMENT, WINDOW, counts_key, message_id, window_key};
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{BroadcastId, Phone, Timestamp, WorkspaceId};
use postrider_store::view::codec;
use postrider_store::{Direction, StoreError, Table, View};

use crate::broadcasts::view::{
    Broadcast, BroadcastCounts, RecipientError, RecipientRow, RecipientStatus, RecipientsPage,
    status_of, unsent,
};
use crate::core::command::Context;
use crate::core::view::unreadable;

/// Called with a recipient's place, phone and variables.
pub(crate) type VisitRecipient<'a> = &'a mut dyn FnMut(u32, Phone, &[Box<str>]);

/// A broadcast's committed record and outcomes.
pub(crate) struct Committed<'a> {
    store: &'a dyn View,
    workspace: &'a WorkspaceId,
    pub(crate) record: Record,
}

/// The outcomes of the recipients of a window, from the channel's answers and reports.
struct WindowOutcomes {
    marks: Option<Window>,
    reports: Option<Reports>,
}

impl WindowOutcomes {
    /// Returns the status of one recipient, and the reason if its message failed.
    fn of(&self, record: &Record, at: usize) -> (RecipientStatus, Option<Failed>) {
        let report = self.reports.as_ref().and_then(|reports| reports.of(at));
        let status = match self.marks.as_ref().and_then(|window| window.mark(at)) {
            Some(mark) => status_of(record, mark, report),
            None => unsent(record),
        };
        let failed = match report {
            Some(Report::Failed) => self.reports.as_ref().and_then(|reports| reports.failure(at)),
            _ => self.marks.as_ref().and_then(|window| window.failure(at)),
        };
        (status, failed.cloned())
    }
}

impl<'a> Committed<'a> {
    pub(crate) const fn of(
        store: &'a dyn View,
        workspace: &'a WorkspaceId,
        record: Record,
    ) -> Self {
        Self { store, workspace, record }
    }

    pub(crate) fn read(
        store: &'a dyn View,
        workspace: &'a WorkspaceId,
        id: BroadcastId,
    ) -> Result<Option<Self>, StoreError> {
        let key = record::record_key(workspace, id);
        let Some(json) = store.get(Table::Broadcasts, &key)? else { return Ok(None) };
        Ok(Some(Self { store, workspace, record: codec::decode(&json)? }))
    }

    /// Visits every recipient's place and status, in order.
    pub(crate) fn visit(
        &self,
        visit: &mut dyn FnMut(u32, RecipientStatus, Option<&Failed>),
    ) -> Result<(), StoreError> {
        let Record { id, sendable, total, .. } = self.record;
        let prefix = record::parts_prefix(self.workspace, id);
        let mut reports = self.reports()?;
        let (mut next, mut damage) = (0, None);
        let direction = Direction::Forward;
        self.store.scan(Table::BroadcastOutcomes, &prefix, None, direction, &mut |_, value| {
            let window = match Window::decode(value) {
                Ok(window) => window,
                Err(error) => {
                    damage = Some(error);
                    return ControlFlow::Break(());
                }
            };
            let reported = reports.remove(&(next / WINDOW));
            for (at, mark) in window.marks().enumerate() {
                let report = reported.as_ref().and_then(|reported| reported.of(at));
                let failure = match &reported {
                    Some(reported) if report == Some(Report::Failed) => reported.failure(at),
                    _ => window.failure(at),
                };
                let status = status_of(&self.record, mark, report);
                visit(next, status, failure);
                next += 1;
            }
            ControlFlow::Continue(())
        })?;
        if let Some(damage) = damage {
            return Err(damage);
        }
        let unsent = unsent(&self.record);
        (next..sendable).for_each(|index| visit(index, unsent, None));
        (sendable..total).for_each(|index| visit(index, RecipientStatus::Suppressed, None));
        Ok(())
    }

    /// Returns one recipient that is or was to be sent to.
    pub(crate) fn recipient(
        &self,
        index: u32,
    ) -> Result<Option<(Phone, RecipientStatus, Option<Failed>)>, StoreError> {
        if index >= self.record.sendable || self.record.recipients_dropped {
            return Ok(None);
        }
        let outcomes = self.outcomes(index / WINDOW)?;
        let (status, failed) = outcomes.of(&self.record, (index % WINDOW) as usize);
        let mut found = None;
        self.recipients(std::iter::once(index), &mut |_, phone, _| {
            found = Some((phone, status, failed.clone()));
        })?;
        Ok(found)
    }

    /// Returns the outcomes of the recipients of a window.
    fn outcomes(&self, window: u32) -> Result<WindowOutcomes, StoreError> {
        let key = record::window_key(self.workspace, self.record.id, window);
        let marks = self.store.get(Table::BroadcastOutcomes, &key)?;
        let marks = marks.map(|bytes| Window::decode(&bytes)).transpose()?;
        let reports = self.store.get(Table::BroadcastReports, &key)?;
        let reports = reports.map(|bytes| Reports::decode(&bytes)).transpose()?;
        Ok(WindowOutcomes { marks, reports })
    }

    /// Visits the recipients of a window that are or were to be sent to, in the order of their
    /// places.
    pub(crate) fn window(
        &self,
        window: u32,
        visit: &mut dyn FnMut(u32, Phone, RecipientStatus, Option<Failed>),
    ) -> Result<(), StoreError> {
        let first = window * WINDOW;
        let end = first.saturating_add(WINDOW).min(self.record.sendable);
        let outcomes = self.outcomes(window)?;
        self.recipients(first..end, &mut |index, phone, _| {
            let (status, failed) = outcomes.of(&self.record, (index - first) as usize);
            visit(index, phone, status, failed);
        })
    }

    /// Returns the later reports, by window.
    fn reports(&self) -> Result<HashMap<u32, Reports>, StoreError> {
        let prefix = record::parts_prefix(self.workspace, self.record.id);
        let (mut reports, mut damage) = (HashMap::new(), None);
        let direction = Direction::Forward;
        self.store.scan(Table::BroadcastReports, &prefix, None, direction, &mut |key, value| {
            let number = key[prefix.len()..].try_into().map(u32::from_be_bytes);
            match (number, Reports::decode(value)) {
                (Ok(number), Ok(window)) => drop(reports.insert(number, window)),
                (_, Err(error)) => damage = Some(error),
                (Err(_), _) => {}
            }
            ControlFlow::Continue(())
        })?;
        damage.map_or(Ok(reports), Err)
    }

    fn counts(&self) -> Result<BroadcastCounts, StoreError> {
        if let Some(kept) = stored_counts(self.store, self.workspace, &self.record)? {
            return Ok(kept);
        }
        let mut counts = BroadcastCounts::default();
        self.visit(&mut |_, status, _| *counts.of(status) += 1)?;
        Ok(counts)
    }

    pub(crate) fn broadcast(self, now: Timestamp) -> Result<Broadcast, StoreError> {
        let counts = self.counts()?;
        Ok(self.with(counts, now))
    }

    /// Returns the broadcast if its counts are stored, so that no recipient need be counted.
    pub(crate) fn counted_before(self, now: Timestamp) -> Result<Option<Broadcast>, StoreError> {
        let kept = stored_counts(self.store, self.workspace, &self.record)?;
        Ok(kept.map(|counts| self.with(counts, now)))
    }

    fn with(self, counts: BroadcastCounts, now: Timestamp) -> Broadcast {
        let record = self.record;
        let rate_per_second = record.started_at.map(|started| {
            let seconds = record.finished_at.unwrap_or(now).since(started).as_secs_f64();
            // A part of a millisecond is not measured.
            let rate = f64::from(counts.concluded()) / seconds.max(0.001);
            (rate * 10.0).round() / 10.0
        });
        Broadcast {
            id: record.id,
            name: record.name,
            template: record.template,
            category: record.category,
            price: record.price,
            policy: record.policy,
            status: record.status,
            reason: record.reason,
            total_recipients: record.total,
            counts,
            rate_per_second,
            created_at: record.created_at,
            schedule_at: record.schedule_at,
            started_at: record.started_at,
            resumes_at: None,
            finished_at: record.finished_at,
            retry_of: record.retry_of,
            retried_by: record.retried_by,
            notes: record.notes,
        }
    }

    /// Visits the recipients at these places, in rising order, with their variables.
    pub(crate) fn recipients(
        &self,
        places: impl Iterator<Item = u32>,
        visit: VisitRecipient<'_>,
    ) -> Result<(), StoreError> {
        let mut segment: Option<Segment> = None;
        for index in places {
            let number = index / SEGMENT;
            let held = match segment.take().filter(|held| held.number == number) {
                Some(held) => held,
                None => {
                    let Record { id, personal, .. } = self.record;
                    Segment::read(self.store, self.workspace, id, number, personal)?
                }
            };
            if let Some((phone, variables)) = held.recipient(index) {
                visit(index, phone, variables);
            }
            segment = Some(held);
        }
        Ok(())
    }

    pub(crate) fn page(
        &self,
        wanted: Option<RecipientStatus>,
        skip: usize,
        limit: usize,
    ) -> Result<RecipientsPage, StoreError> {
        let (mut places, mut total) = (Vec::new(), 0);
        if self.record.recipients_dropped {
            return Ok(RecipientsPage { rows: Vec::new(), total });
        }
        self.visit(&mut |index, status, failed| {
            if wanted.is_none_or(|wanted| wanted == status) {
                if total >= skip && places.len() < limit {
                    places.push((index, status, failed.cloned()));
                }
                total += 1;
            }
        })?;
        let mut rows = Vec::with_capacity(places.len());
        let mut rest = places.iter();
        self.recipients(places.iter().map(|(index, ..)| *index), &mut |index, to, _| {
            // Every place has a recipient, so the two go together.
            let of = rest.find(|(place, ..)| *place == index);
            rows.extend(of.map(|(_, status, failed)| {
                RecipientRow {
                    to,
                    message_id: (*status != RecipientStatus::Suppressed)
                        .then(|| message_id(self.record.id, index)),
                    status: *status,

                    error: failed.clone().map(RecipientError::from),
                }
            }));
        })?;
        Ok(RecipientsPage { rows, total })
    }
}

/// Returns the stored counts of a broadcast; `None` for one that is not settled.
///
/// They are in a record of their own. Once a broadcast is settled, only reports of the provider
/// change them, each in its own commit, so nobody counts the recipients again.
pub(crate) fn stored_counts(
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
pub(crate) fn counts_after_report(
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
pub(crate) fn put_counts(context: &mut Context<'_>, record: &Record, counts: &BroadcastCounts) {
    let key = counts_key(&context.core.id, record.id);
    context.put_json(Table::Broadcasts, key, counts);
}
