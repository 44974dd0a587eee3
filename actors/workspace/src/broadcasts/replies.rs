//! Attributes a message that a contact wrote to the broadcast that it replies to.
//!
//! A recipient may reply while a broadcast is sent, and within three days of its end. The reply is
//! to the last broadcast whose message went out to them. Each recipient counts once.
//!
//! [`Table::Analytics`] has, under `workspace ‖ 0`:
//! - `r ‖ begin ‖ broadcast` for each broadcast that may be replied to. The value is empty while it
//!   is sent, and then the end of its replies.
//! - `p ‖ phone` for each phone that has written: the version (1) and the start of the newest
//!   searched broadcast. Then, for each broadcast of which the phone is a recipient, its start, its
//!   id and the recipient's place (u32). All are big endian.

use std::ops::ControlFlow;
use std::time::Duration;

use postrider_broadcast::audience::place_of;
use postrider_broadcast::outcomes::{Mark, Window};
use postrider_broadcast::outcomes::{Report, Reports};
use postrider_broadcast::record::{Record, WINDOW, window_key};
use postrider_domain::unavailable::Unavailable;
use postrider_domain::{BroadcastId, Phone, Timestamp, WorkspaceId};
use postrider_store::{Direction, StoreError, Table, View};

use crate::analytics::note;
use crate::broadcasts;
use crate::core::command::Context;
use crate::core::view::Reader;
use crate::core::view::unreadable;
use crate::sweep::{Look, RecordKeys};

/// The time after a broadcast's end for which a message is still a reply.
const REPLIES_FOR: Duration = Duration::from_secs(3 * 24 * 3600);
/// The maximum of broadcasts that a message is looked for in: the last that started.
const LOOKED_AT_MAX: usize = 32;

const VERSION: u8 = 1;
/// The bytes of a start, an id and a place.
const ENTRY_BYTES: usize = 8 + 16 + 4;
/// The value for no place.
const NOWHERE: u32 = u32::MAX;

/// A broadcast that may be replied to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LiveBroadcast {
    begun: Timestamp,
    id: BroadcastId,
    /// The end of its replies; `None` while it is sent.
    end: Option<Timestamp>,
}

