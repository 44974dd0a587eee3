//! Lists one-time passwords, newest first.
//!
//! Sending a code writes nothing for it; its end writes a record (`core/otp/ended.rs`). Those that
//! the workspace may still have in memory are found in the event log, which is walked back from its
//! end beside the actor; the actor is asked where the found ones stand. Older ones are found by
//! their records, which are in the order of time.
//!
//! Each page looks at a bounded part of either, so it can be short of rows before the end.

use std::ops::ControlFlow;
use std::time::Duration;

use postrider_domain::event::chain::OtpChannel;
use postrider_domain::event::otp::OtpNotes;
use postrider_domain::event::{Delivery, OtpStatus};
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{Phone, PublicEvent, RequestId, Timestamp, WorkspaceId};
use postrider_store::view::event_log;
use postrider_store::{Direction, StoreError, Table, View};

use crate::Workspace;
use crate::core::command::{Command, Context};
use crate::core::otp::chain_tries::channel_of;
use crate::core::otp::ended::{self, Ended};
use crate::core::otp::requests::KEPT_AFTER_EXPIRY;
use postrider_domain::code::{ATTEMPTS_MAX, Expiry};

/// Entries of the log, and records, that one page looks at.
const LOOKED_AT_MAX: usize = 50_000;
/// Requests that the actor is asked about at once.
const ASKED_AT_ONCE: usize = 200;
/// What a request may be known for longer than its time, until a tick comes to it.
const SLACK: Duration = Duration::from_secs(300);

/// Which one-time passwords are asked for; the default is all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OtpFilter {
    /// Those to this phone.
    pub phone: Option<Phone>,
    /// Those that stand so.
    pub status: Option<OtpStatus>,
    /// Those that were sent at this moment or later.
    pub from: Option<Timestamp>,
    /// Those that were sent before this moment.
    pub to: Option<Timestamp>,
    /// Those that their sender calls so.
    pub reference: Option<String>,
    /// Those that this channel delivered, or was the last to try.
    pub channel: Option<OtpChannel>,
}

impl OtpFilter {
    fn takes(&self, phone: Phone, sent_at: Timestamp) -> bool {
        self.phone.is_none_or(|wanted| wanted == phone)
            && self.to.is_none_or(|to| sent_at < to)
            && !self.is_before(sent_at)
    }

    fn fits(&self, row: &OtpRow) -> bool {
        let reference = row.notes.reference.as_deref();
        self.status.is_none_or(|status| status == row.status)
            && self.channel.is_none_or(|channel| channel == row.channel)
            && self.reference.as_deref().is_none_or(|wanted| reference == Some(wanted))
    }

    fn is_before(&self, sent_at: Timestamp) -> bool {
        self.from.is_some_and(|from| sent_at < from)
    }
}

/// A one-time password and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtpRow {
    /// The request; when it was made is in it.
    pub request_id: RequestId,
    /// Where it went.
    pub phone: Phone,
    /// Where it stands.
    pub status: OtpStatus,
    /// What became of its newest message; an hour after its end, by that end.
    pub delivery: Delivery,
    /// Wrong codes that are still allowed.
    pub attempts_remaining: u8,
    /// How often it was sent.
    pub sends: u8,
    /// When it stops, or stopped, being valid.
    pub expires_at: Timestamp,
    /// When the right code was entered.
    pub verified_at: Option<Timestamp>,
    /// When it ended, if it has.
    pub ended_at: Option<Timestamp>,
    /// What is noted of it.
    pub notes: OtpNotes,
    /// The channel that delivered it, or that of the step that began last.
    pub channel: OtpChannel,
    /// Whether its person sends the code.
    pub is_inbound: bool,
}

/// Where a list goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtpCursor {
    /// Before this entry of the log, as far back as that moment.
    Log {
        /// The entry's sequence.
        before: u64,
        /// Requests that were made then and before have records.
        until: Timestamp,
    },
    /// Before this request, among the records.
    Records {
        /// The request.
        before: RequestId,
    },
}

/// A page of one-time passwords.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtpsPage {
    /// Newest first.
    pub otps: Vec<OtpRow>,
    /// Where the next page begins; `None`: there is none.
    pub next: Option<OtpCursor>,
}

/// A request of which the log has events.
struct Sent {
    sequence: u64,
    id: RequestId,
    phone: Phone,
}

/// How a page grows.
struct Page {
    filter: OtpFilter,
    limit: usize,
    /// Entries and records that may still be looked at.
    left: usize,
    rows: Vec<OtpRow>,
}

