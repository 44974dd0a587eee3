//! Lists one-time passwords, newest first.
//!
//! Sending a code writes nothing for it; its end writes a record and the entries of its index
//! (`core/otp/ended_record.rs`). Requests that have not ended are found in the actor's
//! memory first. A request that ends meanwhile has its record by the time the records are read, so
//! none is missed between the two. One that is in both is listed by its record.
//!
//! Each page looks at a bounded part of either, so it can be short of rows before the end.

use std::time::Duration;

use postrider_domain::code::Expiry;
use postrider_domain::event::OtpStatus;
use postrider_domain::event::chain::OtpChannel;
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{Phone, RequestId, Timestamp};

use crate::Workspace;
use crate::core::command::{Command, Context};
use crate::core::otp::failover::{channel_of, tries_of};
use crate::core::otp::pending::PendingQuery;
use crate::core::otp::read::otp_state;
use crate::core::otp::requests::{KEPT_AFTER_EXPIRY, Otp};
use crate::core::otp::types::OtpState;
use crate::newest_first::{LOOKED_AT_MAX, Walk, WalkBatch, merged};
use crate::otp::read_ended::ended_before;

/// The number of requests that one command looks at: some 50 µs of the actor.
const LOOKED_AT_ONCE: usize = 2_000;
/// The maximum of rows in one request to the actor.
const ROWS_AT_ONCE: usize = 200;
/// The time for which a request may be known after its end, until a tick comes to it.
const SLACK: Duration = Duration::from_secs(300);

type OtpBatch = WalkBatch<RequestId, OtpState>;
type OtpWalk = Walk<RequestId, OtpState>;

/// The filter of one-time passwords; the default matches all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OtpFilter {
    /// The phone of the requests.
    pub phone: Option<Phone>,
    /// The status of the requests.
    pub status: Option<OtpStatus>,
    /// The earliest moment of sending.
    pub from: Option<Timestamp>,
    /// The moment before which they were sent.
    pub to: Option<Timestamp>,
    /// The sender's reference for the request.
    pub reference: Option<String>,
    /// The channel that delivered it, or was the last to try.
    pub channel: Option<OtpChannel>,
}

impl OtpFilter {
    /// Returns whether the constant fields of an ended request match.
    pub(super) fn takes(&self, row: &OtpState) -> bool {
        let reference = row.notes.reference.as_deref();
        let made_at = row.request_id.timestamp();
        self.phone.is_none_or(|wanted| Some(wanted) == row.phone)
            && self.status.is_none_or(|status| status == row.status)
            && self.reference.as_deref().is_none_or(|wanted| reference == Some(wanted))
            && self.to.is_none_or(|to| made_at < to)
            && !self.is_before(made_at)
    }

    /// Returns whether requests of that moment and before are too old.
    pub(super) fn is_before(&self, at: Timestamp) -> bool {
        self.from.is_some_and(|from| at < from)
    }

    fn takes_channel(&self, channel: OtpChannel) -> bool {
        self.channel.is_none_or(|wanted| wanted == channel)
    }
}

impl OtpState {
    /// Applies facts that became known after its end.
    pub(super) fn refresh(&mut self, known: OtpState) {
        let OtpState { delivery, channel, tries, language, number, .. } = known;
        (self.delivery, self.channel, self.tries) = (delivery, channel, tries);
        (self.language, self.number) = (language, number);
    }
}

/// A page of one-time passwords.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtpsPage {
    /// Newest first.
    pub otps: Vec<OtpState>,
    /// The request before which the next page starts; `None` if there is no next page.
    pub next: Option<RequestId>,
}

impl Workspace {
    /// Returns the one-time passwords that match a filter, newest first: at most `limit`, after
    /// `after`.
    ///
    /// A page looks at a bounded part of them, so it can be empty before the end.
    ///
    /// # Errors
    /// [`Unavailable`] when the store cannot be read, or the workspace does not answer.
    pub async fn otps(
        &self,
        filter: OtpFilter,
        after: Option<RequestId>,
        limit: usize,
    ) -> Result<OtpsPage, Unavailable> {
        let until = filter.to.map(|to| RequestId::from_parts(to, 0));
        let before = [after, until].into_iter().flatten().min();
        let walk = || Walk::new(limit, LOOKED_AT_MAX / 2, before);
        let (mut pending, mut ended) = (walk(), walk());
        if matches!(filter.status, None | Some(OtpStatus::Active | OtpStatus::Expired)) {
            self.walk_pending(&filter, before, &mut pending).await?;
        }
        if filter.status != Some(OtpStatus::Active) {
            self.walk_ended(&filter, before, &mut ended).await?;
        }
        let (otps, next) = merged(vec![ended, pending], limit);
        Ok(OtpsPage { otps, next })
    }