/// The broadcasts that may be replied to, and the keys of those that no longer can be.
#[derive(Debug, Default)]
pub(crate) struct LiveBroadcasts {
    /// The last broadcasts that started, newest first.
    live: Vec<LiveBroadcast>,
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
        let (prefix, mut found) = (live_prefix(workspace), Self::default());
        let visit = &mut |key: &[u8], value: &[u8]| {
            let Some((begun, id)) = key[prefix.len()..].split_first_chunk() else {
                return ControlFlow::Continue(());
            };
            let moment = |bytes: &[u8; 8]| Timestamp::from_millis(u64::from_be_bytes(*bytes));
            let (begun, end) = (moment(begun), value.first_chunk().map(moment));
            match id.try_into().map(BroadcastId::from_bytes) {
                Ok(id) if end.is_none_or(|end| now < end) => {
                    found.live.push(LiveBroadcast { begun, id, end });
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

fn live_prefix(workspace: &WorkspaceId) -> Vec<u8> {
    [workspace.as_str().as_bytes(), b"\0r"].concat()
}

fn live_key(context: &Context<'_>, begun: Timestamp, id: BroadcastId) -> Vec<u8> {
    let begun = begun.as_millis().to_be_bytes();
    [&*live_prefix(&context.core.id), &begun, id.as_bytes()].concat()
}

/// Notes that a broadcast starts: it may be replied to.
pub(crate) fn note_start(context: &mut Context<'_>, record: &Record) {
    if let Some(begun) = record.started_at {
        let key = live_key(context, begun, record.id);
        context.put(Table::Analytics, key, Vec::new());
    }
}

/// Notes that a broadcast is over: its replies have an end.
pub(crate) fn note_end(context: &mut Context<'_>, record: &Record) {
    if let Some(begun) = record.started_at {
        let key = live_key(context, begun, record.id);
        let end = context.now().plus(REPLIES_FOR).as_millis().to_be_bytes();
        context.put(Table::Analytics, key, end.to_vec());
    }
}

/// One recipient of a broadcast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct BroadcastRecipient {
    broadcast: BroadcastId,
    place: u32,
}

/// The result of the lookup of a message.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReplyLookup {
    /// The recipient that replies with it, unless they have before.
    recipient: Option<BroadcastRecipient>,
    /// The new record of the phone, if it has changed.
    remembered: Option<Vec<u8>>,
}

impl ReplyLookup {
    /// Writes the new record of the phone.
    fn keep(&self, context: &mut Context<'_>, phone: Phone) {
        if let Some(remembered) = &self.remembered {
            let key = phone_key(&context.core.id, &phone.key_bytes());
            context.put(Table::Analytics, key, remembered.clone());
        }
    }
}

/// Notes that a contact has written, perhaps as a reply, by the result of the lookup.
pub(crate) fn note_reply(
    context: &mut Context<'_>,
    from: Phone,
    found: &ReplyLookup,
) -> Result<(), Unavailable> {
    if let Some(recipient) = &found.recipient
        && let Some(record) = broadcasts::find(context, recipient.broadcast)?
    {
        count_reply(context, *recipient, &record)?;
    }
    found.keep(context, from);
    Ok(())
}

/// Counts the reply of a recipient, once, if the message still went out to them.
fn count_reply(
    context: &mut Context<'_>,
    recipient: BroadcastRecipient,
    record: &Record,
) -> Result<(), Unavailable> {
    let BroadcastRecipient { broadcast, place } = recipient;
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
fn went_out(
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

/// Returns the key of the record of a phone.
pub(crate) fn phone_key(workspace: &WorkspaceId, phone: &[u8; 8]) -> Vec<u8> {
    [workspace.as_str().as_bytes(), b"\0p", phone].concat()
}

/// Returns the record of a phone, if there is one.
///
/// # Errors
/// [`StoreError`]: the store cannot be read.
pub(crate) fn record_of_phone(look: &Look<'_>, phone: &[u8; 8]) -> Result<RecordKeys, StoreError> {
    let key = phone_key(look.workspace, phone);
    let is_there = look.store.get(Table::Analytics, &key)?.is_some();
    Ok(is_there.then_some((Table::Analytics, key)).into_iter().collect())
}

/// The record of a phone that has written.
///
/// With it each broadcast's audience is searched once for a phone, by its first message after the
/// broadcast started. A further message reads four records however many broadcasts there are. The
/// record can be rebuilt from the audiences: it is written when a phone writes, and not for a
/// million recipients of whom few do. It is deleted with the messages of the phone.
#[derive(Debug, Default, PartialEq, Eq)]
struct PhoneRecord {
    /// The start of the newest searched broadcast.
    last: Timestamp,
    /// The broadcasts of which the phone is a recipient, with its place.
    ///
    /// The other broadcasts of the last moment are included, with `None`.
    broadcasts: Vec<(Timestamp, BroadcastId, Option<u32>)>,
}

impl PhoneRecord {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(&self.last.as_millis().to_be_bytes());
        for (begun, id, place) in &self.broadcasts {
            bytes.extend_from_slice(&begun.as_millis().to_be_bytes());
            bytes.extend_from_slice(id.as_bytes());
            bytes.extend_from_slice(&place.unwrap_or(NOWHERE).to_be_bytes());
        }
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Self, StoreError> {
        let damaged = || StoreError::Damaged("the broadcasts that a phone may reply to".into());
        let moment = |bytes: &[u8; 8]| Timestamp::from_millis(u64::from_be_bytes(*bytes));
        let (version, rest) = bytes.split_first().ok_or_else(damaged)?;
        let (last, rest) = rest.split_first_chunk().ok_or_else(damaged)?;
        let (entries, left) = rest.as_chunks::<ENTRY_BYTES>();
        if *version != VERSION || !left.is_empty() {
            return Err(damaged());
        }
        let entry = |entry: &[u8; ENTRY_BYTES]| {
            let (begun, rest) = entry.split_first_chunk()?;
            let (id, place) = rest.split_first_chunk()?;
            let place = u32::from_be_bytes(place.try_into().ok()?);
            let place = (place != NOWHERE).then_some(place);
            Some((moment(begun), BroadcastId::from_bytes(*id), place))
        };
        let broadcasts = entries.iter().map(entry).collect::<Option<_>>().ok_or_else(damaged)?;
        Ok(Self { last: moment(last), broadcasts })
    }

    /// Returns the phone's place in a broadcast; the outer `None` if it was not searched.
    fn place_in(&self, live: &LiveBroadcast) -> Option<Option<u32>> {
        let known = self.broadcasts.iter().find(|(_, id, _)| *id == live.id);
        known.map(|(.., place)| *place).or_else(|| (live.begun < self.last).then_some(None))
    }
}

/// Finds, beside the actor, the broadcast to which a message of a phone, written at `at`, replies.
///
/// # Errors
/// [`StoreError`]: the store cannot be read.
pub(crate) fn look_up(
    reader: &mut Reader<'_>,
    workspace: &WorkspaceId,
    (phone, at): (Phone, Timestamp),
    broadcasts: &LiveBroadcasts,
) -> Result<ReplyLookup, StoreError> {
    let key = phone_key(workspace, &phone.key_bytes());
    let bytes = reader.get(Table::Analytics, key)?;
    // It can be rebuilt, so an unreadable one costs no message.
    let before =
        bytes.map(|bytes| PhoneRecord::decode(&bytes)).transpose().unwrap_or_else(|error| {
            tracing::warn!(%workspace, %error, "it is made again");
            None
        });
    let before = before.unwrap_or_default();
    let last = broadcasts.live.first().map_or(before.last, |live| live.begun.max(before.last));
    let (mut recipient, mut is_found) = (None, false);
    let mut remembered = PhoneRecord { last, broadcasts: Vec::new() };
    for live in &broadcasts.live {
        let place = match before.place_in(live) {
            Some(place) => place,
            None => place_of(reader.store(), workspace, live.id, phone)?,
        };
        if place.is_some() || live.begun == last {
            remembered.broadcasts.push((live.begun, live.id, place));
        }
        let may_reply = live.begun <= at && live.end.is_none_or(|end| at < end);
        let Some(place) = place.filter(|_| may_reply && !is_found) else { continue };
        let key = window_key(workspace, live.id, place / WINDOW);
        let marks = reader.store().get(Table::BroadcastOutcomes, &key)?;
        let reports = reader.get(Table::BroadcastReports, key)?;
        let in_window = (place % WINDOW) as usize;
        let (went_out, mut reports) = went_out(marks, reports, in_window)?;
        is_found = went_out;
        let is_first = went_out && reports.reply(in_window);
        recipient = is_first.then_some(BroadcastRecipient { broadcast: live.id, place });
    }
    let is_news = remembered != before;
    Ok(ReplyLookup { recipient, remembered: is_news.then(|| remembered.encode()) })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use postrider_domain::golden::{AT, Sheet, UNIQUE};

    #[test]
    fn what_is_remembered_of_a_phone_is_stored_as_ever() {
        let [first, second] = [1, 2].map(|number| BroadcastId::from_parts(AT, UNIQUE + number));
        let mut sheet = Sheet::default();
        sheet.text("key", &phone_key(&"acme".parse().unwrap(), &15_550_123_456_u64.to_be_bytes()));
        for of_phone in [
            PhoneRecord::default(),
            PhoneRecord {
                last: AT,
                broadcasts: vec![(AT, first, Some(0x0102)), (AT, second, None)],
            },
        ] {
            sheet.bytes("broadcasts", &of_phone.encode());
            assert_eq!(PhoneRecord::decode(&of_phone.encode()), Ok(of_phone));
        }
        sheet.is(expect![[r#"
            key: acme\x00p\x00\x00\x00\x03\x9e\xdc\r\xc0
            broadcasts: 010000000000000000
            broadcasts:
                010000018bcfe5687b0000018bcfe5687b018bcfe5687b0102030405060708090b00000102000001
                8bcfe5687b018bcfe5687b0102030405060708090cffffffff
        "#]]);
        for damaged in [&[][..], &[2; 9], &[VERSION; 8], &[VERSION; 10]] {
            assert!(PhoneRecord::decode(damaged).is_err(), "{damaged:?}");
        }
    }
}
