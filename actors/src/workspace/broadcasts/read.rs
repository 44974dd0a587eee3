//! What is told of broadcasts: read from what is committed, without asking an actor.

use std::ops::ControlFlow;

use hashbrown::HashMap;

use crate::broadcast::audience::Segment;
use crate::broadcast::outcomes::{Failed, Mark, Window};
use crate::broadcast::record::{
    self, BroadcastPolicy, BroadcastStatus, Record, SEGMENT, WINDOW, message_id,
};
use crate::broadcast::reports::{Report, Reports};
use crate::channel::TemplateName;
use crate::domain::{BroadcastId, MessageId, Phone, Timestamp, WorkspaceId};
use crate::store::{Direction, Store, StoreError, Table};

use super::super::handle::Workspace;
use super::super::messages::Unavailable;
use super::super::records;
use super::control::BroadcastError;

/// A broadcast.
#[derive(Debug, Clone, PartialEq)]
pub struct Broadcast {
    /// Its id.
    pub id: BroadcastId,
    /// Its name, for people.
    pub name: Box<str>,
    /// The template that it sends.
    pub template: TemplateName,
    /// What becomes of messages whose outcome a crash has swallowed.
    pub policy: BroadcastPolicy,
    /// Where it stands.
    pub status: BroadcastStatus,
    /// Why it was paused or ended, unless somebody asked for it.
    pub reason: Option<Box<str>>,
    /// Its recipients.
    pub total_recipients: u32,
    /// What became of them.
    pub counts: BroadcastCounts,
    /// Outcomes a second since it began; `None` before.
    pub rate_per_second: Option<f64>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it is or was to begin, unless at once.
    pub schedule_at: Option<Timestamp>,
    /// When it began.
    pub started_at: Option<Timestamp>,
    /// When it was over.
    pub finished_at: Option<Timestamp>,
    /// The broadcast whose failed recipients it sends to again.
    pub retry_of: Option<BroadcastId>,
}

macro_rules! statuses {
    ($($(#[$doc:meta])* $variant:ident $field:ident;)*) => {
        /// What became of a recipient.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum RecipientStatus { $($(#[$doc])* $variant,)* }

        /// Recipients by what became of them: each is in one, and they add up to all.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct BroadcastCounts { $($(#[$doc])* pub $field: u32,)* }

        impl RecipientStatus {
            /// Every status.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The status as an answer spells it.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => stringify!($field),)* }
            }
        }

        impl BroadcastCounts {
            fn add(&mut self, status: RecipientStatus) {
                match status { $(RecipientStatus::$variant => self.$field += 1,)* }
            }
        }
    };
}

statuses! {
    /// Not sent yet, or the channel has not answered yet.
    Pending pending;
    /// The channel took it.
    Sent sent;
    /// It is on the recipient's device.
    Delivered delivered;
    /// The recipient has opened it.
    Read read;
    /// It was not sent, and never will be.
    Failed failed;
    /// It was handed over and no answer came.
    Unknown unknown;
    /// The recipient has opted out.
    Suppressed suppressed;
    /// The broadcast ended before it was sent.
    Cancelled cancelled;
}

/// One recipient of a broadcast.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecipientRow {
    /// Who.
    pub to: Phone,
    /// The message to it; `None` for one that gets none.
    pub message_id: Option<MessageId>,
    /// What became of it.
    pub status: RecipientStatus,
    /// Why it failed, if it did.
    pub error: Option<RecipientError>,
}

/// Why a message to a recipient failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecipientError {
    /// `channel_refused` or `not_sent_in_time`.
    pub reason: &'static str,
    /// The channel's own error code, where it gave one.
    pub code: Option<u32>,
    /// The channel's explanation; empty where it gave none.
    pub details: Box<str>,
}

impl From<Failed> for RecipientError {
    fn from(failed: Failed) -> Self {
        let reason = if failed.refused { "channel_refused" } else { "not_sent_in_time" };
        Self { reason, code: failed.code, details: failed.details }
    }
}

/// A page of recipients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecipientsPage {
    /// The rows of the page.
    pub rows: Vec<RecipientRow>,
    /// Rows of all pages.
    pub total: usize,
}

impl BroadcastCounts {
    /// Recipients that the channel has answered for, or will not.
    fn concluded(&self) -> u32 {
        self.sent + self.delivered + self.read + self.failed + self.unknown
    }
}

/// A broadcast's record and outcomes, as they are committed.
pub(super) struct Committed<'a> {
    store: &'a dyn Store,
    workspace: &'a WorkspaceId,
    pub(super) record: Record,
}

impl<'a> Committed<'a> {
    pub(super) fn read(
        store: &'a dyn Store,
        workspace: &'a WorkspaceId,
        id: BroadcastId,
    ) -> Result<Option<Self>, StoreError> {
        let key = record::record_key(workspace, id);
        let Some(json) = store.get(Table::Broadcasts, &key)? else { return Ok(None) };
        Ok(Some(Self { store, workspace, record: records::decode(&json)? }))
    }