impl Page {
    fn is_full(&self) -> bool {
        self.rows.len() >= self.limit || self.left == 0
    }
}

impl Workspace {
    /// The one-time passwords that a filter asks for, newest first: at most `limit` of them, from
    /// `after` on. A page looks at a bounded part of them, so it can be empty before the end.
    ///
    /// # Errors
    /// [`Unavailable`] when the store cannot be read, or the workspace does not answer.
    pub async fn otps(
        &self,
        filter: OtpFilter,
        after: Option<OtpCursor>,
        limit: usize,
    ) -> Result<OtpsPage, Unavailable> {
        let mut page = Page { filter, limit, left: LOOKED_AT_MAX, rows: Vec::new() };
        let mut next = Some(after.unwrap_or_else(|| self.newest()));
        while let Some(cursor) = next.filter(|_| !page.is_full()) {
            next = match cursor {
                OtpCursor::Log { before, until } => self.recent(&mut page, before, until).await?,
                OtpCursor::Records { before } => {
                    let (back, further) = self
                        .scan(move |store, workspace| recorded(store, workspace, page, before))
                        .await?;
                    page = back;
                    further
                }
            };
        }
        Ok(OtpsPage { otps: page.rows, next })
    }

    fn newest(&self) -> OtpCursor {
        let now = self.shared.clock.now();
        let known_for = Duration::from_secs(Expiry::MAX_SECONDS.into()) + KEPT_AFTER_EXPIRY + SLACK;
        OtpCursor::Log { before: u64::MAX, until: now.minus(known_for) }
    }

    /// Adds requests of which the log has events; gives where to go on.
    async fn recent(
        &self,
        page: &mut Page,
        before: u64,
        until: Timestamp,
    ) -> Result<Option<OtpCursor>, Unavailable> {
        let (filter, left) = (page.filter.clone(), page.left);
        let (sent, looked_at, next) =
            self.scan(move |store, of| sent(store, of, filter, (before, until), left)).await?;
        page.left -= looked_at.min(page.left);
        let ids: Vec<_> = sent.iter().map(|sent| sent.id).collect();
        let known = if ids.is_empty() { Vec::new() } else { self.perform(ReadAll(ids)).await? };
        let wanted: Vec<_> = sent.into_iter().zip(known).collect();
        let rows = self.read(move |store, workspace| rows(store, workspace, wanted)).await?;
        for (sequence, row) in rows {
            if page.rows.len() == page.limit {
                break;
            }
            if page.filter.fits(&row) {
                page.rows.push(row);
            }
            if page.rows.len() == page.limit {
                return Ok(Some(OtpCursor::Log { before: sequence, until }));
            }
        }
        Ok(next)
    }
}

/// The requests of the log before a place, how much was looked at, and where to go on.
fn sent(
    store: &dyn View,
    workspace: &WorkspaceId,
    filter: OtpFilter,
    (before, until): (u64, Timestamp),
    left: usize,
) -> Result<(Vec<Sent>, usize, Option<OtpCursor>), StoreError> {
    let before = match filter.to {
        Some(to) if before == u64::MAX => event_log::before(store, workspace, to)? + 1,
        _ => before,
    };
    let (mut found, mut looked_at) = (Vec::new(), 0);
    let of_records = OtpCursor::Records { before: first_after(until) };
    let mut next = Some(of_records);
    event_log::read_back(store, workspace, before, &mut |sequence, entry| {
        if filter.is_before(entry.at) {
            next = None;
            return false;
        }
        if entry.at <= until {
            return false;
        }
        looked_at += 1;
        if let PublicEvent::OtpSent { request_id: id, phone, resend: false, .. } =
            *entry.event.plain()
            && filter.takes(phone, entry.at)
        {
            found.push(Sent { sequence, id, phone });
        }
        if found.len() == ASKED_AT_ONCE || looked_at >= left {
            next = Some(OtpCursor::Log { before: sequence, until });
            return false;
        }
        true
    })?;
    Ok((found, looked_at, next))
}

/// The first id after all of a moment.
fn first_after(at: Timestamp) -> RequestId {
    RequestId::from_parts(at.plus(Duration::from_millis(1)), 0)
}

