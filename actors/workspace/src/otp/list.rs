//! Lists one-time passwords, newest first.
//!
//! Sending a code writes nothing for it; its end writes a record and the entries of its index
//! (`core/otp/ended.rs`, `ended_index.rs`). Those that have not ended are found in the actor's
//! memory first. What ends meanwhile has its record by the time those are looked at, so none is
//! missed between the two; one that is in both is listed by its record.
//!
//! Each page looks at a bounded part of either, so it can be short of rows before the end.

use std::sync::Arc;
use std::time::Duration;

use postrider_domain::code::Expiry;
use postrider_domain::event::chain::OtpChannel;
use postrider_domain::event::otp::{OtpNotes, OtpTry};
use postrider_domain::event::{Delivery, OtpStatus};
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{NumberId, Phone, RequestId, Timestamp};

use crate::Workspace;
use crate::core::Core;
use crate::core::command::{Command, Context};
use crate::core::otp::chain_tries::{channel_of, tries_of};
use crate::core::otp::pending::Wanted;
use crate::core::otp::requests::{KEPT_AFTER_EXPIRY, Otp};
use crate::core::otp::types::OtpState;
use crate::newest_first::{Batch, LOOKED_AT_MAX, Walk, merged};
use crate::otp::found::ended_before;

/// Requests that one command looks at: some 50 µs of the actor.
const LOOKED_AT_ONCE: usize = 2_000;
/// Rows that the actor is asked for, or about, at once.
const ROWS_AT_ONCE: usize = 200;
/// What a request may be known for longer than its time, until a tick comes to it.
const SLACK: Duration = Duration::from_secs(300);

type Rows = Batch<RequestId, OtpRow>;
type Otps = Walk<RequestId, OtpRow>;

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
    /// What never changes of a request that has ended.
    pub(super) fn takes(&self, row: &OtpRow) -> bool {
        let reference = row.notes.reference.as_deref();
        let made_at = row.request_id.timestamp();
        self.phone.is_none_or(|wanted| Some(wanted) == row.phone)
            && self.status.is_none_or(|status| status == row.status)
            && self.reference.as_deref().is_none_or(|wanted| reference == Some(wanted))
            && self.to.is_none_or(|to| made_at < to)
            && !self.is_before(made_at)
    }

    /// Whether what was made then and before is too old.
    pub(super) fn is_before(&self, at: Timestamp) -> bool {
        self.from.is_some_and(|from| at < from)
    }

    fn takes_channel(&self, channel: OtpChannel) -> bool {
        self.channel.is_none_or(|wanted| wanted == channel)
    }
}

/// A one-time password and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtpRow {
    /// The request; when it was made is in it.
    pub request_id: RequestId,
    /// Where it went, or who is to send it; `None`: any phone may, and none has.
    pub phone: Option<Phone>,
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
    /// What became of each try to bring its code.
    pub tries: Vec<OtpTry>,
    /// The language that is used over that channel; `None` of an ended one where it was the
    /// workspace's own.
    pub language: Option<String>,
    /// The number that its messages leave through; of an ended one only where there was a choice.
    pub number: Option<NumberId>,
}

impl OtpRow {
    /// Takes what is known of it later than at its end.
    fn refresh(&mut self, known: OtpState) {
        let OtpState { delivery, channel, tries, language, number, .. } = known;
        (self.delivery, self.channel, self.tries) = (delivery, channel, tries);
        (self.language, self.number) = (language, number);
    }
}

/// A page of one-time passwords.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtpsPage {
    /// Newest first.
    pub otps: Vec<OtpRow>,
    /// The next page is of those before this one; `None`: there is none.
    pub next: Option<RequestId>,
}