    /// Visits every recipient's place and status, in order.
    pub(super) fn visit(
        &self,
        visit: &mut dyn FnMut(u32, RecipientStatus, Option<&Failed>),
    ) -> Result<(), StoreError> {
        let Record { id, sendable, total, status, .. } = self.record;
        let prefix = record::parts_prefix(self.workspace, id);
        let unsent = match status.is_over() {
            true => RecipientStatus::Cancelled,
            false => RecipientStatus::Pending,
        };
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
                let status = match mark {
                    Mark::Claimed if self.record.settled => RecipientStatus::Unknown,
                    Mark::Claimed => RecipientStatus::Pending,
                    Mark::Again => unsent,
                    Mark::Sent => RecipientStatus::Sent,
                    Mark::Failed => RecipientStatus::Failed,
                    Mark::Unknown => RecipientStatus::Unknown,
                    Mark::OptedOut => RecipientStatus::Suppressed,
                };
                let report = reported.as_ref().and_then(|reported| reported.of(at));
                let (status, failed) = match report {
                    Some(Report::Failed) => (RecipientStatus::Failed, reported.as_ref()),
                    Some(Report::Read) => (RecipientStatus::Read, None),
                    Some(Report::Delivered) => (RecipientStatus::Delivered, None),
                    // It settles what nobody knew.
                    Some(Report::Sent) => (RecipientStatus::Sent, None),
                    None => (status, None),
                };
                let failure = match failed {
                    Some(reported) => reported.failure(at),
                    None => window.failure(at),
                };
                visit(next, status, failure);
                next += 1;
            }
            ControlFlow::Continue(())
        })?;
        if let Some(damage) = damage {
            return Err(damage);
        }
        (next..sendable).for_each(|index| visit(index, unsent, None));
        (sendable..total).for_each(|index| visit(index, RecipientStatus::Suppressed, None));
        Ok(())
    }

    /// What was reported later, by window.
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
        let mut counts = BroadcastCounts::default();
        self.visit(&mut |_, status, _| counts.add(status))?;
        Ok(counts)
    }

    fn broadcast(self, now: Timestamp) -> Result<Broadcast, StoreError> {
        let counts = self.counts()?;
        let record = self.record;
        let rate_per_second = record.started_at.map(|started| {
            let seconds = record.finished_at.unwrap_or(now).since(started).as_secs_f64();
            // A part of a millisecond is not measured.
            f64::from(counts.concluded()) / seconds.max(0.001)
        });
        Ok(Broadcast {
            id: record.id,
            name: record.name,
            template: record.template,
            policy: record.policy,
            status: record.status,
            reason: record.reason,
            total_recipients: record.total,
            counts,
            rate_per_second,
            created_at: record.created_at,
            schedule_at: record.schedule_at,
            started_at: record.started_at,
            finished_at: record.finished_at,
            retry_of: record.retry_of,
        })
    }

    /// The recipients at these places, in rising order, with their variables.
    pub(super) fn recipients(
        &self,
        places: impl Iterator<Item = u32>,
        visit: &mut dyn FnMut(u32, Phone, &[Box<str>]),
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

    fn page(
        &self,
        wanted: Option<RecipientStatus>,
        skip: usize,
        limit: usize,
    ) -> Result<RecipientsPage, StoreError> {
        let (mut places, mut total) = (Vec::new(), 0);
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

impl Workspace {
    /// One broadcast.
    ///
    /// # Errors
    /// [`BroadcastError`]: there is none, or not now.
    pub async fn broadcast(&self, id: BroadcastId) -> Result<Broadcast, BroadcastError> {
        let now = self.shared.clock.now();
        let read = self.read(move |store, workspace| {
            Committed::read(store, workspace, id)?.map(|found| found.broadcast(now)).transpose()
        });
        read.await?.ok_or(BroadcastError::NotFound)
    }

    /// Broadcasts, newest first: those after the first `skip`, at most `limit`, and how many there
    /// are in all.
    ///
    /// # Errors
    /// [`Unavailable`]: the store cannot be read.
    pub async fn broadcasts(
        &self,
        skip: usize,
        limit: usize,
    ) -> Result<(Vec<Broadcast>, usize), Unavailable> {
        let now = self.shared.clock.now();
        self.read(move |store, workspace| {
            let prefix = record::records_prefix(workspace);
            let (mut found, mut total) = (Vec::new(), 0);
            store.scan(
                Table::Broadcasts,
                &prefix,
                None,
                Direction::Backward,
                &mut |_, value| {
                    if total >= skip && found.len() < limit {
                        found.push(records::decode::<Record>(value));
                    }
                    total += 1;
                    ControlFlow::Continue(())
                },
            )?;
            let read = |record: Result<Record, StoreError>| {
                Committed { store, workspace, record: record? }.broadcast(now)
            };
            let rows = found.into_iter().map(read).collect::<Result<_, _>>()?;
            Ok((rows, total))
        })
        .await
    }

    /// A broadcast's recipients, those of one status or all.
    ///
    /// # Errors
    /// [`BroadcastError`]: there is no such broadcast, or not now.
    pub async fn broadcast_recipients(
        &self,
        id: BroadcastId,
        status: Option<RecipientStatus>,
        skip: usize,
        limit: usize,
    ) -> Result<RecipientsPage, BroadcastError> {
        let read = self.read(move |store, workspace| {
            let found = Committed::read(store, workspace, id)?;
            found.map(|found| found.page(status, skip, limit)).transpose()
        });
        read.await?.ok_or(BroadcastError::NotFound)
    }
}
