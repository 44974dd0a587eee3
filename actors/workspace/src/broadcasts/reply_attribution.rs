//! Attributes a message that a contact wrote to the broadcast that it replies to.
//!
//! A recipient may reply while a broadcast is sent, and within three days of its end. The reply is
//! to the last broadcast whose message went out to them. Each recipient counts once.
//!
//! [`Table::Analytics`] has the broadcasts that may be replied to under
//! `workspace ‖ 0 ‖ r ‖ begin ‖ broadcast`. The value is empty while one is sent, and then the end
//! of its replies. The lookup of a phone among their recipients is beside the actor
//! (`reply_lookup.rs`).

use std::ops::ControlFlow;
use std::time::Duration;

use crate::broadcasts;
use crate::broadcasts::reply_lookup::{Found, Recipient};
use crate::core::command::Context;
use crate::core::view::unreadable;
use postrider_broadcast::outcomes::{Mark, Window};
use postrider_broadcast::record::{Record, WINDOW, window_key};
use postrider_broadcast::reports::{Report, Reports};
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{BroadcastId, Phone, Timestamp, WorkspaceId};
use postrider_store::{Direction, StoreError, Table, View};

use crate::analytics::note;

/// The time after a broadcast's end for which a message is still a reply.
const REPLIES_FOR: Duration = Duration::from_secs(3 * 24 * 3600);
/// The maximum of broadcasts that a message is looked for in: the last that started.
pub(super) const LOOKED_AT_MAX: usize = 32;

fn prefix(workspace: &WorkspaceId) -> Vec<u8> {
    [workspace.as_str().as_bytes(), b"\0r"].concat()
}

fn key(context: &Context<'_>, begun: Timestamp, id: BroadcastId) -> Vec<u8> {
    let begun = begun.as_millis().to_be_bytes();
    [&*prefix(&context.core.id), &begun, id.as_bytes()].concat()
}

/// Notes that a broadcast starts: it may be replied to.
pub(crate) fn opens(context: &mut Context<'_>, record: &Record) {
    if let Some(begun) = record.started_at {
        let key = key(context, begun, record.id);
        context.put(Table::Analytics, key, Vec::new());
    }
}

/// Notes that a broadcast is over: its replies have an end.
pub(crate) fn ends(context: &mut Context<'_>, record: &Record) {
    if let Some(begun) = record.started_at {
        let key = key(context, begun, record.id);
        let end = context.now().plus(REPLIES_FOR).as_millis().to_be_bytes();
        context.put(Table::Analytics, key, end.to_vec());
    }
}

/// A broadcast that may be replied to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Live {
    pub(super) begun: Timestamp,
    pub(super) id: BroadcastId,
    /// The end of its replies; `None` while it is sent.
    pub(super) end: Option<Timestamp>,
}

/// The broadcasts that may be replied to, and the keys of those that no longer can be.
#[derive(Debug, Default)]
pub(crate) struct LiveBroadcasts {
    /// The last broadcasts that started, newest first.
    pub(super) live: Vec<Live>,
    over: Vec<Vec<u8>>,
}

impl LiveBroadcasts {
    /// Reads them in one scan.
    ///
    /// # Errors
    /// [`StoreError`]: the store cannot be read.
    pub(crate) fn read(
        store: &dyn View,
        workspace: &WorkspaceId,
        now: Timestamp,
    ) -> Result<Self, StoreError> {
        let (prefix, mut found) = (prefix(workspace), Self::default());
        let visit = &mut |key: &[u8], value: &[u8]| {
            let Some((begun, id)) = key[prefix.len()..].split_first_chunk() else {
                return ControlFlow::Continue(());
            };
            let moment = |bytes: &[u8; 8]| Timestamp::from_millis(u64::from_be_bytes(*bytes));
            let (begun, end) = (moment(begun), value.first_chunk().map(moment));
            match id.try_into().map(BroadcastId::from_bytes) {
                Ok(id) if end.is_none_or(|end| now < end) => {
                    found.live.push(Live { begun, id, end });
                }
                _ => found.over.push(key.to_vec()),
            }
            match found.live.len() + found.over.len() < LOOKED_AT_MAX {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        };
        store.scan(Table::Analytics, &prefix, None, Direction::Backward, visit)?;
        Ok(found)
    }

    /// Returns whether no message can be a reply.
    pub(crate) const fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// Deletes the keys of broadcasts that are over.
    pub(crate) fn forget_over(&self, context: &mut Context<'_>) {
        for key in &self.over {
            context.delete(Table::Analytics, key.clone());
        }
    }
}

/// Notes that a contact has written, perhaps as a reply, by the result of the lookup.
pub(crate) fn note_reply(
    context: &mut Context<'_>,
    from: Phone,
    found: &Found,
) -> Result<(), Unavailable> {
    if let Some(recipient) = &found.recipient
        && let Some(record) = broadcasts::find(context, recipient.broadcast)?
    {
        replied(context, *recipient, &record)?;
    }
    found.keep(context, from);
    Ok(())
}

/// Counts the reply of a recipient, once, if the message still went out to them.
fn replied(
    context: &mut Context<'_>,
    recipient: Recipient,
    record: &Record,
) -> Result<(), Unavailable> {
    let Recipient { broadcast, place } = recipient;
    let key = window_key(&context.core.id, broadcast, place / WINDOW);
    let at = (place % WINDOW) as usize;
    let marks = context.get(Table::BroadcastOutcomes, &key)?;
    let reports = context.get(Table::BroadcastReports, &key)?;
    let (went_out, mut reports) = went_out(marks, reports, at).map_err(unreadable)?;
    if went_out && reports.reply(at) {
        context.put(Table::BroadcastReports, key, reports.encode());
        note(context, record, |counts| counts.replied += 1)?;
    }
    Ok(())
}

/// Returns whether a message was sent, by the fan-out's marks and the channel's reports of its
/// window.
pub(super) fn went_out(
    marks: Option<Vec<u8>>,
    reports: Option<Vec<u8>>,
    at: usize,
) -> Result<(bool, Reports), StoreError> {
    let marks = marks.map(|bytes| Window::decode(&bytes)).transpose()?;
    let reports = reports.map(|bytes| Reports::decode(&bytes)).transpose()?.unwrap_or_default();
    let went_out = match (reports.of(at), marks.and_then(|marks| marks.mark(at))) {
        (Some(report), _) => report != Report::Failed,
        (None, mark) => {
            matches!(mark, Some(Mark::Sent | Mark::Held | Mark::Unknown | Mark::Claimed))
        }
    };
    Ok((went_out, reports))
}
