//! A broadcast's committed record, audience, outcomes and reports.

use postrider_store::view::codec;
use std::ops::ControlFlow;

use hashbrown::HashMap;

use postrider_broadcast::audience::Segment;
use postrider_broadcast::outcomes::{Failed, Window};
use postrider_broadcast::record::{self, Record, SEGMENT, WINDOW, message_id};
use postrider_broadcast::reports::{Report, Reports};
use postrider_domain::{BroadcastId, Phone, Timestamp, WorkspaceId};
use postrider_store::{Direction, StoreError, Table, View};

use crate::broadcasts::counts;
use crate::broadcasts::view::{
    Broadcast, BroadcastCounts, RecipientError, RecipientRow, RecipientStatus, RecipientsPage,
    status_of, unsent,
};

/// Called with a recipient's place, phone and variables.
pub(crate) type VisitRecipient<'a> = &'a mut dyn FnMut(u32, Phone, &[Box<str>]);

/// A broadcast's committed record and outcomes.
pub(crate) struct Committed<'a> {
    store: &'a dyn View,
    workspace: &'a WorkspaceId,
    pub(crate) record: Record,
}

/// The outcomes of the recipients of a window, from the channel's answers and reports.
struct Outcomes {
    marks: Option<Window>,
    reports: Option<Reports>,
}

impl Outcomes {
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
    fn outcomes(&self, window: u32) -> Result<Outcomes, StoreError> {
        let key = record::window_key(self.workspace, self.record.id, window);
        let marks = self.store.get(Table::BroadcastOutcomes, &key)?;
        let marks = marks.map(|bytes| Window::decode(&bytes)).transpose()?;
        let reports = self.store.get(Table::BroadcastReports, &key)?;
        let reports = reports.map(|bytes| Reports::decode(&bytes)).transpose()?;
        Ok(Outcomes { marks, reports })
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
        if let Some(kept) = counts::read(self.store, self.workspace, &self.record)? {
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
        let kept = counts::read(self.store, self.workspace, &self.record)?;
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