    async fn walk_pending(
        &self,
        filter: &OtpFilter,
        mut before: Option<RequestId>,
        walk: &mut OtpWalk,
    ) -> Result<(), Unavailable> {
        loop {
            let wanted = PendingQuery {
                phone: filter.phone,
                before,
                since: filter.from,
                enough: (walk.room() + 1).min(ROWS_AT_ONCE),
                looks: walk.left().min(LOOKED_AT_ONCE),
            };
            // Without an answer, the actor has ended some that were overdue.
            let Some(found) = self.perform(ReadPending(filter.clone(), wanted)).await? else {
                continue;
            };
            before = walk.take_batch(found);
            if before.is_none() {
                return Ok(());
            }
        }
    }

    async fn walk_ended(
        &self,
        filter: &OtpFilter,
        mut before: Option<RequestId>,
        walk: &mut OtpWalk,
    ) -> Result<(), Unavailable> {
        loop {
            // With a filter by channel, few of most channels match, and the actor is asked for each
            // batch.
            let enough = if filter.channel.is_some() { ROWS_AT_ONCE } else { walk.room() + 1 };
            let wanted = (enough.min(ROWS_AT_ONCE), walk.left());
            let of = filter.clone();
            let read = move |store: &_, id: &_| ended_before(store, id, &of, before, wanted);
            let mut found = self.scan(read).await?;
            self.refresh(&mut found.rows).await?;
            found.rows.retain(|(_, row)| filter.takes_channel(row.channel));
            before = walk.take_batch(found);
            if before.is_none() {
                return Ok(());
            }
        }
    }

    /// Updates the rows that the workspace still knows with reports after their end.
    async fn refresh(&self, rows: &mut [(RequestId, OtpState)]) -> Result<(), Unavailable> {
        let known_for = Duration::from_secs(Expiry::MAX_SECONDS.into()) + KEPT_AFTER_EXPIRY + SLACK;
        let known_since = self.shared.clock.now().minus(known_for);
        let young = rows.iter().take_while(|(id, _)| known_since <= id.timestamp());
        let young: Vec<_> = young.map(|(id, _)| *id).collect();
        if young.is_empty() {
            return Ok(());
        }
        for ((_, row), known) in rows.iter_mut().zip(self.perform(ReadKnown(young)).await?) {
            known.into_iter().for_each(|known| row.refresh(*known));
        }
        Ok(())
    }
}

/// Reads some of the requests that have not ended.
///
/// It returns nothing while there are requests that should have ended long ago: then it ends a part
/// of those.
struct ReadPending(OtpFilter, PendingQuery);

impl Command for ReadPending {
    type Answer = Option<OtpBatch>;
    type Error = Unavailable;

    fn carry_out(self, context: &mut Context<'_>) -> Result<Option<OtpBatch>, Unavailable> {
        let Self(filter, wanted) = self;
        if context.core.hot.is_behind() {
            context.core.tick(context.effects);
            return Ok(None);
        }
        let core = &*context.core;
        let extras = &core.hot.otps.extras;
        // Notes are parsed only if the reference is in their text: there may be thousands.
        let encoded = filter.reference.as_ref();
        let encoded = encoded.map(|it| serde_json::to_string(it).unwrap_or_default());
        let has_reference = |id: RequestId| {
            encoded.as_deref().is_none_or(|encoded| {
                extras.json(id).is_some_and(|json| json.contains(encoded))
                    && extras.notes(id).reference == filter.reference
            })
        };
        let takes = |otp: &Otp| {
            let status = core.hot.otps.status(otp, core.now());
            filter.status.is_none_or(|wanted| wanted == status)
                && has_reference(otp.id)
                && (filter.channel.is_none()
                    || filter.takes_channel(channel_of(&tries_of(core, otp))))
        };
        let found = core.hot.pending(&wanted, takes);
        let rows =
            found.otps.iter().filter_map(|otp| Some((otp.id, otp_state(core, otp.id).ok()?)));
        let rows = rows.collect();
        Ok(Some(WalkBatch { rows, looked_at: found.looked_at, down_to: found.down_to }))
    }
}

/// Reads the states of requests, of those that are known.
struct ReadKnown(Vec<RequestId>);

impl Command for ReadKnown {
    type Answer = Vec<Option<Box<OtpState>>>;
    type Error = Unavailable;

    fn carry_out(self, context: &mut Context<'_>) -> Result<Self::Answer, Unavailable> {
        let known = |id: RequestId| otp_state(context.core, id).ok().map(Box::new);
        Ok(self.0.into_iter().map(known).collect())
    }
}