/// The rows of requests, with what the actor knows of them. One that it has forgotten has a record,
/// and so has one that has ended.
fn rows(
    store: &dyn View,
    workspace: &WorkspaceId,
    wanted: Vec<(Sent, Option<OtpRow>)>,
) -> Result<Vec<(u64, OtpRow)>, StoreError> {
    let mut rows = Vec::with_capacity(wanted.len());
    for (sent, known) in wanted {
        let needs_record = known.as_ref().is_none_or(|known| known.status != OtpStatus::Active);
        let record = match needs_record {
            true => store.get(Table::Otps, &ended::key(workspace, sent.id))?,
            false => None,
        };
        let record = record.map(|bytes| Ended::decode(&bytes)).transpose()?;
        let row = match (known, record) {
            (Some(known), record) => {
                let record = record.map(|record| row_of(sent.id, record));
                let (verified_at, ended_at) =
                    record.map_or((None, None), |record| (record.verified_at, record.ended_at));
                Some(OtpRow { verified_at, ended_at, ..known })
            }
            (None, Some(record)) => Some(row_of(sent.id, record)),
            // It ended under an earlier version, which kept none.
            (None, None) => None,
        };
        debug_assert!(row.as_ref().is_none_or(|row| row.phone == sent.phone));
        rows.extend(row.map(|row| (sent.sequence, row)));
    }
    Ok(rows)
}

fn row_of(id: RequestId, ended: Ended) -> OtpRow {
    let Ended { phone, valid_seconds, status, delivery, attempts, sends, verified_at, .. } = ended;
    let expires_at = id.timestamp().plus(Duration::from_secs(valid_seconds.into()));
    // Earlier versions kept no end, which for some is known nevertheless.
    let expired_at = (status == OtpStatus::Expired).then_some(expires_at);
    let ended_at = ended.ended_at.or(verified_at).or(expired_at);
    let notes = ended.notes;
    let notes = notes.as_deref().map(OtpNotes::from_json).unwrap_or_default();
    let own = notes.own.as_deref();
    let (channel, is_inbound) =
        own.map_or((OtpChannel::Messaging, false), |own| (channel_of(&own.tries), own.inbound));
    OtpRow {
        request_id: id,
        channel,
        is_inbound,
        phone,
        status,
        delivery,
        attempts_remaining: ATTEMPTS_MAX.saturating_sub(attempts),
        sends,
        expires_at,
        verified_at,
        ended_at,
        notes,
    }
}

/// Adds requests that have records; gives where to go on.
fn recorded(
    store: &dyn View,
    workspace: &WorkspaceId,
    mut page: Page,
    before: RequestId,
) -> Result<(Page, Option<OtpCursor>), StoreError> {
    let prefix = ended::prefix(workspace);
    let before = match page.filter.to {
        Some(to) => before.min(RequestId::from_parts(to, 0)),
        None => before,
    };
    let from = ended::key(workspace, before);
    let (mut next, mut damage) = (None, None);
    store.scan(Table::Otps, &prefix, Some(&from), Direction::Backward, &mut |key, value| {
        let Some(id) = key[prefix.len()..].try_into().ok().map(RequestId::from_bytes) else {
            return ControlFlow::Continue(());
        };
        if id >= before {
            return ControlFlow::Continue(());
        }
        if page.filter.is_before(id.timestamp()) {
            return ControlFlow::Break(());
        }
        match Ended::decode(value) {
            Ok(record) => {
                let is_taken = page.filter.takes(record.phone, id.timestamp());
                let row = is_taken.then(|| row_of(id, record));
                page.rows.extend(row.filter(|row| page.filter.fits(row)));
            }
            Err(error) => damage = Some(error),
        }
        page.left -= 1;
        if page.is_full() {
            next = Some(OtpCursor::Records { before: id });
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })?;
    damage.map_or(Ok((page, next)), Err)
}

/// What the actor knows of requests.
struct ReadAll(Vec<RequestId>);

impl Command for ReadAll {
    type Answer = Vec<Option<OtpRow>>;
    type Error = Unavailable;

    fn carry_out(self, context: &mut Context<'_>) -> Result<Self::Answer, Unavailable> {
        let core = &context.core;
        let known = |id: RequestId| {
            let otp = core.known(id)?;
            let state = core.otp(id).ok()?;
            Some(OtpRow {
                request_id: id,
                phone: otp.phone,
                status: state.status,
                delivery: state.delivery,
                attempts_remaining: state.attempts_remaining,
                sends: core.hot.otps.earlier.newest(id),
                expires_at: state.expires_at,
                verified_at: None,
                ended_at: None,
                notes: state.notes,
                channel: state.channel,
                is_inbound: state.is_inbound,
            })
        };
        Ok(self.0.into_iter().map(known).collect())
    }
}
