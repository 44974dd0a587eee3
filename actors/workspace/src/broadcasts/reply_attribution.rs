//! Attributes a message that a contact wrote to the broadcast that it replies to.
//!
//! A recipient that writes while a broadcast is sent, or within three days of its end, replies to
//! the last one whose message went out to them. Each recipient counts once.
//!
//! [`Table::Analytics`] knows the broadcasts that may be replied to under `workspace ‖ 0 ‖ r ‖
//! begin ‖ broadcast`; the value is empty while one is sent, and then when its replies end.

use std::ops::ControlFlow;
use std::time::Duration;

use crate::broadcasts;
use crate::core::command::Context;
use crate::core::view::unreadable;
use postrider_broadcast::outcomes::{Mark, Window};
use postrider_broadcast::phone_index::place_of;
use postrider_broadcast::record::{Record, WINDOW, window_key};
use postrider_broadcast::reports::{Report, Reports};
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{BroadcastId, Phone, Timestamp};
use postrider_store::{Direction, Table};

use crate::analytics::note;

/// How long after a broadcast's end a message is still a reply.
const REPLIES_FOR: Duration = Duration::from_secs(3 * 24 * 3600);
/// Most broadcasts that a message is looked for in: the last ones that began.
const LOOKED_AT_MAX: usize = 32;

fn key(context: &Context<'_>, begun: Timestamp, id: BroadcastId) -> Vec<u8> {
    let begun = begun.as_millis().to_be_bytes();
    [context.core.id.as_str().as_bytes(), b"\0r", &begun, id.as_bytes()].concat()
}

/// A broadcast begins: it may be replied to.
pub(crate) fn opens(context: &mut Context<'_>, record: &Record) {
    if let Some(begun) = record.started_at {
        let key = key(context, begun, record.id);
        context.put(Table::Analytics, key, Vec::new());
    }
}

/// A broadcast is over: its replies have an end.
pub(crate) fn ends(context: &mut Context<'_>, record: &Record) {
    if let Some(begun) = record.started_at {
        let key = key(context, begun, record.id);
        let end = context.now().plus(REPLIES_FOR).as_millis().to_be_bytes();
        context.put(Table::Analytics, key, end.to_vec());
    }
}

/// Somebody has written: perhaps a reply.
pub(crate) fn note_reply(
    context: &mut Context<'_>,
    from: Phone,
    at: Timestamp,
) -> Result<(), Unavailable> {
    let prefix = [context.core.id.as_str().as_bytes(), b"\0r"].concat();
    let (mut recent, mut over) = (Vec::new(), Vec::new());
    let store = context.records.store;
    let visit = &mut |key: &[u8], value: &[u8]| {
        let Some((begun, id)) = key[prefix.len()..].split_first_chunk() else {
            return ControlFlow::Continue(());
        };
        let begun = Timestamp::from_millis(u64::from_be_bytes(*begun));
        let end = value.first_chunk().map(|end| Timestamp::from_millis(u64::from_be_bytes(*end)));
        match id.try_into().map(BroadcastId::from_bytes) {
            Ok(id) if end.is_none_or(|end| at < end) => recent.push((begun, id)),
            _ => over.push(key.to_vec()),
        }
        match recent.len() + over.len() < LOOKED_AT_MAX {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    };
    store.scan(Table::Analytics, &prefix, None, Direction::Backward, visit).map_err(unreadable)?;
    for key in over {
        context.delete(Table::Analytics, key);
    }
    for (_, id) in recent.into_iter().filter(|(begun, _)| *begun <= at) {
        if replied_to(context, id, from)? {
            return Ok(());
        }
    }
    Ok(())
}

/// Whether a broadcast's message went out to this phone; it has replied then.
fn replied_to(
    context: &mut Context<'_>,
    id: BroadcastId,
    from: Phone,
) -> Result<bool, Unavailable> {
    let place = place_of(context.records.store, &context.core.id, id, from).map_err(unreadable)?;
    let Some(place) = place else { return Ok(false) };
    let Some(record) = broadcasts::find(context, id)? else { return Ok(false) };
    let (key, at) = (window_key(&context.core.id, id, place / WINDOW), (place % WINDOW) as usize);
    let marks = context.get(Table::BroadcastOutcomes, &key)?;
    let marks = marks.map(|bytes| Window::decode(&bytes)).transpose().map_err(unreadable)?;
    let reports = context.get(Table::BroadcastReports, &key)?;
    let reports = reports.map(|bytes| Reports::decode(&bytes)).transpose().map_err(unreadable)?;
    let mut reports = reports.unwrap_or_default();
    let went_out = match (reports.of(at), marks.and_then(|marks| marks.mark(at))) {
        (Some(report), _) => report != Report::Failed,
        (None, mark) => matches!(mark, Some(Mark::Sent | Mark::Unknown | Mark::Claimed)),
    };
    if went_out && reports.reply(at) {
        context.put(Table::BroadcastReports, key, reports.encode());
        note(context, &record, |counts| counts.replied += 1)?;
    }
    Ok(went_out)
}