impl Workspace {
    /// The one-time passwords that a filter asks for, newest first: at most `limit` of them, from
    /// before `after` on. A page looks at a bounded part of them, so it can be empty before the
    /// end.
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
        walk: &mut Otps,
    ) -> Result<(), Unavailable> {
        loop {
            let wanted = Wanted {
                phone: filter.phone,
                before,
                since: filter.from,
                enough: (walk.room() + 1).min(ROWS_AT_ONCE),
                looks: walk.left().min(LOOKED_AT_ONCE),
            };
            // Without an answer, it has brought some to their end that were to have been.
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
        walk: &mut Otps,
    ) -> Result<(), Unavailable> {
        loop {
            // Of most channels few are wanted, and the actor is asked for each batch.
            let enough = if filter.channel.is_some() { ROWS_AT_ONCE } else { walk.room() + 1 };
            let wanted = (enough.min(ROWS_AT_ONCE), walk.left());
            let (of, slot) = (filter.clone(), Arc::clone(&self.slot));
            let read = move |store: &_, id: &_| {
                ended_before((store, &slot.otps_indexed), id, &of, before, wanted)
            };
            let mut found = self.scan(read).await?;
            self.refresh(&mut found.rows).await?;
            found.rows.retain(|(_, row)| filter.takes_channel(row.channel));
            before = walk.take_batch(found);
            if before.is_none() {
                return Ok(());
            }
        }
    }

    /// Reports what was reported since their end of those that the workspace still knows.
    async fn refresh(&self, rows: &mut [(RequestId, OtpRow)]) -> Result<(), Unavailable> {
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

/// Some of what has not ended. It answers nothing while there is some that should have, long ago:
/// then it brings a part of that to its end.
struct ReadPending(OtpFilter, Wanted);

impl Command for ReadPending {
    type Answer = Option<Rows>;
    type Error = Unavailable;

    fn carry_out(self, context: &mut Context<'_>) -> Result<Option<Rows>, Unavailable> {
        let Self(filter, wanted) = self;
        if context.core.hot.is_behind() {
            context.core.tick(context.effects);
            return Ok(None);
        }
        let core = &*context.core;
        let extras = &core.hot.otps.extras;
        // Notes are parsed only where the reference is in their text: there may be thousands.
        let encoded = filter.reference.as_ref();
        let encoded = encoded.map(|it| serde_json::to_string(it).unwrap_or_default());
        let is_called_so = |id: RequestId| {
            encoded.as_deref().is_none_or(|encoded| {
                extras.json(id).is_some_and(|json| json.contains(encoded))
                    && extras.notes(id).reference == filter.reference
            })
        };
        let takes = |otp: &Otp| {
            let status = core.hot.otps.status(otp, core.now());
            filter.status.is_none_or(|wanted| wanted == status)
                && is_called_so(otp.id)
                && (filter.channel.is_none()
                    || filter.takes_channel(channel_of(&tries_of(core, otp))))
        };
        let found = core.hot.pending(&wanted, takes);
        let rows = found.otps.iter().filter_map(|otp| Some((otp.id, pending_row(core, otp)?)));
        let rows = rows.collect();
        Ok(Some(Batch { rows, looked_at: found.looked_at, down_to: found.down_to }))
    }
}

fn pending_row(core: &Core, otp: &Otp) -> Option<OtpRow> {
    let state = core.otp(otp.id).ok()?;
    Some(OtpRow {
        request_id: otp.id,
        phone: state.phone,
        status: state.status,
        delivery: state.delivery,
        attempts_remaining: state.attempts_remaining,
        sends: core.hot.otps.earlier.newest(otp.id),
        expires_at: state.expires_at,
        verified_at: None,
        // Its time is over, and no tick has come to it yet.
        ended_at: (state.status == OtpStatus::Expired).then_some(state.expires_at),
        notes: state.notes,
        channel: state.channel,
        is_inbound: state.is_inbound,
        tries: state.tries,
        language: state.language,
        number: state.number,
    })
}

/// What became of the messages of requests, of those that are known.
struct ReadKnown(Vec<RequestId>);

impl Command for ReadKnown {
    type Answer = Vec<Option<Box<OtpState>>>;
    type Error = Unavailable;

    fn carry_out(self, context: &mut Context<'_>) -> Result<Self::Answer, Unavailable> {
        let known = |id: RequestId| context.core.otp(id).ok().map(Box::new);
        Ok(self.0.into_iter().map(known).collect())
    }
}
